"""Writes what pages take from tables of the code and from measured results.

Usage: python scripts/pages.py [--check]

Such a part of a page stands between ``<!-- NAME -->`` and ``<!-- end of NAME -->``. A test fails if
one is old; ``--check`` names those and exits with 1.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import answers
import attacks.tables
import bench_scale
import benchmark.plots
import benchmark.report
import comparison.rows
import comparison.tables
import markdown_tables
import measure_improve
import page_parts.code
import page_parts.figures
import page_parts.fit
import page_parts.soaks
import page_parts.written
import replay_usage
import turns.counts
from page_parts.results import measured

from skillsearch.evaluation.comparison import share_interval
from skillsearch.text.states import BOUNDS

CHECKOUT = Path(__file__).resolve().parents[1]
README = "README.md"
MEASURED = "scripts/README.md"
COMMAND_LINE = "skillsearch/cli/README.md"
EVALUATION = "skillsearch/evaluation/README.md"
COLLECTION = "skillsearch/evaluation/written/README.md"
USED_BY = {
    "list": "`SkillIndex.search`, every `search_skills`, MCP",
    "prompt": "`hook`, `prompt`",
    "terminal": "`query`, `find`",
    "page": "`ui`",
}


class Part(NamedTuple):
    """A part of a page: the page, the name between the marks, and what makes its text."""

    page: str
    name: str
    make: Callable[[], str]


def speed(*, is_short: bool) -> str:
    """Return what ``bench.py`` measured; a short table has the first rows alone."""
    report = measured("bench")
    return benchmark.report.section(report, is_short=is_short)


def hook_waits() -> str:
    """Return how long a prompt waits for the daemon that its hook asks."""
    waits = ", ".join(
        f"{row['hook']['wall_s']:.2f} s beside {row['skills']:,}".removeprefix("0")
        for row in measured("bench")["sizes"]
    )
    return f"Later prompts wait for {waits} skills (median, whole process)."


def compared() -> dict[str, dict[str, comparison.rows.Row]]:
    """Return the rows of what ``compare.py`` measured on each collection."""
    return measured("compare")["collections"]


def peers(half: comparison.rows.Half) -> str:
    """Return the table of one half of the comparison on the written collection, and of when."""
    rows = compared()["written"]
    columns = {"quality": comparison.tables.QUALITY, "cost": comparison.tables.COST}[half]
    return "\n".join(
        [*comparison.tables.table(rows, columns), "", comparison.tables.when(rows, half)]
    )


def peers_by_language() -> str:
    """Return nDCG@10 and R@5 of compared systems by the language of requests."""
    return "\n".join(comparison.tables.languages_table(compared()["written"]))


def peers_beside() -> str:
    """Return what compared systems do when nothing fits, and with contrast pairs."""
    collections = compared()
    lines = comparison.tables.beside_table(collections)
    whens = [
        f"{name}: {comparison.tables.when(collections[name], 'quality')}"
        for name in ("requests-hard", "real-nothing")
        if name in collections
    ]
    return "\n".join([*lines, "", *whens])


def peers_tokens() -> str:
    """Return what an agent reads of compared systems."""
    return "\n".join(comparison.tables.tokens_table(compared()["written"]))


def end_to_end() -> str:
    """Return the table of what ``end_to_end.py`` measured."""
    return turns.counts.table(measured("end_to_end"))


def milvus() -> str:
    """Return how answers from Milvus compare with those of a local index."""
    return bench_scale.milvus_text(measured("scale")["milvus"])


def ray() -> str:
    """Return how fast Ray embeds."""
    return bench_scale.ray_text(measured("scale")["ray"])


def attack_table(part: attacks.tables.Part) -> str:
    """Return a table of what ``attack.py`` measured, and of how many skills."""
    report = measured("attack")
    settings, when = report["settings"], comparison.tables.run_of(report["machine"], "quality")
    note = (
        f"{settings['honest']:,} honest skills, {settings['attackers']} attackers, "
        f"{settings['measured']} measured requests, reader {settings['reader']}; "
        f"on {when}."
    )
    return "\n".join([*attacks.tables.TABLES[part](report), "", note])


def answered() -> str:
    """Return what ``answers.py`` measured, and when."""
    report = measured("answers")
    when = f"Measured on {comparison.tables.run_of(report['machine'], 'quality')}."
    return "\n".join([*answers.table(report), "", when])


def usage() -> str:
    """Return what ``replay_usage.py`` measured of repeated requests, and of new ones."""
    report = measured("usage")
    rows = report["collections"].values()
    changes = [100 * loads["changes"]["new Success@1"][0] for row in rows for loads in row["loads"]]
    requests, when = sum(row["requests"] for row in rows), report["machine"]
    note = (
        f"New requests change by {min(changes):+.1f} to {max(changes):+.1f} points. {requests} "
        "requests, in brackets intervals of 95 %; measured on "
        f"{comparison.tables.run_of(when, 'quality')}."
    )
    return "\n".join([*replay_usage.table(report), "", note])


def improved() -> str:
    """Return what ``measure_improve.py`` measured, and for how many skills a number is raised."""
    report = measured("improve")
    count = report["collections"]["all"]
    raised, room = count["chosen any"], count["with room"]
    low, high = share_interval(raised / room, room)
    note = (
        f"So recall is raised for {raised} of {room} skills with room, {raised / room:.0%} "
        f"({low:.0%} to {high:.0%}). Measured on "
        f"{comparison.tables.run_of(report['machine'], 'quality')}."
    ).replace("%", " %")
    return "\n".join([*measure_improve.table(report), "", note])


def faces() -> str:
    """Return a row for each face: its bound, what it shows, and to whom it says "none"."""
    left_out = measured("quality")["collections"].values()
    answered_collections = measured("answers")["collections"]
    heads = ["face", "bound", "right skills shown", 'foreign requests told "none"']
    heads += ["200 over real skills", "100 short ones"]
    rows = []
    for face, bound in BOUNDS.items():
        shares = [
            statistics.mean(row[key] for row in left_out if row.get(key) is not None)
            for key in (f"shown {face}", f"none {face}")
        ]
        shares += [
            answered_collections[name]["unanswerable"]["nothing"]["none"][face]
            for name in ("real-nothing", "real-short")
        ]
        cells = map(answers.in_percent, shares)
        rows.append((f"{face}: {USED_BY[face]}", f"{bound:g}", *cells))
    note = (
        f"The first two shares are means of {len(left_out)} collections, each left out of the fit."
    )
    return "\n".join([*markdown_tables.table(heads, rows), "", note])


PARTS = (
    Part(README, "figures", page_parts.figures.figures),
    Part(README, "quality", page_parts.fit.quality_in_short),
    Part(EVALUATION, "quality", page_parts.fit.quality),
    Part(EVALUATION, "ablation", page_parts.fit.ablation),
    Part(EVALUATION, "answers", answered),
    Part("skillsearch/index/README.md", "faces", faces),
    Part(COLLECTION, "counts by kind", partial(page_parts.written.counts, "kind")),
    Part(COLLECTION, "counts by language", partial(page_parts.written.counts, "lang")),
    Part(COLLECTION, "ranked", page_parts.written.ranked),
    Part(COLLECTION, "unanswered", page_parts.written.unanswered),
    Part(COLLECTION, "by language", page_parts.written.by_language),
    Part(COLLECTION, "by kind", page_parts.written.by_kind),
    Part(README, "speed", partial(speed, is_short=True)),
    Part(MEASURED, "speed", partial(speed, is_short=False)),
    Part("skillsearch/daemon/README.md", "hook", hook_waits),
    Part("skillsearch/mcp_server/README.md", "soak", page_parts.soaks.server),
    Part("skillsearch/execution/README.md", "soak", page_parts.soaks.runs),
    Part(MEASURED, "soak", page_parts.soaks.index),
    Part(MEASURED, "peers: quality", partial(peers, "quality")),
    Part(MEASURED, "peers: languages", peers_by_language),
    Part(MEASURED, "peers: nothing and pairs", peers_beside),
    Part(MEASURED, "peers: tokens", peers_tokens),
    Part(MEASURED, "peers: cost", partial(peers, "cost")),
    Part(MEASURED, "end to end", end_to_end),
    Part(MEASURED, "ray", ray),
    Part("skillsearch/models/e5/README.md", "quality", page_parts.fit.quality_in_short),
    Part("skillsearch/remote/README.md", "milvus", milvus),
    Part("skillsearch/usage/README.md", "usage", usage),
    Part("skillsearch/reports/README.md", "improve", improved),
    *(
        Part(MEASURED, f"attacks: {part}", partial(attack_table, part))
        for part in attacks.tables.TABLES
    ),
    Part(README, "commands", page_parts.code.commands_table),
    Part(COMMAND_LINE, "exit codes", page_parts.code.exit_codes_table),
    Part(COMMAND_LINE, "settings", page_parts.code.settings_table),
    Part("skillsearch/hosts/README.md", "hosts", page_parts.code.hosts_table),
)


def with_part(text: str, part: Part) -> str:
    """Return the text of a page with one of its parts as it should be; it needs its marks once."""
    begin, end = f"<!-- {part.name} -->\n", f"<!-- end of {part.name} -->\n"
    made = f"{begin}{part.make()}\n{end}"
    changed, count = re.subn(f"{begin}.*?{end}", lambda _: made, text, flags=re.DOTALL)
    if count != 1:
        marks = f"the marks of {part.name} once; it has them {count} times"
        raise SystemExit(f"{part.page} needs {marks}.")
    return changed


def bring_up_to_date(*, is_check: bool = False) -> list[str]:
    """Write all parts and the plot of the growth, and name those that were old; or only name."""
    old = []
    for part in PARTS:
        page = CHECKOUT / part.page
        text = page.read_text(encoding="utf-8")
        changed = with_part(text, part)
        if changed != text:
            old.append(f"{part.page}: {part.name}")
            if not is_check:
                page.write_text(changed, encoding="utf-8")
    sizes = measured("bench")["sizes"]
    if benchmark.plots.digest(sizes).encode() not in benchmark.report.PLOT.read_bytes():
        old.append(str(benchmark.report.PLOT.relative_to(CHECKOUT)))
        if not is_check:
            benchmark.plots.plot_growth(sizes, benchmark.report.PLOT)
    return old


def main(arguments: Sequence[str] | None = None) -> None:
    """Write all parts and the plot of the growth, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="name what is old, write nothing")
    is_check = parser.parse_args(arguments).check
    old = bring_up_to_date(is_check=is_check)
    print("\n".join(old) or "All parts of the pages are as they should be.")
    sys.exit(bool(old) and is_check)


if __name__ == "__main__":
    main()
