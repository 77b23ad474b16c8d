"""Measure what goes past one process: an index in Milvus, and embedding on Ray.

Usage: python scripts/bench_scale.py SKILLS --queries COLLECTION... [--per-collection 60]
                                     [--embedded 200] [--only milvus|ray] [--results FILE]

The skills of a folder are indexed on this machine and in a server of milvus-lite, started for this
run, and both are asked the same requests: their answers are compared, and the time of the client is
taken. Then Ray embeds skills with one worker and with two, each time without any saved vector. What
is measured joins the results of before. Needs pymilvus, milvus-lite and ray.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NotRequired, TypedDict

from benchmark.measures import machine, save_report
from benchmark.rows import Machine

from skillsearch.evaluation.collection import load_collection
from skillsearch.index.skill_index import SkillIndex
from skillsearch.remote.remote_index import RemoteIndex
from skillsearch.types.answers import SearchResult

SHOWN = 5
WAIT_SECONDS = 120
WORKERS = (1, 2)


class MilvusRow(TypedDict):
    """How an index in Milvus answers: shares of the requests, gaps of scores, and times.

    The shares are of requests whose answer equals that of a local index in some respect.
    """

    machine: Machine
    skills: int
    requests: int
    index_s: float
    unchanged_s: float
    same_hits: float
    same_state: float
    same_first: float
    same_shown: float
    score_gap_p99: float
    search_s: float
    search_s_p95: float
    client_cpu_ms: float


class RayRow(TypedDict):
    """How many skills are embedded in a second, by the number of workers."""

    machine: Machine
    skills: int
    skills_per_s: dict[str, float]


class Report(TypedDict):
    """All that was measured."""

    machine: Machine
    milvus: NotRequired[MilvusRow]
    ray: NotRequired[RayRow]


@contextmanager
def milvus_server(folder: Path) -> Iterator[str]:
    """Run the gRPC server of milvus-lite on loopback, and give its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "milvus_lite", "server", "--data-dir", str(folder / "data")]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline and server.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise SystemExit(
                f"milvus-lite does not listen; it said:\n{(folder / 'log').read_text()}"
            )
        yield f"http://127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(WAIT_SECONDS)


def read_queries(collections: Sequence[Path], per_collection: int) -> list[str]:
    """Return the first requests of each collection."""
    return [
        query.text
        for folder in collections
        for query in load_collection(folder).queries[:per_collection]
    ]


def named(result: SearchResult) -> list[str]:
    """Return the skills that a result says fit, best first."""
    return [hit.doc_id for hit in result.hits]


def bench_milvus(skills: Path, queries: Sequence[str], work: Path) -> MilvusRow:
    """Compare answers of both kinds of index, with the default threshold and without any."""
    roots = sorted(path for path in skills.iterdir() if path.is_dir())
    local = SkillIndex.from_roots(roots, index_dir=work / "index")
    with milvus_server(work) as uri:
        started = time.perf_counter()
        with RemoteIndex.from_roots(roots, uri=uri) as remote:
            indexing_s = time.perf_counter() - started
            started = time.perf_counter()
            RemoteIndex.from_roots(roots, uri=uri).close()
            unchanged_s = time.perf_counter() - started
            remote.search(queries[0])
            wall, cpu, gaps = [], [], [0.0]
            same, states, first, shown = 0, 0, 0, 0.0
            for query in queries:
                cpu_before, wall_before = time.process_time(), time.perf_counter()
                answer = remote.search(query)
                wall.append(time.perf_counter() - wall_before)
                cpu.append(time.process_time() - cpu_before)
                expected = local.search(query)
                same += named(answer) == named(expected)
                states += answer.state == expected.state
                ranked = [index.search(query, n=SHOWN, threshold=0.0) for index in (remote, local)]
                first += named(ranked[0])[:1] == named(ranked[1])[:1]
                scores = [{hit.doc_id: hit.score for hit in result} for result in ranked]
                both = scores[0].keys() & scores[1].keys()
                shown += len(both) / max(len(scores[1]), 1)
                gaps += [abs(scores[0][name] - scores[1][name]) for name in both]
            cuts = statistics.quantiles(wall, n=100)
            count = len(queries)
            return {
                "machine": machine(),
                "skills": len(remote),
                "requests": count,
                "index_s": indexing_s,
                "unchanged_s": unchanged_s,
                "same_hits": same / count,
                "same_state": states / count,
                "same_first": first / count,
                "same_shown": shown / count,
                "score_gap_p99": statistics.quantiles(gaps, n=100)[98],
                "search_s": statistics.median(wall),
                "search_s_p95": cuts[94],
                "client_cpu_ms": 1000 * statistics.median(cpu),
            }


def bench_ray(skills: Path, count: int, work: Path) -> RayRow:
    """Embed the same skills with each number of workers, without saved vectors."""
    listing = work / "roots"
    folders = sorted(path.parent for path in skills.rglob("SKILL.md"))[:count]
    listing.write_text("\n".join(map(str, folders)) + "\n", encoding="utf-8")
    script = Path(__file__).with_name("embed_ray.py")
    speeds = {}
    for workers in WORKERS:
        home = work / f"home-{workers}"
        home.mkdir()
        command = [sys.executable, str(script), "--listing", str(listing), "--json"]
        command += ["--index-dir", str(home / "index"), "--workers", str(workers)]
        variables = {key: value for key, value in os.environ.items() if key[:4] != "XDG_"}
        done = subprocess.run(
            command, env=variables | {"HOME": str(home)}, stdout=subprocess.PIPE, check=True
        )
        speeds[str(workers)] = json.loads(done.stdout)["skills_per_second"]
    return {"machine": machine(), "skills": len(folders), "skills_per_s": speeds}


def milvus_text(report: MilvusRow) -> str:
    """Return what was measured of Milvus, as the page of it says it."""
    run = report["machine"]
    hits, states, first, shown = (
        f"{100 * share:.1f} %"
        for share in (
            report["same_hits"],
            report["same_state"],
            report["same_first"],
            report["same_shown"],
        )
    )
    gap, cpu_ms = report["score_gap_p99"], report["client_cpu_ms"]
    adding_ms = 1000 * report["index_s"] / report["skills"]
    lines = (
        f"Of {report['requests']:,} requests over {report['skills']:,} real skills "
        f"(milvus-lite over gRPC against a local index, {run['date']} at `{run['commit']}`)",
        f"{hits} had the same skills above the threshold, {states} the",
        f"same state, and {first} the same best skill with the threshold at 0; there",
        f"99 % of scores differed by at most {gap:.3f}, and {shown} of the five best",
        f"skills were the same. A search takes {report['search_s']:.2f} s (p95",
        f"{report['search_s_p95']:.2f} s) and {cpu_ms:.0f} ms of the client's CPU, with the",
        f"embedding of the request and the reader; adding a skill takes {adding_ms:.0f} ms, and",
        f"a look at all of them when none has changed {report['unchanged_s']:.1f} s.",
    )
    return " ".join(lines)


def ray_text(report: RayRow) -> str:
    """Return what was measured of Ray, as the page of it says it."""
    run, speeds = report["machine"], report["skills_per_s"]
    by_workers = ", ".join(f"{workers}: {speed:.0f} skills/s" for workers, speed in speeds.items())
    return (
        f"- **Speed**, by the number of workers on {run['cpus']} cores: {by_workers} "
        f"({report['skills']} skills, {run['date']} at `{run['commit']}`)."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("skills", type=Path, help="folder of roots with real skills")
    parser.add_argument("--queries", type=Path, nargs="+", help="judged collections", required=True)
    parser.add_argument("--per-collection", type=int, default=60, help="requests of each [60]")
    parser.add_argument("--embedded", type=int, default=200, help="skills for Ray [200]")
    parser.add_argument("--only", choices=("milvus", "ray"), help="measure one part alone")
    parser.add_argument("--results", type=Path, help="file that takes the figures, or joins them")
    args = parser.parse_args(arguments)
    report: Report = {"machine": machine()}
    if args.results and args.results.exists():
        before: Report = json.loads(args.results.read_bytes())
        report = {**before, **report}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if args.only != "ray":
            queries = read_queries(args.queries, args.per_collection)
            report["milvus"] = bench_milvus(args.skills, queries, work)
        if args.only != "milvus":
            report["ray"] = bench_ray(args.skills, args.embedded, work)
    if args.results:
        save_report(report, args.results)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
