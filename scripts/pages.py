"""Writes what pages take from tables of the code and from measured results.

Usage: python scripts/pages.py [--check]

Such a part of a page stands between ``<!-- NAME -->`` and ``<!-- end of NAME -->``. A test fails if
one is old; ``--check`` names those and exits with 1.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import answers
import attack_tables
import bench_plots
import bench_report
import bench_rows
import bench_scale
import click
import compare_rows
import compare_tables
import end_to_end_counts
import markdown_tables
import measure_improve
import replay_usage

from skillsearch.cli.app import EXIT_MEANINGS, app
from skillsearch.evaluation.assess import means
from skillsearch.evaluation.comparison import share_interval
from skillsearch.hosts.table import hosts
from skillsearch.index.search.evidence import MEANINGS
from skillsearch.settings.config import SETTINGS, text_of
from skillsearch.text.languages import LANGUAGE_NAMES
from skillsearch.text.states import BOUNDS

SCRIPTS = Path(__file__).resolve().parent
CHECKOUT = SCRIPTS.parent
RESULTS = SCRIPTS / "results"
NIGHTLY = RESULTS / "nightly"
"""Of nights, a file for each."""
USUAL_SKILLS = 10_000
"""The first screen speaks of the smallest corpus with so many."""
README = "README.md"
MEASURED = "scripts/README.md"
COMMAND_LINE = "skillsearch/cli/README.md"
EVALUATION = "skillsearch/evaluation/README.md"
COLLECTION = "skillsearch/evaluation/written/README.md"
WRITTEN_TEXTS = CHECKOUT / "skillsearch" / "evaluation" / "written"
WRITTEN = RESULTS / "written.tsv"
"""What ``skillsearch eval --drop-relevant`` printed of both editions of the written collection."""
EDITIONS = (("written", ""), ("first", ", first edition"))
KINDS = ("twin", "near", "far", "dropped relevant")
EVERYDAY = ("korean", "one-liners", "translated", "metatool", "metatool-multi")
OF_SKILLS = ("nvidia", "salesforce", "salesforce-variants", "skill-evals", "swe")
OF_REQUESTS = ("authors-tasks", "authors", "requests-0", "requests-1", "requests-languages")
BESIDE = ("requests-translated", "requests-hard", "real-development")
"""Collections that are in no mean."""
MODEL = CHECKOUT / "skillsearch" / "models" / "e5"
EMBEDDER = ("model.onnx", "model.onnx_data", "words.bin")
READER = ("reader.onnx", "reader.onnx_data")
IN_SHORT = {
    "ten by others: everyday tools, agents' skills, software": (*EVERYDAY, *OF_SKILLS),
    "two of requests by unseen writers, with near siblings": ("requests-0", "requests-1"),
    "two by authors of 932 skills, for their own": ("authors", "authors-tasks"),
    "requests in 17 languages for English skills": ("requests-languages",),
}
COLUMNS = {
    "hybrid": "read",
    "not read": "not read",
    "bm25": "bm25",
    "dense": "dense",
    "recall": "recall",
    "shown": "shown terminal",
    "ECE": "ece first",
    "AUROC dropped": "auroc dropped",
    "AUROC twins": "auroc twin",
    "AUROC foreign": "auroc foreign",
    "false: dropped": "dropped answered",
    "twins": "twin answered",
    "foreign": "foreign answered",
}


ABLATED = {
    "nDCG@10": "read",
    "recall": "recall",
    "twins that fit": "twin answered",
    "AUROC dropped": "auroc dropped",
    "AUROC twins": "auroc twin",
    "AUROC foreign": "auroc foreign",
    "ECE": "ece first",
}
"""Measures of which the table of ablations says what a part is worth, in points."""
READ = ("readers", "searches")
RUN = ("runs", "callers_killed", "mounts_left")
"""What the results of a night say of readers, and of runs."""
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


def hosts_table() -> str:
    """Return a row for each host: where it looks, whose skill wins, what we can do for it."""
    heads = ["host", "skills of the user", "of a project", "first", "plugins", "server", "hook"]
    rows = []
    for name, row in hosts().items():
        cells = [f"{row['title']} (`{name}`)", _paths(row["skills"]), _paths(row["project"])]
        cells += [row.get("first", ""), "yes" if "plugins" in row else ""]
        cells += ["yes" if key in row else "" for key in ("servers", "hook")]
        rows.append(cells)
    return _table(heads, rows)


def _paths(templates: Sequence[str]) -> str:
    """Return folders as code, by the usual name of one that a variable may move."""
    usual = (re.sub(r"\{\w+:([^}]*)\}", r"\1", template) for template in templates)
    return ", ".join(f"`{path}`" for path in usual)


def settings_table() -> str:
    """Return a row for each setting: its name and its text."""
    rows = ((f"`{name}`", text_of(name)) for name in SETTINGS)
    return _table(["setting", "what it says"], rows)


def commands_table() -> str:
    """Return a row for each command: how it is typed, and the first sentence of its help."""
    context = click.Context(app)
    rows = []
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        assert command is not None
        pieces = command.collect_usage_pieces(click.Context(command, info_name=name))
        typed = " ".join(["skillsearch", name, *pieces[1:]]).replace("|", r"\|")
        sentence = " ".join((command.help or "").partition("\n\n")[0].split())
        rows.append((f"`{typed}`", sentence))
    return _table(["command", "what it does"], rows)


def exit_codes_table() -> str:
    """Return a row for each exit code."""
    rows = ((str(code), text) for code, text in EXIT_MEANINGS.items())
    return _table(["exit code", "meaning"], rows)


@overload
def measured(name: Literal["bench"]) -> bench_rows.Report: ...


@overload
def measured(name: Literal["compare"]) -> compare_rows.Report: ...


@overload
def measured(name: Literal["end_to_end"]) -> end_to_end_counts.Report: ...


@overload
def measured(name: Literal["answers"]) -> answers.Report: ...


@overload
def measured(name: Literal["attack"]) -> attack_tables.Report: ...


@overload
def measured(name: Literal["improve"]) -> measure_improve.Report: ...


@overload
def measured(name: Literal["usage"]) -> replay_usage.Report: ...


@overload
def measured(name: Literal["quality", "scale"]) -> dict[str, Any]: ...


def measured(name: str) -> object:
    """Return what a script measured and wrote to the file of a name."""
    return json.loads((RESULTS / f"{name}.json").read_bytes())


def speed(*, is_short: bool) -> str:
    """Return what ``bench.py`` measured; a short table has the first rows alone."""
    report = measured("bench")
    return bench_report.section(report, is_short=is_short)


def hook_waits() -> str:
    """Return how long a prompt waits for the daemon that its hook asks."""
    waits = ", ".join(
        f"{row['hook']['wall_s']:.2f} s beside {row['skills']:,}".removeprefix("0")
        for row in measured("bench")["sizes"]
    )
    return f"Later prompts wait for {waits} skills (median, whole process)."


def last_night(step: str) -> tuple[dict[str, float], str]:
    """Return what a step found in the last night in which it ran, and the date."""
    nights = (
        json.loads(path.read_bytes())
        for path in sorted(NIGHTLY.glob("20??-??-??.json"), reverse=True)
    )
    night = next(one for one in nights if step in one["steps"])
    return night["steps"][step]["found"], night["date"]


def soaked() -> str:
    """Return what came of the last night in which ``soak_mcp.py`` ran."""
    found, date = last_night("mcp")
    calls, errors = (f"{found[key]:,.0f}" for key in ("calls", "errors"))
    halves = [found[f"resident_mb.{half}_half"] for half in ("first", "second")]
    return (
        f"{calls} calls, {errors} errors; {halves[0]:.0f} MB in the first half of the time, "
        f"{halves[1]:.0f} MB in the second, {found['resident_mb.most']:.0f} MB at most "
        f"({date})."
    )


def soaked_index() -> str:
    """Return what came of the last nights in which ``soak_index.py`` ran."""
    killed, on = last_night("kills")
    kills = (
        f"{killed['killed']:,.0f} writers were killed at {killed['skills']:,.0f} skills: "
        f"{killed['faults']:,.0f} wrong answers or leftovers ({on})."
    )
    read, on = last_night("readers")
    ways = ("opening anew", "kept open")
    readers, searches = (sum(read[f"{way} {key}"] for way in ways) for key in READ)
    return (
        f"{kills} {readers:.0f} processes made {searches:,.0f} searches at {read['skills']:,.0f} "
        f"skills, while another wrote {read['generations written']:,.0f} generations: "
        f"{read['faults']:,.0f} errors or torn reads ({on})."
    )


def soaked_runs() -> str:
    """Return what came of the last night in which ``soak_run.py`` ran."""
    found, date = last_night("run")
    runs, killed, left = (
        sum(value for key, value in found.items() if key.endswith(f".{end}")) for end in RUN
    )
    texts = (
        f"{runs:,.0f} runs",
        f"{killed:,.0f} of their callers killed",
        f"{left:,.0f} mounts left",
    )
    return f"{', '.join(texts)} ({date})."


def compared() -> dict[str, dict[str, compare_rows.Row]]:
    """Return the rows of what ``compare.py`` measured on each collection."""
    return measured("compare")["collections"]


def peers(half: compare_rows.Half) -> str:
    """Return the table of one half of the comparison on the written collection, and of when."""
    rows = compared()["written"]
    columns = {"quality": compare_tables.QUALITY, "cost": compare_tables.COST}[half]
    return "\n".join([*compare_tables.table(rows, columns), "", compare_tables.when(rows, half)])


def peers_by_language() -> str:
    """Return nDCG@10 and R@5 of compared systems by the language of requests."""
    return "\n".join(compare_tables.languages_table(compared()["written"]))


def peers_beside() -> str:
    """Return what compared systems do when nothing fits, and with contrast pairs."""
    collections = compared()
    lines = compare_tables.beside_table(collections)
    whens = [
        f"{name}: {compare_tables.when(collections[name], 'quality')}"
        for name in ("requests-hard", "real-nothing")
        if name in collections
    ]
    return "\n".join([*lines, "", *whens])


def peers_tokens() -> str:
    """Return what an agent reads of compared systems."""
    return "\n".join(compare_tables.tokens_table(compared()["written"]))


def end_to_end() -> str:
    """Return the table of what ``end_to_end.py`` measured."""
    return end_to_end_counts.table(measured("end_to_end"))


def milvus() -> str:
    """Return how answers from Milvus compare with those of a local index."""
    return bench_scale.milvus_text(measured("scale")["milvus"])


def ray() -> str:
    """Return how fast Ray embeds."""
    return bench_scale.ray_text(measured("scale")["ray"])


def attacks(part: attack_tables.Part) -> str:
    """Return a table of what ``attack.py`` measured, and of how many skills."""
    report = measured("attack")
    settings, when = report["settings"], compare_tables.run_of(report["machine"], "quality")
    said = (
        f"{settings['honest']:,} honest skills, {settings['attackers']} attackers, "
        f"{settings['measured']} measured requests, reader {settings['reader']}; "
        f"on {when}."
    )
    return "\n".join([*attack_tables.TABLES[part](report), "", said])


def answered() -> str:
    """Return what ``answers.py`` measured, and when."""
    report = measured("answers")
    when = f"Measured on {compare_tables.run_of(report['machine'], 'quality')}."
    return "\n".join([*answers.table(report), "", when])


def usage() -> str:
    """Return what ``replay_usage.py`` measured of repeated requests, and of new ones."""
    report = measured("usage")
    rows = report["collections"].values()
    new = [100 * row["changes"]["new Success@1"][0] for each in rows for row in each["loads"]]
    asked, when = sum(row["requests"] for row in rows), report["machine"]
    said = (
        f"New requests change by {min(new):+.1f} to {max(new):+.1f} points. {asked} requests, in "
        f"brackets intervals of 95 %; measured on {compare_tables.run_of(when, 'quality')}."
    )
    return "\n".join([*replay_usage.table(report), "", said])


def improved() -> str:
    """Return what ``measure_improve.py`` measured, and for how many skills a number is raised."""
    report = measured("improve")
    count = report["collections"]["all"]
    raised, room = count["chosen any"], count["with room"]
    low, high = share_interval(raised / room, room)
    said = (
        f"So recall is raised for {raised} of {room} skills with room, {raised / room:.0%} "
        f"({low:.0%} to {high:.0%}). Measured on "
        f"{compare_tables.run_of(report['machine'], 'quality')}."
    ).replace("%", " %")
    return "\n".join([*measure_improve.table(report), "", said])


def faces() -> str:
    """Return a row for each face: its bound, what it shows, and to whom it says "none"."""
    left_out = measured("quality")["collections"].values()
    asked = measured("answers")["collections"]
    heads = ["face", "bound", "right skills shown", 'foreign requests told "none"']
    heads += ["200 over real skills", "100 short ones"]
    rows = []
    for face, bound in BOUNDS.items():
        shares = [
            statistics.mean(row[key] for row in left_out if row.get(key) is not None)
            for key in (f"shown {face}", f"none {face}")
        ]
        shares += [
            asked[name]["unanswerable"]["nothing"]["none"][face]
            for name in ("real-nothing", "real-short")
        ]
        cells = map(answers.in_percent, shares)
        rows.append((f"{face}: {USED_BY[face]}", f"{bound:g}", *cells))
    said = (
        f"The first two shares are means of {len(left_out)} collections, each left out of the fit."
    )
    return "\n".join([_table(heads, rows), "", said])


def quality() -> str:
    """Return a row for each collection and their mean, then for those `BESIDE` it.

    Last comes the mean of all others, which are in other languages.
    """
    report = measured("quality")
    fitted, margins = report["collections"], report["margins"]
    names = (*OF_REQUESTS, *EVERYDAY, *OF_SKILLS)
    others = [name for name in fitted if name not in {*names, *BESIDE}]
    groups = {name: [name] for name in names} | {"**mean**": [*names]}
    groups |= {name: [name] for name in BESIDE} | {f"in other languages: {len(others)}": others}
    rows = []
    for head, group in groups.items():
        row, cells = means(fitted[name] for name in group), []
        for measure in COLUMNS.values():
            cell = _figure(row.get(measure), measure)
            if all(measure in margins[name] for name in group):
                squares = sum(margins[name][measure] ** 2 for name in group)
                cell += f" ± {_share(math.sqrt(squares) / len(group))}"
            cells.append(cell)
        rows.append([head, *cells])
    twins = (
        f"{kind} {row['auroc twin']:.3f} ({row['style twin']:.3f})"
        for kind, row in report["kinds"].items()
        if "auroc twin" in row
    )
    said = f"AUROC against twins by kind, and of style alone: {', '.join(twins)}."
    return "\n".join([_table(["collection", *COLUMNS], rows), "", said])


def ablation() -> str:
    """Return a row for each part of the fit: what measures lose or gain without it.

    Parts without which none changes are named below the table.
    """
    rows, idle = [], []
    for name, row in measured("quality")["ablation"].items():
        if not any(row.values()):
            idle.append(f"`{name.removeprefix('feature ')}`")
            continue
        cells = [f"`{name}`: {MEANINGS[name]}" if name in MEANINGS else name]
        for measure in ABLATED.values():
            # Of a feature, the order by features alone is known.
            key = "hybrid" if measure == "read" and "hybrid" in row else measure
            cell = f"{round(100 * row[key], 1) or 0.0:+.1f}" if key in row else ""
            margin = row.get(f"{key} margin")
            cells.append(cell if margin is None else f"{cell} ± {_share(margin)}")
        rows.append(cells)
    said = f"Nothing changes without {', '.join(dict.fromkeys(idle))}."
    return "\n".join([_table(["without", *ABLATED], rows), "", said])


def quality_in_short() -> str:
    """Return a row for each kind of collection, with the means of its collections."""
    fitted = measured("quality")["collections"]
    rows = []
    for text, names in IN_SHORT.items():
        row = means(fitted[name] for name in names)
        cells = (_figure(row[measure], measure) for measure in ("read", "bm25", "dense"))
        rows.append([text, *cells])
    return _table(["judged collections", "hybrid", "BM25 alone", "dense alone"], rows)


def figures() -> str:
    """Return what a reader of the first screen asks, a row for each, with its figure."""
    fitted = measured("quality")["collections"]
    ten = means(fitted[name] for name in (*EVERYDAY, *OF_SKILLS))
    nothing = measured("answers")["collections"]["real-nothing"]["unanswerable"]["nothing"]
    real, *_ = measured("compare")["sizes"]["real-nothing"]
    report = measured("bench")
    middle = next(row for row in report["sizes"] if row["skills"] >= USUAL_SKILLS)
    cold = middle["cold_query"]["on"]
    library = measured("end_to_end")["libraries"][1]
    hook, listing = library["ways"]["hook"], library["ways"]["claude-code"]
    mb = {
        part: sum((MODEL / name).stat().st_size for name in names) / 1e6
        for part, names in {"embed": EMBEDDER, "read": READER}.items()
    }
    rows = (
        (
            "nDCG@10, mean of ten judged collections that the fit never saw",
            f"{_share(ten['read'])}; BM25 alone {_share(ten['bm25'])},"
            f" embeddings alone {_share(ten['dense'])}",
        ),
        (
            "the same for requests in 17 languages, over English skills",
            _share(fitted["requests-languages"]["read"]),
        ),
        (
            f"{nothing['requests']} requests that none of {real:,} real skills fits: those that get"
            " one all the same; those that get an empty list",
            "; ".join(map(answers.in_percent, (nothing["answered"], nothing["none"]["list"]))),
        ),
        (
            f"first answer of a new process, {middle['skills']:,} skills",
            f"{bench_report.digits(cold['cpu_s'])} CPU s, {cold['rss_mb']:.0f} MB",
        ),
        (
            f"what the hook adds to a prompt, with {library['skills']:,} skills (it offers the"
            f" right one in {100 * hook['right']['whole']:.0f} % of tasks)",
            f"{hook['tokens']:,.0f} tokens; all names in Claude Code: {listing['tokens']:,.0f}",
        ),
        (
            "models, in the package: no torch, no hub, no network",
            f"{mb['embed']:.0f} MB to embed, {mb['read']:.0f} MB to read",
        ),
    )
    return _table(["what is measured", "figure"], rows)


def _share(value: float) -> str:
    return f"{100 * value:.1f}"


class Written(NamedTuple):
    """What was measured on the written collection, by edition, system and measure."""

    figures: Mapping[tuple[str, str, str], Sequence[float]]

    @classmethod
    def read(cls) -> Written:
        """Read each value, with its interval if there is one."""
        lines = WRITTEN.read_text(encoding="utf-8").splitlines()
        rows = (line.split("\t") for line in lines)
        return cls({(a, b, c): [float(cell) for cell in rest if cell] for a, b, c, *rest in rows})

    @property
    def systems(self) -> list[str]:
        """The systems, in order."""
        return list(dict.fromkeys(system for _, system, _ in self.figures if system != "style"))

    def percent(self, edition: str, system: str, measure: str, at: int = 0) -> str:
        """Return a share in percent, empty if it was not measured."""
        values = self.figures.get((edition, system, measure), [])
        return f"{100 * values[at]:.1f}" if values else ""

    def auroc(self, edition: str, system: str, kind: str) -> str:
        """Return an AUROC, empty if it was not measured."""
        values = self.figures.get((edition, system, f"AUROC {kind}"), [])
        return f"{values[0]:.3f}" if values else ""

    def ranked(self, edition: str, system: str) -> list[str]:
        """Return how well a system ranks, and to how many it says that a right skill fits."""
        low, high = (self.percent(edition, system, "nDCG@10", at) for at in (1, 2))
        parts = (f"{edition}: {part}" for part in ("same language", "cross-language"))
        shares = [self.percent(edition, system, name) for name in ("nDCG@10", "R@5", "Success@1")]
        shares.insert(1, f"{low}-{high}")
        shares.append(", ".join(self.percent(part, system, "nDCG@10") for part in parts))
        return [*shares, self.percent(edition, system, "recall answerable")]

    def unanswered(self, edition: str, kind: str) -> list[str]:
        """Return what is said to requests that nothing fits, and how well scores tell them."""
        states = (f"{state} {kind}" for state in ("false", "perhaps", "none"))
        said = [self.percent(edition, "hybrid", state) for state in states]
        aurocs = [self.auroc(edition, system, kind) for system in ("style", *self.systems)]
        few = f"recall at 5 % false {kind}"
        return [*said, *aurocs, *(self.percent(edition, system, few) for system in self.systems)]


def written_ranked() -> str:
    """Return how well each system ranks the requests of both editions."""
    found = Written.read()
    heads = ["nDCG@10", "95 %", "R@5", "Success@1", "same language, cross-language", "recall"]
    return _table(
        ["system", *heads],
        (
            [f"{one}{text}", *found.ranked(name, one)]
            for name, text in EDITIONS
            for one in found.systems
        ),
    )


def written_unanswered() -> str:
    """Return what is said to each kind of requests that nothing fits."""
    found = Written.read()
    heads = ["fits", "perhaps", "none", "AUROC of style"]
    heads += [f"AUROC of {name}" for name in found.systems]
    heads += [f"{name}: recall at 5 % false" for name in found.systems]
    rows = (
        [f"{kind}{text}", *found.unanswered(name, kind)]
        for name, text in EDITIONS
        for kind in KINDS
    )
    return "\n".join(compare_tables.with_figures(["kind", *heads], rows))


def written_by_language() -> str:
    """Return nDCG@10 of each system by the language of the requests."""
    found = Written.read()
    rows = []
    for code, language in LANGUAGE_NAMES.items():
        cells = [found.percent(f"written: {code}", system, "nDCG@10") for system in found.systems]
        rows += [[language, *cells]] if any(cells) else []
    return _table(["requests in", *found.systems], rows)


def written_by_kind() -> str:
    """Return the recall of hybrid search by the kind of the requests."""
    found = Written.read()
    kinds = "short plain reworded contrast task error mail typos odd".split()
    cells = [found.percent("written", "hybrid", f"recall {kind}") for kind in kinds]
    return _table(["kind", *kinds], [["recall", *cells]])


def written_counts(key: str) -> str:
    """Return how many texts the written collection has by a key: their kind or language.

    A request that nothing fits counts as of the kind of the request that it is like.
    """
    skills, requests, negatives = (
        [json.loads(line) for line in (WRITTEN_TEXTS / f"{name}.jsonl").read_bytes().splitlines()]
        for name in ("corpus", "queries", "negatives")
    )
    kinds = {request["_id"]: request["kind"] for request in requests}

    def of_negative(text: Mapping[str, str]) -> str:
        return kinds[text.get("twin_of") or text["matches"]] if key == "kind" else text[key]

    counts = {"requests": Counter(request[key] for request in requests)}
    if key == "lang":
        counts["skills"] = Counter(skill.get(key) for skill in skills)
    for kind in KINDS[:3]:
        counts[kind] = Counter(of_negative(text) for text in negatives if text["kind"] == kind)
    rows = (
        [LANGUAGE_NAMES.get(value, value), *(str(each[value]) for each in counts.values())]
        for value, _ in counts["requests"].most_common()
    )
    return _table([{"lang": "language"}.get(key, key), *counts], rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(markdown_tables.table(heads, rows))


def _figure(value: float | None, measure: str) -> str:
    if value is None:
        return ""
    is_error = measure.startswith(("ece", "auroc"))
    return f"{value:.3f}" if is_error else _share(value)


PARTS = (
    Part(README, "figures", figures),
    Part(README, "quality", quality_in_short),
    Part(EVALUATION, "quality", quality),
    Part(EVALUATION, "ablation", ablation),
    Part(EVALUATION, "answers", answered),
    Part("skillsearch/index/README.md", "faces", faces),
    Part(COLLECTION, "counts by kind", partial(written_counts, "kind")),
    Part(COLLECTION, "counts by language", partial(written_counts, "lang")),
    Part(COLLECTION, "ranked", written_ranked),
    Part(COLLECTION, "unanswered", written_unanswered),
    Part(COLLECTION, "by language", written_by_language),
    Part(COLLECTION, "by kind", written_by_kind),
    Part(README, "speed", partial(speed, is_short=True)),
    Part(MEASURED, "speed", partial(speed, is_short=False)),
    Part("skillsearch/daemon/README.md", "hook", hook_waits),
    Part("skillsearch/mcp_server/README.md", "soak", soaked),
    Part("skillsearch/execution/README.md", "soak", soaked_runs),
    Part(MEASURED, "soak", soaked_index),
    Part(MEASURED, "peers: quality", partial(peers, "quality")),
    Part(MEASURED, "peers: languages", peers_by_language),
    Part(MEASURED, "peers: nothing and pairs", peers_beside),
    Part(MEASURED, "peers: tokens", peers_tokens),
    Part(MEASURED, "peers: cost", partial(peers, "cost")),
    Part(MEASURED, "end to end", end_to_end),
    Part(MEASURED, "ray", ray),
    Part("skillsearch/models/e5/README.md", "quality", quality_in_short),
    Part("skillsearch/remote/README.md", "milvus", milvus),
    Part("skillsearch/usage/README.md", "usage", usage),
    Part("skillsearch/reports/README.md", "improve", improved),
    *(Part(MEASURED, f"attacks: {part}", partial(attacks, part)) for part in attack_tables.TABLES),
    Part(README, "commands", commands_table),
    Part(COMMAND_LINE, "exit codes", exit_codes_table),
    Part(COMMAND_LINE, "settings", settings_table),
    Part("skillsearch/hosts/README.md", "hosts", hosts_table),
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
    if bench_plots.digest(sizes).encode() not in bench_report.PLOT.read_bytes():
        old.append(str(bench_report.PLOT.relative_to(CHECKOUT)))
        if not is_check:
            bench_plots.plot_growth(sizes, bench_report.PLOT)
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
