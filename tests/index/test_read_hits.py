"""Which hits a reader is asked about, what it is shown, and what its answers change."""

import json
import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from skillsearch.index.search.calibration import probability
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.candidates import Ranked
from skillsearch.index.search.evidence import EVIDENCE, READER
from skillsearch.index.search.features import FEATURES
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.search.passages import passage_text
from skillsearch.index.search.reading import DOUBT, NOT_READ, READ_MOST, Reading, reordered
from skillsearch.index.search.search import answer

TOOLS = ("axe", "bucket", "can", "drill", "engine", "funnel", "gauge", "hose")
QUERY = "water the plants"
NO_EVIDENCE = dict.fromkeys(EVIDENCE, 0.0)


@dataclass
class WordReader:
    """Reads words: the log-odds of a text are the sum of those of the words in it.

    Attributes:
        logits: By word.
        calls: Each request, and the texts that it was read with.
    """

    logits: dict[str, float] = field(default_factory=dict)
    calls: list[tuple[str, list[str]]] = field(default_factory=list)
    name: str = "words"

    def read(self, request, texts):
        self.calls.append((request, list(texts)))
        words = [text.lower().replace(".", " ").split() for text in texts]
        return np.array(
            [sum(self.logits.get(word, 0.0) for word in text_words) for text_words in words]
        )


@pytest.fixture(scope="module")
def write_tools(add_skill):
    def write_tools(root):
        for number, tool in enumerate(TOOLS):
            about = f"Water the plants with it{' again' * number}."
            add_skill(root / tool, f"{tool}-tool", about, f"# Use\nHold the {tool} upright.")

    return write_tools


@pytest.fixture(scope="module")
def tools(build_shared, write_tools):
    return build_shared(write_tools)


@pytest.fixture
def own_tools(tmp_path, build, write_tools):
    write_tools(tmp_path / "s")
    return build(tmp_path / "s")


def calibrated(p=0.5, *, reader=100.0):
    """Return a calibration by which each hit fits with one probability, or as its reader says."""
    return replace(
        default_calibration(),
        reader=reader,
        alone=NO_EVIDENCE | {"intercept": math.log(p / (1 - p))},
        read=NO_EVIDENCE | {READER: 1.0, "intercept": 0.0},
    )


def ask(index, reading, calibration, query=QUERY, **options):
    search_options = SearchOptions(**{"n": 20, "threshold": 0.0, **options})
    (result,) = answer(
        [query], search_options, index.opened, [index.analyse(query)], calibration, reading
    )
    return result


def names(result):
    return [hit.name for hit in result]


def reading_by(reader, when="always"):
    return Reading(when, lambda: reader)


@pytest.mark.parametrize(
    ("when", "p", "is_read"),
    [
        ("auto", DOUBT[0] * 0.99, False),
        ("auto", DOUBT[0] * 1.01, True),
        ("auto", 0.5, True),
        ("auto", DOUBT[1] - 0.001, True),
        ("auto", DOUBT[1] + 0.001, False),
        *(("off", p, False) for p in (0.001, 0.5, 0.999)),
        *(("always", p, True) for p in (0.001, 0.5, 0.999)),
    ],
)
def test_a_reader_is_asked_in_doubt_or_always_or_never(tools, when, p, is_read):
    reader, loads = WordReader(), []
    result = ask(tools, Reading(when, lambda: loads.append(1) or reader), calibrated(p))
    assert (len(reader.calls), len(loads)) == (is_read, is_read)
    assert len(result) == len(TOOLS)
    best = 0.5 if is_read else p
    assert result[0].score == pytest.approx(max(best, p))


@pytest.mark.parametrize("when", ["auto", "always"])
def test_a_reader_that_cannot_be_had_changes_nothing(tools, when):
    expected = ask(tools, NOT_READ, calibrated(0.4)).hits
    assert ask(tools, Reading(when, lambda: None), calibrated(0.4)).hits == expected
    assert len(expected) == len(TOOLS)


def test_the_first_hits_are_shown_as_they_are_on_disk(own_tools, tmp_path):
    order = names(ask(own_tools, NOT_READ, calibrated()))
    (tmp_path / "s" / "axe" / "SKILL.md").unlink()
    reader = WordReader()
    ask(own_tools, reading_by(reader), calibrated())
    expected = []
    for name in order[:READ_MOST]:
        tool = name.removesuffix("-tool")
        body = "" if tool == "axe" else f"# Use\nHold the {tool} upright."
        expected.append(passage_text(name, own_tools.find(name).description, body))
    assert "axe-tool" in order[:READ_MOST]
    assert reader.calls == [(QUERY, expected)]


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("How do I water the plants with the bucket?", {"bucket"}),
        (
            "Wie gieße ich die Pflanzen mit der Axt, und was brauche ich?",
            {"bucket", "giesskanne"},
        ),
        ("¿Cómo riego las plantas con el hacha y qué necesito?", {"bucket"}),
        ("plants", {"bucket", "giesskanne"}),
    ],
)
def test_a_skill_in_a_third_language_is_not_read(tmp_path, build, add_skill, query, read):
    """In English, or in the language of the request if that is known."""
    add_skill(tmp_path / "s" / "a", "bucket", "Water the plants with it, and clean what is dirty.")
    about = "Gießt die Pflanzen (plants, plantas) und sagt, wann sie wieder Wasser brauchen."
    add_skill(tmp_path / "s" / "b", "giesskanne", about)
    reader = WordReader({"bucket": 1.0, "giesskanne": -1.0})
    result = ask(build(tmp_path / "s"), reading_by(reader), calibrated(0.6), query)
    (_, texts), *_ = reader.calls
    assert {name for name in ("bucket", "giesskanne") for text in texts if name in text} == read
    scores = {"bucket": probability(1.0), "giesskanne": probability(-1.0)}
    expected = [(name, scores[name] if name in read else 0.6) for name in scores]
    assert [(hit.name, pytest.approx(hit.score)) for hit in result] == expected


def test_no_reader_is_loaded_for_skills_that_it_cannot_read(tmp_path, build, add_skill):
    about = "Gießt die Pflanzen (plants) und sagt, wann sie wieder Wasser brauchen."
    add_skill(tmp_path / "s" / "b", "giesskanne", about)
    reading = Reading("always", lambda: pytest.fail("it was loaded"))
    (hit,) = ask(build(tmp_path / "s"), reading, calibrated(0.6), "How do I water the plants?")
    assert hit.score == pytest.approx(0.6)


def test_what_is_read_is_ordered_by_the_logits(tools):
    order = names(ask(tools, NOT_READ, calibrated(0.1)))
    logits = dict(zip(order, (-2.0, 3.0), strict=False))
    reader = WordReader({name.removesuffix("-tool"): logit for name, logit in logits.items()})
    # The word of a tool is in its name and in its body.
    result = ask(tools, reading_by(reader), calibrated(0.1), explain=True)
    assert len(reader.calls[0][1]) == READ_MOST == 2
    assert names(result) == [order[row] for row in (1, 0, 2, 3, 4, 5, 6, 7)]
    unread = math.log(1 / 9)
    expected = [probability(odds) for odds in (6, *[-4] * 7)]
    assert [hit.score for hit in result] == pytest.approx(expected)
    assert [hit.rank for hit in result] == list(range(1, 9))
    own = [probability(odds) for odds in (6, -4, *[unread] * 6)]
    assert [hit.explain.own_score for hit in result] == pytest.approx(own)
    assert [hit.explain.cut_by for hit in result] == [*[""] * 2, *[order[0]] * 6]
    logits_of_hits = [hit.explain.log_odds.get(READER) for hit in result]
    assert logits_of_hits == pytest.approx([6, -4, *[None] * 6])
    assert result[0].explain.contributions[READER] == pytest.approx(600)
    assert json.loads(json.dumps(result.to_dict()))["hits"][0]["name"] == order[1]


def test_a_reader_of_no_weight_changes_probabilities_alone(tools):
    order = names(ask(tools, NOT_READ, calibrated()))
    reader = WordReader({tool: number - 8.0 for number, tool in enumerate(TOOLS)})
    result = ask(tools, reading_by(reader), calibrated(reader=0.0))
    assert names(result) == order
    logits = [2 * TOOLS.index(name.removesuffix("-tool")) - 16 for name in order[:READ_MOST]]
    logits += [0] * (len(order) - READ_MOST)
    expected = [probability(min(logits[: number + 1])) for number in range(len(logits))]
    assert [hit.score for hit in result] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("sums", "best", "read", "weight", "expected"),
    [
        ([5.0, 4.0, 3.0], [0, 1, 2], {0: 0.0, 1: 2.0, 2: 1.0}, 1.0, [1, 0, 2]),
        ([5.0, 4.0, 3.0], [0, 1, 2], {0: 0.0, 1: 2.0, 2: 1.0}, 0.4, [0, 1, 2]),
        ([5.0, 4.0, 3.0], [0, 1, 2], {0: 0.0, 2: 9.0}, 1.0, [2, 1, 0]),
        ([5.0, 4.0, 3.0], [0, 1, 2], {1: -9.0}, 1.0, [0, 1, 2]),
        ([5.0, 4.0, 3.0], [0, 1, 2], {}, 1.0, [0, 1, 2]),
        ([1.0, 1.0, 1.0], [2, 0, 1], {0: 1.0, 1: 1.0, 2: 1.0}, 3.0, [2, 0, 1]),  # a tie
    ],
)
def test_hits_are_reordered_by_sum_and_reading(sums, best, read, weight, expected):
    features = np.zeros((3, len(FEATURES)))
    ranked = Ranked(np.arange(3), features, features[:, :3], np.array(sums), np.array(best))
    assert reordered(ranked, best, read, weight) == expected


@pytest.mark.parametrize("system", ["bm25", "dense", "rrf"])
def test_only_hybrid_answers_are_read(tools, system):
    reader = WordReader()
    assert ask(tools, reading_by(reader), calibrated(), system=system)
    assert reader.calls == []
