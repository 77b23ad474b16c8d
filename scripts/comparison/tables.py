"""Tables of what ``scripts/compare.py`` measured, for pages and the terminal; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import markdown_tables
from benchmark.rows import Machine

from comparison.rows import (
    CostKey,
    FailureKey,
    Half,
    Language,
    Named,
    Report,
    Row,
    Run,
    Share,
    TokenKey,
)

Rows = Mapping[str, Row]
OURS = "skillsearch"
PROBABLE = 0.05


def in_order(rows: Rows) -> list[tuple[str, Row]]:
    """Return ours first, then by nDCG@10, and what failed last."""
    return sorted(rows.items(), key=lambda item: (item[0] != OURS, -item[1].get("ndcg", [-1])[0]))


def share(value: Share | None) -> str:
    """Return a mean with its interval, in percent."""
    if value is None:
        return ""
    mean, low, high = (100 * part for part in value)
    return f"{mean:.1f} ({low:.0f}-{high:.0f})"


def ndcg(row: Row) -> str:
    """Return nDCG@10, with a star if it differs from ours beyond chance."""
    return share(row.get("ndcg")) + ("*" if row.get("p_holm", 1) < PROBABLE else "")


def false_answers(row: Row) -> str:
    """Return for how many unanswerable requests a skill fits, and for how many more one may."""
    if "fits" not in row:
        return ""
    more = row["named"][0] - row["fits"][0]
    return share(row["fits"]) + (f" +{100 * more:.0f} perhaps" if more else "")


def none(row: Named) -> str:
    """Return for how many unanswerable requests no skill is named, in percent."""
    return f"{100 * (1 - row['named'][0]):.0f}" if "named" in row else ""


def number(key: CostKey, form: str) -> Callable[[Row], str]:
    """Return what formats a figure of a row, and is empty where there is none."""
    return lambda row: form.format(row[key]) if key in row else ""


def cell_of(key: CostKey, form: str, failed: FailureKey) -> Callable[[Row], str]:
    """Return what formats a figure of a server or hook, or says that it failed."""
    return lambda row: form.format(row[key]) if key in row else "fails" * (failed in row)


def tokens_of(key: TokenKey, failed: FailureKey) -> Callable[[Row], str]:
    """Return what formats the tokens of a server or hook, or says that it failed."""

    def tokens(row: Row) -> str:
        counts = row.get("tokens", {})
        if key in counts:
            return f"{counts[key]:,.0f}"
        return "fails" * (failed in counts or failed in row)

    return tokens


QUALITY: Mapping[str, Callable[[Row], str]] = {
    "nDCG@10": ndcg,
    "Success@1": lambda row: share(row.get("success_1")),
    "Success@5": lambda row: share(row.get("success_5")),
    "recall": lambda row: share(row.get("told")),
    "false answers": false_answers,
    "recall at 5 % false answers": lambda row: share(row.get("kept")),
}
COST: Mapping[str, Callable[[Row], str]] = {
    "index": number("index_cpu_s", "{:.2f} s"),
    "cold": number("cold_cpu_s", "{:.2f} s"),
    "warm": number("warm_cpu_ms", "{:.1f} ms"),
    "memory": number("rss_mb", "{:.0f} MB"),
    "size": number("install_mb", "{:.0f} MB"),
    "server greets": cell_of("server_cpu_s", "{:.2f} s", "server_failed"),
    "server answers": cell_of("first_answer_cpu_s", "{:.2f} s", "server_failed"),
    "hook": cell_of("hook_cpu_s", "{:.2f} s", "hook_failed"),
}
TOKENS: Mapping[str, Callable[[Row], str]] = {
    "tools": tokens_of("definitions", "server_failed"),
    "answer": tokens_of("answer", "server_failed"),
    "hook": tokens_of("hook", "hook_failed"),
}


def table(rows: Rows, columns: Mapping[str, Callable[[Row], str]]) -> list[str]:
    """Return the lines of a table, a row for each system; without figures, why there are none."""
    lines = []
    for system, row in in_order(rows):
        cells = [make(row) for make in columns.values()]
        if not any(cells) and "failed" in row:
            cells[0] = row["failed"]
        lines.append([system, *cells])
    return with_figures(["system", *columns], lines)


def with_figures(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table of the rows that have more than a name."""
    return markdown_tables.table(heads, (row for row in rows if any(row[1:])))


def tokens_table(rows: Rows) -> list[str]:
    """Return the lines of a table of what agents read, of systems that have a server or hook."""
    return table(rows, TOKENS)


def languages_table(rows: Rows) -> list[str]:
    """Return nDCG@10 and R@5 of each system by the language of requests, as two percentages."""
    spoken = next((row["languages"] for row in rows.values() if "languages" in row), {})
    heads = ["system", *(f"{name} ({row['requests']})" for name, row in spoken.items())]
    lines = []
    for system, row in in_order(rows):
        figures = (row.get("languages", {}).get(name) for name in spoken)
        lines.append([system, *map(language_cell, figures)])
    return with_figures(heads, lines)


def language_cell(figures: Language | None) -> str:
    """Return nDCG@10 and R@5 of a language in percent, empty if it was not measured."""
    return f"{100 * figures['ndcg']:.0f}, {100 * figures['recall']:.0f}" if figures else ""


def fits(row: Named) -> str:
    """Return for how many unanswerable requests a skill fits."""
    return share(row.get("fits"))


def of_kind(kind: str, make: Callable[[Named], str]) -> Callable[[Row], str]:
    """Return what formats a figure of one kind of unanswerable requests."""
    return lambda row: make(row.get("kinds", {}).get(kind, {}))


BESIDE: Sequence[tuple[str, str, Callable[[Row], str]]] = (
    ("written", "twins: fits", fits),
    ("written", "none", none),
    ("written", "near: fits", of_kind("near", fits)),
    ("written", "none", of_kind("near", none)),
    ("written", "far: fits", of_kind("far", fits)),
    ("written", "none", of_kind("far", none)),
    ("real-nothing", "real skills: fits", fits),
    ("real-nothing", "none", none),
    ("written", "contrast pairs", lambda row: share(row.get("contrast"))),
    ("requests-hard", "hard ones", lambda row: share(row.get("contrast"))),
    ("requests-hard", "hard requests: nDCG@10", ndcg),
)
"""Columns of what is measured beside the ranking, and the collection of each."""


def beside_table(collections: Mapping[str, Rows]) -> list[str]:
    """Return what systems do with requests that nothing fits, by kind, and with contrast pairs.

    The order is that of the first of these collections that was measured; of others there are no
    columns.
    """
    columns = [column for column in BESIDE if column[0] in collections]
    first = collections[columns[0][0]] if columns else {}
    rows = (
        [system, *(make(collections[name].get(system, {})) for name, _, make in columns)]
        for system, _ in in_order(first)
    )
    return with_figures(["system", *(name for _, name, _ in columns)], rows)


def when(rows: Rows, half: Half) -> str:
    """Say when, at which commit and where a half of the rows was measured; most rows first."""
    runs: defaultdict[str, list[str]] = defaultdict(list)
    for system, row in in_order(rows):
        runs[run_of(row.get("measured", {}).get(half), half)].append(system)
    missing = runs.pop("", [])
    order = sorted(runs.items(), key=lambda item: -len(item[1]))
    parts = [f"{', '.join(names)} on {run}" for run, names in order[1:]]
    parts += [f"not yet: {', '.join(missing)}"] if missing else []
    return "; ".join([f"Measured on {order[0][0]}" if order else "Not measured", *parts]) + "."


def run_of(measured: Run | Machine | None, half: Half) -> str:
    """Say when and at which commit a run was, and for costs on what machine, if it is known."""
    if not measured:
        return ""
    text = f"{measured['date']} at `{measured['commit']}`"
    if half == "cost":
        text += f", {measured['cpus']} cores"
        if "import_numpy_cpu_s" in measured:
            numpy = f"`import numpy` in {measured['import_numpy_cpu_s']:.2g} CPU s"
            text += f", Python {measured['python']}, {numpy}"
    return text


def show(report: Report) -> None:
    """Print all tables, as Markdown."""
    for name, rows in report["collections"].items():
        skills, requests, unanswered = report["sizes"][name]
        print(f"\n**{name}**: {skills} skills, {requests} requests, {unanswered} that nothing fits")
        for lines in (
            table(rows, QUALITY),
            languages_table(rows),
            table(rows, COST),
            tokens_table(rows),
        ):
            print("", *lines, sep="\n")
    print("", *beside_table(report["collections"]), sep="\n")
