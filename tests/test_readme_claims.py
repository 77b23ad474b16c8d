"""Every number of a page comes from a result file or from the code, or is known not to."""

import ast
import gzip
import json
import re
import runpy
import statistics
import tomllib
from pathlib import Path

import pytest

import skillsearch
from skillsearch.cli.commands import COMMANDS
from skillsearch.hosts.table import hosts
from skillsearch.index import freshness
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.reading import READ_MOST
from skillsearch.skills.example_requests import PACKAGED

PACKAGE = Path(skillsearch.__file__).parent
CHECKOUT = PACKAGE.parent
README = CHECKOUT / "README.md"
pytestmark = pytest.mark.skipif(not README.exists(), reason="an installed copy has no README")
WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
).split()
BIG_WORDS = ("thirty", "forty", "fifty", "hundred", "thousand", "million", "half", "third")
NUMBER = re.compile(
    r"(?<![\w@/.-])\.?\d[\d,.]*(?<![,.])|\b(?:" + "|".join((*WORDS[2:], *BIG_WORDS)) + r")\b", re.I
)
UNFILED = {
    "more than 100,000": "public registries say so of themselves",
    "room for about fifty": "by what hosts cut, with descriptions of usual length",
    "21 languages well and 80 less well": "by the requests of its training, and of e5",
    "requests in 17 languages": "requests-languages, which is not in this repository",
}
"""What no file here has yet, and where it is from. It should only get shorter."""
UNFILED_OF_PAGES = {
    "scripts/README.md": {
        "`skill-ninja` needs Python 3.12": "its metadata",
    },
    "skillsearch/ard/README.md": {
        "ARD is a draft (0.91) standard": "its specification",
        "Agent Skills Discovery 0.2": "its specification",
    },
    "skillsearch/cli/README.md": {"(Agent Skills Discovery 0.2)": "its specification"},
    "skillsearch/daemon/README.md": {
        f"| {host} {version} |": "the version whose contract was read"
        for host, version in (
            ("Claude Code", "2.1.197"),
            ("Codex", "0.171"),
            ("Gemini CLI", "0.61"),
        )
    },
    "skillsearch/embedders/README.md": {
        "21 languages well and 80 less well": "as `UNFILED` says",
    },
    "skillsearch/evaluation/written/README.md": {
        "Of 8,833 pairs 362 were graded by either judge, and 355 alike": "counted at that time",
        "(Cohen's kappa .990)": "as the one before",
    },
    "skillsearch/execution/README.md": {
        "programs of 32 bits": "what they are called",
        "can make one in version 1, and in version 2 at its root": "of control groups",
        "can make one in version 2 beside": "of control groups",
    },
    "skillsearch/index/README.md": {
        "30 were read by hand, and all were right": "families of real skills, when they were made",
    },
    "skillsearch/mcp_server/README.md": {
        f"| {host} {version} |": "the version that was run against a server"
        for host, version in (
            ("Claude Code", "2.1.332"),
            ("Codex", "0.171.0"),
            ("Gemini CLI", "0.61.0"),
            ("opencode", "1.18.33"),
        )
    },
    "skillsearch/models/e5/README.md": {
        "requests in 21 languages": "English, and the 20 of the translations",
        "in 8 bits": "the form of a graph",
        "8-bit ONNX": "the form of a graph",
    },
    "skillsearch/readers/README.md": {
        "**8 bits**": "the form of a graph",
        "(SmoothQuant, Xiao et al., 2023)": "the year of a paper",
    },
    "skillsearch/remote/README.md": {
        "some 1 MB of candidates": "their rows, counted at 3,000 real skills",
        "those of Milvus 2.6. The oldest version that works is 2.6.2": "its notes of changes",
        "Per skill and replica some 6.1 kB": "the rows of 3,000 real skills",
        "and 25 kB lie on disk": "the rows of 3,000 real skills",
        "a million skills need 6 GB of memory and 25 GB of disk": "the two before, a million times",
        "14 query nodes of 64 GB": "the same a hundred million times, two thirds full",
        "These are calculations from some 3,000 real skills": "scale.json has how many",
    },
    "skillsearch/reports/README.md": {
        "On 2,971 public skills all checks together flagged 50, of which 12 were false alarms": (
            "read by hand when the checks were made"
        ),
        "`heads-many` found 80 %, `stuffing` one in five with 40 added keywords and all with 80": (
            "as the one before"
        ),
        "Of 32,059 public texts, `lure` flags 32, all of which were read: 31": "as the one before",
    },
    "skillsearch/training/README.md": {
        "an 8-bit graph": "the form of a graph",
        "A weight of 8 bits": "the form of a graph",
    },
    "skillsearch/ui/README.md": {"by 3 to 1 or more": "the bound of tests/ui/test_map_page.py"},
}
"""The same for each other page."""

COMPARED = {
    "skillsearch/mcp_server/README.md": [r"[\d,]+ characters as sent", r"[\d,]+ characters in all"],
    "skillsearch/evaluation/README.md": [r"\n\| system \|.*AUROC negatives.*(?:\n\|.*)+"],
    "skillsearch/evaluation/written/README.md": [
        r"bodies of 60 to 200 words \(200 to 520 characters",
        r"tasks of 80 to\s+200\s+words",
        r"\d+ requests have several right skills, and\s+\d+ are",
    ],
    "skillsearch/agents/toolsets/README.md": [
        r"it finds \d+ of \d+ and answers \d+ of \d+ that no skill is for; search finds\s+\d+"
    ],
}
"""Parts of pages whose every figure another test compares with what it counts or what a run finds:
`test_docs.py`, `mcp_server/test_stdio.py`, `evaluation/test_written.py` and
`documents/test_collection.py`."""

EXAMPLED = ", with examples"
"""Ends the name of a collection whose skills have their example requests."""


def report(name):
    return json.loads((CHECKOUT / "scripts" / "results" / f"{name}.json").read_bytes())


def lines_of(path):
    """Return the records of a file of JSON lines that may be compressed."""
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
    return [json.loads(line) for line in lines]


def of_code():
    """Yield what the README says of the package."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    yield f"Python {project['requires-python'].removeprefix('>=')} or newer"
    yield f"[{','.join(sorted(project['optional-dependencies'].keys() & COMMANDS))}]"
    yield f"[{len(hosts())} hosts]"
    yield f"within {WORDS[int(freshness.MAX_AGE)].replace('one', 'a')} second"
    yield f"ours for {len(lines_of(PACKAGED)):,} public skills"
    yield f"the first {WORDS[READ_MOST]} hits"
    yield f"At the default threshold of {default_calibration().threshold}"
    fitted = json.loads((PACKAGE / "index" / "search" / "calibration.json").read_bytes())
    yield f"up to {fitted['provenance']['queries of a collection']} requests of each"


def of_answers():
    """Yield what it says of requests that a skill fits, and of those that nothing fits."""
    rows = report("answers")["collections"]
    two = [rows[f"requests-{number}"] for number in (0, 1)]
    recall = 100 * statistics.mean(row["recall"] for row in two)
    twins = 100 * statistics.mean(row["unanswerable"]["twin"]["answered"] for row in two)
    yield f"a right skill scores high enough for {recall:.0f} % of requests by writers that the fit"
    yield f"and {twins:.0f} % of twins"
    nothing = rows["real-nothing"]["unanswerable"]["nothing"]
    empty = 100 * nothing["none"]["list"]
    yield f'says "none" to {empty:.1f} % of requests that no skill fits'
    yield f"{100 * nothing['answered']:.1f} % get one too; the list stays empty for {empty:.1f} %"
    shares = [
        (
            row["requests"],
            *(round(100 * rows[f"{name}{ends}"]["Success@1"]) for ends in (EXAMPLED, "")),
        )
        for name in ("requests-hard", "requests-0")
        for row in [rows[name]]
    ]
    hard, ordinary = shares
    yield f"For {hard[0]} hard requests in everyday words the first hit is right for"
    yield f"{hard[1]} % with them and {hard[2]} % without"
    yield f"for {ordinary[0]} ordinary ones {ordinary[1]} % and {ordinary[2]} %"


def of_comparison():
    """Yield what it says of the written collection, and of skillsearch and its peers there."""
    compared = report("compare")
    systems, sizes = compared["collections"]["written"], compared["sizes"]["written"]
    languages = len(systems["skillsearch"]["languages"])
    yield f"{sizes[0]} skills, {sizes[1]} requests in {WORDS[languages]} languages"
    negatives = lines_of(PACKAGE / "evaluation" / "written" / "negatives.jsonl")
    yield f"It also holds {sum(line['kind'] == 'twin' for line in negatives)} twins"
    yield f"{100 * systems['skillsearch']['fits'][0]:.0f} % of them get an answer"
    models = [row for row in systems.values() if row["kind"] == "model"]
    cold = [row["cold_cpu_s"] for row in models if "cold_cpu_s" in row]
    yield f"Peers with a model take {min(cold):.0f} to {max(cold):.0f} CPU seconds"


def of_speed():
    """Yield what it says of times outside its table."""
    sizes = [row for row in report("bench")["sizes"] if row["skills"] <= 100_000]
    seconds = statistics.median(row["hook"]["wall_s"] for row in sizes)
    yield f"in {seconds:.2f} s".replace(" 0.", " .")


def of_peers():
    """Yield what the page of the scripts says of the peers."""
    systems = report("compare")["collections"]["written"]
    models = [row for row in systems.values() if row["kind"] == "model" and "cold_cpu_s" in row]
    cold, memory = ([row[key] for row in models] for key in ("cold_cpu_s", "rss_mb"))
    least, most = (round(bound(memory), -1) for bound in (min, max))
    yield f"Peers with a model take {min(cold):.0f} to {max(cold):.0f} CPU seconds to a"
    yield f"first answer, and {least:.0f} to {most:.0f} MB."
    names = ("skill-proof-router", "skillroute", "skillsearch")
    *theirs, ours = (f"{100 * systems[name]['told'][0]:.0f}" for name in names)
    yield f"(*recall* {' and '.join(theirs)} %; ours {ours})"
    sizes = report("compare")["sizes"]["written"]
    yield f"({sizes[1]} requests in ten languages, {sizes[2]} that nothing fits)"


def of_measuring():
    """Yield what the page of the scripts says of what was measured, and of whole turns."""
    bench, turns = report("bench"), report("end_to_end")
    without, exampled = (bench["examples"][key] for key in ("without", "with"))
    grown = (exampled["disk_bytes"] - without["disk_bytes"]) / exampled["skills"]
    slower = 100 * (exampled["warm_cpu_ms"] / without["warm_cpu_ms"] - 1)
    yield f"cost {grown / 1e3:.1f} kB of disk a skill and {slower:.0f} % more CPU time of a warm"
    small, *_, large = turns["libraries"]
    yield f"at most {large['tasks']} ({small['tasks']} for {small['skills']} skills)"
    yield f"**nothing fits**: {large['nothing']['ordinary']} of the"
    yield f"a window of {turns['window']:,} tokens"
    folder = CHECKOUT / "scripts" / "real_requests"
    yield f"holds {sum(len(lines_of(path)) for path in folder.glob('*.jsonl'))} requests over"
    yield f"the {report('compare')['sizes']['written'][0]} of the written collection"


def constant(path, name):
    """Return a constant of a module that is not imported here, as its source has it."""
    statements = ast.parse((CHECKOUT / path).read_bytes()).body
    assigned = [each for each in statements if isinstance(each, ast.Assign)]
    (value,) = (each.value for each in assigned if ast.unparse(each.targets[0]) == name)
    return ast.literal_eval(value)


def of_scripts():
    """Yield what the page of the scripts says of limits and versions in them."""
    embedded = constant("scripts/comparison/peers/adapters.py", "EMBEDDED_CHARS")
    yield f"each embeds the first {embedded:,} characters of a skill"
    pinned = constant("scripts/comparison/environments.py", "MCP").partition("==")[2]
    yield f"so they run with version {pinned.rpartition('.')[0]} here"
    yield f"surely above {100 * constant('scripts/nightly.py', 'GAIN'):.0f} points"


def of_memory():
    """Yield what a skill takes of the memory of indexing, by the two largest corpora."""
    fewer, more = sorted(report("bench")["sizes"], key=lambda row: row["skills"])[-2:]
    grown = more["index_without_embedding"]["rss_mb"] - fewer["index_without_embedding"]["rss_mb"]
    yield f"holds {1e3 * grown / (more['skills'] - fewer['skills']):.1f} kB of memory per skill"


def of_conformance():
    """Yield the versions of what the MCP server is checked with."""
    source = (CHECKOUT / "scripts" / "check_mcp.py").read_text("utf-8")
    inspector, suite = re.findall(r'"@modelcontextprotocol/\w+@(.+)"', source)
    yield f"MCP Inspector {inspector} and the conformance suite {suite}"


def of_tuning():
    """Yield how many requests a reader is tuned on at least."""
    least = constant("skillsearch/training/reader_tuning.py", "LEAST_JUDGED")
    yield f"requests for your skills, at least {least}"


def without_space(text):
    return " ".join(text.split())


def in_words(text):
    """Return a text without code and the addresses of links, on one line."""
    return without_space(re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "]", text, flags=re.S))


def unsourced(page, claims):
    """Return the numbers of a page outside blocks, parts that scripts write, code and claims."""
    made = r"<!-- (\w[\w: ]*) -->\n(?:(?!```).)*?<!-- end of \1 -->"
    page = re.sub(r"^ *\d+\. ", "", re.sub(made, "", page, flags=re.S), flags=re.M)
    page = in_words(page)
    for claim in sorted(map(in_words, claims), key=len, reverse=True):
        page = page.replace(claim, "")
    return NUMBER.findall(page)


CLAIMS = (of_code, of_answers, of_comparison, of_speed)


@pytest.mark.parametrize("claims", CLAIMS)
def test_what_the_readme_says_is_what_files_and_code_say(claims):
    said = without_space(README.read_text("utf-8"))
    assert [claim for claim in claims() if claim not in said] == []


def test_the_readme_has_no_number_without_a_source():
    page = README.read_text("utf-8")
    claims = [claim for each in CLAIMS for claim in each()]
    assert unsourced(page, [*claims, *UNFILED]) == []
    assert [claim for claim in UNFILED if claim not in without_space(page)] == []


MEASURED = {
    "scripts/README.md": (of_peers, of_measuring, of_scripts),
    "skillsearch/index/README.md": (of_memory,),
    "skillsearch/mcp_server/README.md": (of_conformance,),
    "skillsearch/training/README.md": (of_tuning,),
}
"""What other pages say of results, of scripts, and of modules that need torch."""
SAID = runpy.run_path(str(Path(__file__).with_name("test_said_numbers.py")))["SAID"]
ROOMS = [
    str(path.relative_to(CHECKOUT))
    for path in sorted([*PACKAGE.rglob("README.md"), CHECKOUT / "scripts" / "README.md"])
    if "examples" not in path.relative_to(PACKAGE.parent).parts
]
"""The pages beside the code."""


@pytest.mark.parametrize("name", MEASURED)
def test_what_a_page_says_was_measured_or_is_in_the_code(name):
    said = without_space((CHECKOUT / name).read_text("utf-8"))
    claims = [claim for each in MEASURED[name] for claim in each()]
    assert [claim for claim in claims if without_space(claim) not in said] == []


@pytest.mark.parametrize("name", ROOMS)
def test_a_page_has_no_number_without_a_source(name):
    """Numbers in figures, not in words."""
    unfiled, measured = UNFILED_OF_PAGES.get(name, {}), MEASURED.get(name, ())
    claims = [*SAID.get(name, ()), *unfiled, *(claim for each in measured for claim in each())]
    page = (CHECKOUT / name).read_text("utf-8")
    assert [phrase for phrase in unfiled if phrase not in without_space(page)] == []
    for part in COMPARED.get(name, ()):
        page, count = re.subn(part, "", page)
        assert count == 1, part
    numbers = unsourced(page, claims)
    figures = [number for number in numbers if re.search(r"\d", number)]
    assert figures == []


def test_pages_that_are_gone_have_no_phrases():
    assert set(UNFILED_OF_PAGES) <= set(ROOMS)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("Takes 12 s and .5 MB, in\ntwo steps.", ["12", ".5", "two"]),
        ("Takes 1,000 ms, 5 %\nof all.", ["1,000"]),
        ("BM25, nDCG@10, e5-2, Apache-2.0, `x 3`, [a](b/4 5).\n```sh\nrun 6\n```\n", []),
        ("1. Bake it.\n2. Wait for 3 hours.", ["3"]),
        ("<!-- speed -->\n| 7 ms |\n<!-- end of speed -->\nand 8.", ["8"]),
        ("<!-- peers: cost -->\n| 7 ms |\n<!-- end of peers: cost -->\nand 8.", ["8"]),
    ],
)
def test_a_number_without_a_source_is_noticed(page, expected):
    assert unsourced(page, ["5 % of all"]) == expected
