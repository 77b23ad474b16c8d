"""Make the figures of all pages anew, by the scripts that measure them.

Usage: python scripts/figures.py --material DIR [--only NAME...] [--results DIR] [--work DIR]
       python scripts/figures.py --quick [--only NAME...] [--results DIR]

A step writes a result file that says on which machine, at which commit and when it was measured;
the last step takes them into the pages. DIR is a folder with judged collections (``eval``), real
skills (``corpus/real``) and more of them in a file (``train/skills.jsonl.gz``), which are no part
of this repository. It takes hours. ``--quick`` tries everything small, on what is in the package,
and leaves results and pages alone. Exits with 1 if a step failed, and says which and why.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import steps
from compare import WRITTEN
from page_parts.fit import BESIDE, EVERYDAY, OF_REQUESTS, OF_SKILLS
from steps import SCRIPTS, Step, last_line

from skillsearch.embedders.embedder import PACKAGED_MODEL
from skillsearch.evaluation.collection import EXAMPLE

TIMEOUT_S, QUICK_TIMEOUT_S = 24 * 3600, 900
REAL = "real-development"
FITTED = [
    *EVERYDAY,
    *OF_SKILLS,
    *OF_REQUESTS,
    *BESIDE,
]
FITTED.remove(REAL)
FOREIGN = ["chinese", "russian", "spanish"]
FOREIGN += [f"{name}-cross" for name in ("metatool", "nvidia", "one-liners", "salesforce")]
FOREIGN += ["skill-evals-cross"]
"""In other languages; `fit_fusion.py` makes them. No model of the package has seen any of these."""
STEPS = {
    "collections": Step(
        "real_collections.py", "{material}/corpus/real {work}/collections", "{examples} {work}/made"
    ),
    "quality": Step(
        "fit_fusion.py --work {work}/fit --output {work}/calibration.json "
        "--results {results}/quality.json --ablation",
        "--queries 150 --threshold 0.65 --reader {model} {work}/collections/" + REAL + " "
        f"{' '.join(f'{{material}}/eval/{name}' for name in FITTED)} "
        f"--unseen {' '.join([REAL, *FITTED, *FOREIGN])}",
        "{example} {written} --queries 6",
    ),
    "answers": Step(
        "answers.py --results {results}/answers.json --work {work}/answers",
        "{material}/eval/requests-0 {material}/eval/requests-1 {material}/eval/requests-hard "
        "{work}/collections/real-nothing {work}/collections/real-short "
        "--examples {material}/eval/examples.jsonl.gz",
        "{example}",
    ),
    "written": Step("measure_written.py --results {results}/written.json", "", "{example}"),
    "usage": Step(
        "replay_usage.py --results {results}/usage.json --work {work}/usage",
        "{material}/eval/requests-0 {material}/eval/requests-1 {material}/eval/authors --seeds 2",
        "{example} --seeds 1 --queries 20",
    ),
    "improve": Step(
        "measure_improve.py --results {results}/improve.json",
        "{material}/eval/nvidia {material}/eval/requests-0 {material}/eval/requests-1 "
        "{material}/eval/authors --examples {material}/eval/examples.jsonl.gz",
        "{example} --skills 1 --reader off",
    ),
    "speed": Step(
        "bench.py --results {results}/bench.json",
        "--skills {material}/corpus/real --work {work}/bench "
        "--sizes 1000,10000,100000,300000,1000000",
        "--originals 12 --sizes 40",
    ),
    "peers": Step(
        "compare.py --json {results}/compare.json --plot {results}/compare.png --work {work}/peers",
        "--collections {written} {material}/eval/requests-hard --nothing {material}/corpus/real",
        "--peers skillsearch rank-bm25 --collections {example}",
    ),
    "attacks": Step(
        "attack.py --json {results}/attack.json --work {work}/attacks",
        "{material}/eval/requests-0 {material}/eval/requests-1 --background "
        "{material}/eval/requests-2 {material}/eval/requests-3 "
        "--ordinary {material}/train/skills.jsonl.gz",
        "{example} --background {written} --attackers 4 --queries 8 --reader off "
        "--kinds none ordinary stuffing --trust fetched",
    ),
    "end-to-end": Step(
        "end_to_end.py --results {results}/end_to_end.json --work {work}/libraries",
        "{material}/eval/requests-0 {material}/eval/requests-1 --fillers {material}/corpus/real "
        "--agent {material}/eval/requests-agent",
        "{example} --fillers {examples} --sizes 20 --timed 1 --requests 4",
    ),
    "scale": Step(
        "bench_scale.py --results {results}/scale.json",
        "{material}/corpus/real --queries "
        + " ".join(f"{{material}}/eval/{name}" for name in (*EVERYDAY, *OF_SKILLS)),
        "{examples} --queries {example} --per-collection 6 --embedded 4",
    ),
    "pages": Step("pages.py", "", "--check"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Carry out the steps, and tell what failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--material", type=Path, help="folder of collections and real skills")
    parser.add_argument("--quick", action="store_true", help="try everything small")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS), metavar="NAME")
    parser.add_argument("--results", type=Path, help="where result files go [scripts/results]")
    parser.add_argument("--work", type=Path, help="keep indexes and environments of peers here")
    args = parser.parse_args(arguments)
    if not (args.quick or args.material):
        parser.error("name the folder of what is measured (--material), or give --quick")
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder)
        names = folders(
            material=args.material or temporary,
            results=args.results or (temporary if args.quick else SCRIPTS / "results"),
            work=args.work or temporary / "work",
        )
        timeout = QUICK_TIMEOUT_S if args.quick else TIMEOUT_S
        passed = [
            carry_out(name, step.words(names, is_quick=args.quick), timeout)
            for name, step in STEPS.items()
            if name in args.only
        ]
    sys.exit(not all(passed))


def folders(*, material: Path, results: Path, work: Path) -> dict[str, Path]:
    """Return what names in braces stand for in the steps; the folders that they fill are made."""
    for folder in (results, work):
        folder.mkdir(parents=True, exist_ok=True)
    return {
        "material": material.absolute(),
        "results": results.absolute(),
        "work": work.absolute(),
        "example": EXAMPLE,
        "written": WRITTEN,
        "examples": PACKAGED_MODEL.parents[1] / "examples",
        "model": PACKAGED_MODEL,
    }


def carry_out(name: str, words: Sequence[str], timeout: float) -> bool:
    """Run a step, print how it ended, and return whether it made its figures."""
    ended = steps.run(words, timeout)
    last = last_line(ended.errors) or last_line(ended.output)
    why = "took too long" if ended.code is None else f"ended with {ended.code}: {last}"
    print(f"{name}: {why if ended.code != 0 else 'made'}, {ended.seconds} s", flush=True)
    return ended.code == 0


if __name__ == "__main__":
    main()
