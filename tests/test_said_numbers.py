"""Tests that numbers in prose are those of the code, and sample outputs those of a run."""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

import skillsearch
from skillsearch.agents import bounds
from skillsearch.agents.prompt import CONCISE_CHARS
from skillsearch.agents.toolsets.context import SUMMARY_CHARS
from skillsearch.agents.toolsets.environments import DESCRIPTION_CHARS
from skillsearch.ard.registry import MAX_HITS, SEARCH_PAGE
from skillsearch.cli.authoring import enrich, enrich_steps
from skillsearch.cli.hosts import hook
from skillsearch.cli.interactive.picker import STANDING_SECONDS
from skillsearch.cli.run import FAILED, NOT_STARTED, TIMED_OUT
from skillsearch.daemon import answers, client, offering
from skillsearch.embedders.embedder import DEFAULT_SPEC
from skillsearch.embedders.embedding_cache import LIMIT as VECTORS
from skillsearch.embedders.word_table import BLOCK, BLOCK_BYTES
from skillsearch.evaluation.assess import FEW_FALSE, SHARES
from skillsearch.evaluation.collection import EXAMPLE
from skillsearch.evaluation.comparison import _TAILS
from skillsearch.evaluation.reporting.report import SIGNIFICANT
from skillsearch.execution.types import DEFAULT_TIMEOUT
from skillsearch.hosts import conversation
from skillsearch.hosts.table import with_key
from skillsearch.index import freshness
from skillsearch.index.dense.likeness import LIKE_BODY, confusable_from, copies_from, near_from
from skillsearch.index.dense.vectors import FLAT_LIMIT
from skillsearch.index.documents.families import _NEARLY_ALL, _OF_BODY_ELSEWHERE
from skillsearch.index.documents.relatives import MOST_LISTED
from skillsearch.index.indexing.embedding import FLUSHED
from skillsearch.index.indexing.options import SegmentLimits
from skillsearch.index.roots.root_change import EXAMPLES
from skillsearch.index.search.calibration import UNVETTED_IN_RANKING
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.candidates import count_candidates
from skillsearch.index.search.evidence import MOST_USAGE, of_usage
from skillsearch.index.search.features import LEAST_OF_EXAMPLES
from skillsearch.index.storage.generation_parts import REREAD_BYTES
from skillsearch.library import example_review
from skillsearch.library.example_review import _DIGEST_CHARS
from skillsearch.mcp_server.connections import LIMITS as CONNECTIONS
from skillsearch.mcp_server.session_tools import TOOLSETS
from skillsearch.readers.mapped_reader import MAX_TOKENS, REQUEST_TOKENS
from skillsearch.remote.row_writer import BATCH_SKILLS
from skillsearch.remote.view import _MAX_CANDIDATES
from skillsearch.rendering.html_page import STYLE
from skillsearch.reports import proposal_trials, proposals
from skillsearch.reports.audit import MOST_PROBES, SHARED_WORDS
from skillsearch.reports.audit_text import KEYWORDS
from skillsearch.reports.cache import KEPT_SECONDS
from skillsearch.roots.unpacking import LIMITS as ARCHIVES
from skillsearch.settings.environ import INTERRUPTED
from skillsearch.skills.example_requests import MAX_CHARS, MAX_EXAMPLES, PACKAGED
from skillsearch.skills.metadata import MAX_DESCRIPTION_CHARS
from skillsearch.skills.stubs import _LEAST_WORDS, _STUB_WORDS
from skillsearch.text.states import BOUNDS
from skillsearch.text.tables import read_tables
from skillsearch.ui.projection import _SHARE as FEW_SHARE
from skillsearch.ui.projection import NEIGHBOURS, PAIRS
from skillsearch.usage.events import MAX_TEXT_CHARS
from skillsearch.usage.log import MAX_BYTES, MOST_BACK, WINDOW_SECONDS
from skillsearch.usage.support import (
    ALIKE,
    ALIKE_ELSEWHERE,
    HALF_LIFE_DAYS,
    PIN_WEIGHT,
    PRIOR,
    SAME,
)

PACKAGE = Path(skillsearch.__file__).parent
README = PACKAGE.parent / "README.md"
NEEDS_README = pytest.mark.skipif(not README.exists(), reason="an installed copy has no README")
WORDS = dict(
    enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen".split()
    )
)
CUT = default_calibration().threshold


def lines_of(path):
    """Count the lines of a file that may be compressed."""
    data = path.read_bytes()
    return len((gzip.decompress(data) if path.suffix == ".gz" else data).splitlines())


def score(value):
    """Return a score as the pages write it."""
    return f"{value:g}".lstrip("0")


MODELS = PACKAGE / "models" / "e5"
EMBEDDER, READER = (
    json.loads((MODELS / f"{name}.json").read_bytes()) for name in ("model", "reader")
)
READER_BYTES = sum(path.stat().st_size for path in MODELS.glob("reader.onnx*"))
FURTHER, LAST = EMBEDDER["training"], READER["training"]
TRAINED, TAUGHT = FURTHER["before"], LAST["before"]
SERVED = len(with_key("servers"))
LOADED_ONCE, LOADED_THRICE, MOST_LOADED = (
    default_calibration().read["usage"]
    * of_usage(np.array([1 / (1 + PRIOR), 3 / (3 + PRIOR), MOST_USAGE]))
).tolist()
WRITTEN = [
    lines_of(PACKAGE / "evaluation" / "written" / f"{name}.jsonl")
    for name in ("corpus", "queries", "negatives")
]
EXAMPLE_SKILLS, EXAMPLE_REQUESTS = (
    list(map(json.loads, (EXAMPLE / f"{name}.jsonl").read_bytes().splitlines()))
    for name in ("corpus", "queries")
)
LEVEL = f"{100 * (1 - 2 * _TAILS[0]):.0f} %"
"""Of intervals."""
PROVENANCE = json.loads((PACKAGE / "index" / "search" / "calibration.json").read_bytes())[
    "provenance"
]
REPOSITORIES = len(
    {json.loads(line)["repository"] for line in gzip.decompress(PACKAGED.read_bytes()).splitlines()}
)
CHECKLIST = Path(__file__).with_name("documents") / "checklist.tsv"
DOCUMENTS = sorted({line[:3] for line in CHECKLIST.read_text("utf-8").splitlines()[1:]})
SAME_METADATA, ALIKE_METADATA = copies_from(DEFAULT_SPEC)
PASTED = read_tables(PACKAGE / "index" / "search" / "pasted_words.txt")
(PHONE,) = re.findall(r"each row is a card.*\n.*: (\d+)rem\) ", STYLE.read_text("utf-8"))
SAID = {
    "skillsearch/agents/toolsets/README.md": [
        *(text for document in DOCUMENTS for text in (f"| {document} |", f"## {document}: ")),
        f"to the documents' {BOUNDS['list']}.",
        f"longer than {DESCRIPTION_CHARS:,} characters is cut and says so",
        f"at most {CONCISE_CHARS} characters of a description",
        f"longer than {SUMMARY_CHARS:,} characters is cut and says how many",
    ],
    "skillsearch/ard/README.md": [
        f"at most {MAX_HITS} entries, on pages of {SEARCH_PAGE},",
    ],
    "skillsearch/embedders/README.md": [
        f"rows in {(BLOCK_BYTES - 2) * 8 // BLOCK} bits",
        f"one table of {(MODELS / 'words.bin').stat().st_size / 1e6:.0f} MB",
        f"a kill loses the last {FLUSHED} texts",
        f"up to {VECTORS >> 30} GiB",
    ],
    "skillsearch/remote/README.md": [
        f"the batch of {BATCH_SKILLS} skills in progress",
        f"at most {_MAX_CANDIDATES:,} candidates",
        f"above {next(n for n in range(9_999) if count_candidates(n + 1) > _MAX_CANDIDATES)} asks",
    ],
    "skillsearch/ui/README.md": [
        f"Up to {PHONE} rem each row",
        f"the closest {PAIRS:,} pairs with a cosine above {score(confusable_from(DEFAULT_SPEC))}",
        f"fewer than {NEIGHBOURS * FEW_SHARE} skills",
    ],
    "scripts/README.md": [
        f"{100 * FEW_FALSE:.0f} % false answers",
        f"Intervals are of {LEVEL}",
        f"(p < {score(SIGNIFICANT)}, corrected",
    ],
    "skillsearch/evaluation/README.md": [
        f"the {len(EXAMPLE_SKILLS)} example skills, {len(EXAMPLE_REQUESTS)} requests in other "
        f"words and in {len({query['lang'] for query in EXAMPLE_REQUESTS})} languages, and "
        f"{lines_of(EXAMPLE / 'negatives.jsonl')} requests that no skill answers",
        "{} skills, {} requests, and {} similar requests that nothing fits".format(*WRITTEN),
        f"{LEVEL} bootstrap intervals",
        f"if that is below {SIGNIFICANT} and",
        "to keep {:.0f} or {:.0f} % of".format(*(100 * share for share in SHARES)),
        f"Recall at {100 * FEW_FALSE:.0f} % false answers",
        f"the bound of lists, {score(BOUNDS['list'])}:",
        f"for up to {PROVENANCE['queries of a collection']} requests of each",
        f"up to {PROVENANCE['queries of a collection']} of these requests each",
        f"the default threshold of {CUT}",
        f"At the default threshold**, {CUT}",
    ],
    "skillsearch/evaluation/written/README.md": [
        "{} skills, {} requests for them in ten languages, and {} requests".format(*WRITTEN),
        f"Recall at {100 * FEW_FALSE:.0f} % false",
        f"the default threshold of {CUT}",
    ],
    "skillsearch/index/README.md": [
        f"fewer than {_STUB_WORDS} words",
        f"more than {_LEAST_WORDS})",
        f"{lines_of(PACKAGED):,} skills of {REPOSITORIES} public",
        f"above {FLAT_LIMIT:,} skills halves",
        f"more than {SegmentLimits().least_documents:,} skills gets a small",
        f"until {SegmentLimits().most_changed:,} skills have changed",
        f"nearly all ({score(_NEARLY_ALL)}) of the other's",
        f"or {score(LEAST_OF_EXAMPLES)} if that is more",
        f"comparing takes {100 / freshness.PAUSE:g} % of the time",
        f"all but the last {FLUSHED} texts",
        f"up to {WORDS[MAX_EXAMPLES]} from each",
        f"Up to {freshness.MAX_REFRESHED_FILES} new and changed files",
        f"Above {freshness.MAX_CHECKED_SKILLS:,} skills it, too",
        f"Up to {freshness.MAX_FOUND_SKILLS} new skills",
        f"within {WORDS[freshness.MAX_AGE].replace('one', 'a')} second",
        f"skills of others lose {score(UNVETTED_IN_RANKING)} of the sum",
        f"`has_examples` takes {score(-default_calibration().weights['has_examples'])} of the sum",
        f"at least {score(SAME_METADATA)} (packaged model; {score(copies_from('other')[0])} for",
        f"(a cosine of {score(ALIKE_METADATA)}) and nearly all ({score(_OF_BODY_ELSEWHERE)}) of a",
        f"re-hashes up to\n   {REREAD_BYTES >> 20} MiB of parts",
        f"pasted, in {len(PASTED['orders'])} languages",
    ],
    "skillsearch/cli/README.md": [
        f"exits with {INTERRUPTED} if you",
        f"takes up to {proposal_trials.MOST_REQUESTS} requests",
        f"the first {_DIGEST_CHARS} digits are enough",
        f"Up to {freshness.MAX_FOUND_SKILLS} skills are indexed before",
        f"of an interval of {LEVEL}",
        f"up to {freshness.MAX_CHECKED_SKILLS:,} skills",
        f"the first {MOST_LISTED} members",
        f"for {KEPT_SECONDS // 86_400} days",
        f"prints {WORDS[example_review.BATCH]} skills without examples",
        f"`--seconds` ({enrich._SECONDS:g}), and {enrich_steps.MAX_ANSWER_BYTES >> 20} MiB",
        f"{WORDS[example_review.MIN_EXAMPLES]} to {WORDS[MAX_EXAMPLES]} requests a skill, of "
        f"{example_review.MIN_CHARS} to {MAX_CHARS} characters",
        f"{ARCHIVES.file_bytes >> 20} MiB per download and file, {ARCHIVES.total_bytes >> 20} MiB",
        f'"threshold": {CUT}',
    ],
    "skillsearch/training/README.md": [f"the texts of {TRAINED['skills']:,} public skills"],
    "skillsearch/reports/README.md": [
        f"{KEYWORDS} more words without function words",
        f"under {100 * SHARED_WORDS:.0f} % of the words in common, and a cosine under "
        f"{score(LIKE_BODY)} of the metadata",
        f"at most {MOST_PROBES:,} requests",
        f"(a cosine of {score(near_from(DEFAULT_SPEC))}0)",
        f"up to {WORDS[proposals._MOST_REQUESTS]} requests as they are",
        f"up to {WORDS[proposals._MOST_PHRASES]} phrases of the requests",
        f"up to {WORDS[proposals._MOST_OF_BODY]} phrases that the body repeats",
        f"fits the {MAX_DESCRIPTION_CHARS:,} characters of the specification",
        f"the requests of up to {WORDS[proposal_trials.MOST_RIVALS]} rivals",
    ],
    "skillsearch/daemon/README.md": [
        f"prints up to {WORDS[offering.N]} skills",
        f"after {WORDS[hook.SECONDS]} seconds",
        f"each of the {conversation.MAX_SESSIONS} latest sessions",
        f"after {conversation.MAX_GROWTH >> 20} MB of transcript",
        f"most {conversation.TAIL_BYTES >> 10} KiB at the end",
        f"from a score of {score(BOUNDS['prompt'])} on",
        f"{client.IDLE_SECONDS / 60:g} by default",
        f"up to {WORDS[answers.MAX_INDEXES]} indexes",
    ],
    "skillsearch/mcp_server/README.md": [
        f"{CONNECTIONS.seconds:g} seconds for each request",
        f"At {CONNECTIONS.connections} connections ({CONNECTIONS.of_machine}",
        f"{CONNECTIONS.sessions:,} sessions",
        f"all {WORDS[SERVED]}\nfind the user's",
    ],
    "skillsearch/readers/README.md": [
        f"{REQUEST_TOKENS} at most, and of the skill, {MAX_TOKENS} in all",
    ],
    "skillsearch/usage/README.md": [
        f"at most {WINDOW_SECONDS / 60:g} minutes and {WORDS[MOST_BACK]} requests back",
        f"a cosine\nof {score(SAME)})",
        f"as much as {WORDS[PIN_WEIGHT]} loads of today",
        f"and\nof {WORDS[PRIOR]} more that led nowhere",
        f"from 0 at {score(ALIKE)} ({score(ALIKE_ELSEWHERE)} for models that are not ours) to 1",
        f"above {MAX_BYTES >> 20} MiB the older half goes",
        f"the first {MAX_TEXT_CHARS:,} characters of the request",
        f"after its answer was shown for {STANDING_SECONDS:g} s",
        f"The square of the share, up to {score(MOST_USAGE)},",
        f"one load adds {LOADED_ONCE:.1f} to the log-odds of its skill for the same request, three "
        f"add {LOADED_THRICE:.1f}, and usage never adds more than {MOST_LOADED:.1f};",
        f"halves every {HALF_LIFE_DAYS:g} days",
    ],
    "skillsearch/models/e5/README.md": [
        f"{EMBEDDER['dimensions']} dimensions",
        f"the first {EMBEDDER['max_tokens']} tokens of a text",
        f"the rows of the words in {(BLOCK_BYTES - 2) * 8 // BLOCK} bits",
        f"clusters `{TRAINED['left_out']}` and",
        f"some {TRAINED['settings']['batch_size']} queries",
        f"texts of {TRAINED['skills']:,} skills",
        "({written:,}), translations of requests into 20 languages ({translated:,}), what agents "
        "would ask for long tasks ({agent:,}), hard ones ({hard:,})".format_map(
            TRAINED["requests"]
        ),
        f"scale {TRAINED['settings']['scale']:g}; AdamW, "
        f"{TRAINED['settings']['learning_rate'] * 1e5:g}e-5 after "
        f"{TRAINED['settings']['warm_up']:.0%}".replace("%", " %"),
        f"{TRAINED['settings']['steps']} steps in",
        f"seed {TRAINED['settings']['seed']}.",
        f"{score(TRAINED['share'])} of the trained weights",
        f"then {FURTHER['settings']['steps']} steps from the packaged weights at "
        f"{FURTHER['settings']['learning_rate'] * 1e5:g}e-5",
        f"some {FURTHER['settings']['batch_size']} queries",
        f"has {score(FURTHER['share'])} of the trained weights",
        f"{READER_BYTES / 1e6:.0f} MB in addition",
        f"batches of {TAUGHT['settings']['groups']} requests",
        f"after {TAUGHT['settings']['warm_up']:.0%}".replace("%", " %"),
        f"of the weights ({score(TAUGHT['settings']['average'])})",
        f"then {TAUGHT['steps']} steps at {TAUGHT['settings']['learning_rate'] * 1e5:g}e-5",
        "({requests:,} requests, {twins:,} twins, {pairs:,} pairs)".format_map(TAUGHT),
        f"the same loss and {LAST['steps']} steps",
        "({requests:,} requests, {twins:,} twins, {pairs:,} pairs)".format_map(LAST),
    ],
    "skillsearch/agents/README.md": [
        f"{WORDS[len(TOOLSETS) - 1].capitalize()} other\n[toolsets]",
        f"at most {bounds.MAX_CHARS:,} characters of a text, and {bounds.MAX_LIST_CHARS:,} of a",
        f"({bounds.MAX_CHARS:,} of a list of skills)",
    ],
    "skillsearch/execution/README.md": [
        f"it times out ({DEFAULT_TIMEOUT:g} s)",
        f"{TIMED_OUT}: it timed out, {FAILED}: it could not be run or its files not kept, "
        f"{NOT_STARTED}: its program could",
    ],
}


@NEEDS_README
@pytest.mark.parametrize(
    ("page", "said"), [(page, said) for page, texts in SAID.items() for said in texts]
)
def test_a_number_of_a_page_is_that_of_the_code(page, said):
    text = (PACKAGE.parent / page).read_text("utf-8")
    assert " ".join(said.split()) in " ".join(text.split())


def test_texts_for_agents_name_no_score():
    """What fits is said by the answer; a number in a text would be another threshold."""
    for path in [*PACKAGE.glob("plugin/skills/*/SKILL.md"), EXAMPLES / "find-skills" / "SKILL.md"]:
        assert re.findall(r"(?<![\d.])0?\.[2-9]\d*", path.read_text("utf-8")) == []
