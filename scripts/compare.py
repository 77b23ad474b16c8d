"""Compare skillsearch with what else could be installed, each in an environment of its own.

Usage: python scripts/compare.py [--collections DIR...] [--nothing SKILLS] [--peers NAME...]
                                 [--measure quality|cost...] [--work DIR] [--fresh] [--resume]
                                 [--json FILE] [--plot FILE.png] [--publish]

Peers come from the package registry in the versions that `comparison.environments` names;
`comparison.peers` says how each is asked, `comparison.interfaces` how its server and hook are.
Their code runs in their environments alone, with a home folder of its own and without network. The
weights of all-MiniLM-L6-v2, which some would fetch, come from a package. A peer that fails is a row
that says why; the exit status is 1 only if skillsearch does.

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
import sys
import tempfile
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from benchmark.measures import machine
from benchmark.rows import Machine
from comparison.environments import (
    CHECKOUT,
    OURS,
    PEERS,
    Environment,
    PeerError,
    install,
    jail,
    version_of,
)
from comparison.jobs import Job, jobs
from comparison.judge import judge
from comparison.measure import COST, QUALITY, measure
from comparison.rows import Half, Report, Row, Run
from comparison.tables import show

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.collection import EXAMPLE

WRITTEN = EXAMPLE.with_name("written")
PUBLISHED = CHECKOUT / "scripts" / "results" / "compare.json"


class Course(NamedTuple):
    """What is measured of each system, and what is taken from before."""

    work: Path
    halves: Sequence[Half] = (QUALITY, COST)
    is_fresh: bool = False
    resumes: bool = False


def compare(tasks: Sequence[Job], names: Sequence[str], course: Course) -> Report:
    """Install each peer and measure it on each collection; what fails is said in its row."""
    rows: dict[str, dict[str, Row]] = {job.collection.name: {} for job in tasks}
    packages: dict[str, list[str]] = {}
    here = machine()
    for name in names:
        started = time.perf_counter()
        environment, rows_of_peer = try_peer(name, tasks, course, here)
        if environment:
            packages[name] = environment.packages
        for collection, row in rows_of_peer.items():
            rows[collection][name] = row
        print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    for job in tasks:
        judge_rows(job, rows[job.collection.name])
    sizes = {job.collection.name: job.sizes for job in tasks}
    return {"collections": rows, "sizes": sizes, "packages": packages, "network": not jail()}


def try_peer(
    name: str, tasks: Sequence[Job], course: Course, here: Machine
) -> tuple[Environment | None, dict[str, Row]]:
    """Install a peer and return its environment and its row of each collection.

    Once it has failed, its rows say why.
    """
    environment, failure = None, ""
    try:
        folder = course.work / "environments" / name
        environment = install(PEERS[name], folder, fresh=course.is_fresh)
    except PeerError as exc:
        failure = f"not installed: {exc}"
    rows: dict[str, Row] = {}
    for job in tasks:
        row: Row = {"kind": PEERS[name].kind}
        try:
            if environment:
                row |= row_of(name, environment, job, course, here)
        except PeerError as exc:
            failure = str(exc)
        if failure:
            row["failed"] = failure
        rows[job.collection.name] = row
    return environment, rows


def judge_rows(job: Job, rows: dict[str, Row]) -> None:
    """Put in the place of answers how good they are, in the rows of a collection."""
    answers = {name: row.pop("answers") for name, row in rows.items() if "answers" in row}
    if answers:
        for name, judged in judge(job.collection, answers, job.pairs).items():
            rows[name] = {**rows[name], **judged}


def row_of(name: str, environment: Environment, job: Job, course: Course, here: Machine) -> Row:
    """Measure a system on a collection, or take what was; when each half was is among it."""
    key = sha256(f"{job.digest}{version_of(PEERS[name])}".encode()).hexdigest()[:12]
    file = course.work / "runs" / name / f"{job.collection.name}-{key}.json"
    saved: dict[Half, Any] = {}
    if course.resumes and file.exists():
        saved = json.loads(file.read_bytes())
    halves = [half for half in course.halves if half == QUALITY or job.is_first]
    if missing := [half for half in halves if half not in saved]:
        run: Run = {**here, "sizes": job.sizes}
        for half, figures in measure(name, environment, job, file.parent, missing).items():
            saved[half] = {**figures, "measured": run}
        file.write_text(json.dumps(saved), encoding="utf-8")
    row: Row = {"measured": {half: saved[half].pop("measured") for half in halves}}
    for half in halves:
        row |= saved[half]
    return row


def joined(before: Report | None, report: Report) -> Report:
    """Return a report with what an earlier one has and this one did not measure."""
    if before is None:
        return report
    collections: dict[str, dict[str, Row]] = {}
    for name in {**before["collections"], **report["collections"]}:
        old, new = (run["collections"].get(name, {}) for run in (before, report))
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


def make_parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
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
    return parser


def main() -> None:
    """Compare, print, draw."""
    parser = make_parser()
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
        from comparison.plot import draw

        draw(report, plot)
    if args.publish:
        import pages

        pages.bring_up_to_date()
    rows = (row for rows in report["collections"].values() for row in rows.values())
    sys.exit(any("failed" in row for row in rows if row["kind"] == OURS))


if __name__ == "__main__":
    main()
