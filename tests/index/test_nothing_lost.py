"""A reader and a threshold take no answer away: properties over corpora in languages.

Small corpora are drawn from a table of skills in seven languages, whose names, metadata and bodies
may each be in another one.
"""

import json
import random
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index.search.calibration import NAMED
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.evidence import EVIDENCE, READER, UNVETTED
from skillsearch.index.search.ranker import judge
from skillsearch.index.skill_index import SkillIndex

OF_SIGN = {sign: [n for n, row in EVIDENCE.items() if row.sign == sign] for sign in (1, -1)}

TABLE = json.loads(Path(__file__).with_name("mixed_languages.json").read_text(encoding="utf-8"))
LANGUAGES, TOPICS, ENGLISH = TABLE["languages"], TABLE["topics"], TABLE["english"]
READERS = ("off", "auto", "always")
# Sizes, and shares of skills in English.
CORPORA = [(2, 0), (4, 0.75), (6, 0.5), (10, 0.85), (16, 0.4), (24, 0.8)]
# The example of a description in English over a body in Chinese, among three others.
UINT = (
    ("add-uint-support", "Add unsigned integer (uint) type support to PyTorch operators.",
     "# 技能标题\n\n技能的详细说明。首先检查算子。然后添加无符号整数的支持。最后编写测试。"),
    ("fill-pdf-forms", "Fill in PDF forms and check the entries.", "List the fields first."),
    ("rotate-keys", "Rotate API keys that leaked.", "Revoke the old one at once."),
    ("sql-tuning", "Make slow SQL queries fast.", "Read the query plan."),
)  # fmt: skip


class Drawn(NamedTuple):
    """A skill of a corpus, and requests for it."""

    name: str
    description: str
    body: str
    requests: tuple[str, ...]


def draw(seed, size, english):
    """Draw skills, a share of them in English throughout; no two have one name, or say the same.

    Half of the other names are English, and half of the other bodies in a language of their own.
    """
    chance = random.Random(seed)
    plain = chance.sample(ENGLISH, round(size * english))
    # The second: in Chinese, about something that has an English name.
    corpus = [Drawn(*skill, (skill[1], f"请帮我处理一下 {skill[0]} 的问题")) for skill in plain]
    pairs = [(topic, language) for topic in TOPICS for language in range(len(LANGUAGES))]
    for topic, language in chance.sample(pairs, size - len(plain)):
        name, description, _ = TOPICS[topic][language]
        if chance.random() < 0.5 and topic not in {skill.name for skill in corpus}:
            name = topic
        other = language if chance.random() < 0.5 else chance.randrange(len(LANGUAGES))
        body = TOPICS[topic][other][2]
        requests = tuple(TOPICS[topic][spoken][1] for spoken in {0, language, other})
        corpus.append(Drawn(name, description, body, requests))
    chance.shuffle(corpus)
    return corpus


def write(folder, corpus):
    for number, skill in enumerate(corpus):
        path = folder / f"{number:02}" / "SKILL.md"
        path.parent.mkdir(parents=True)
        head = f"---\nname: {skill.name}\ndescription: {skill.description}\n---\n"
        path.write_text(f"{head}\n{skill.body}\n", encoding="utf-8")
    return folder


def scores_of(hits):
    return {Path(hit.path).parent.name: hit.score for hit in hits}


def evidence(**values):
    return dict.fromkeys(EVIDENCE, 0.0) | values


EVIDENT = st.fixed_dictionaries(
    {name: st.floats(0, 1) for name in EVIDENCE} | {"lead": st.floats(-3, 3)}
)


@given(EVIDENT, st.floats(0, 12, exclude_min=True))
def test_a_logit_for_a_hit_takes_nothing_from_it(pieces, logit):
    calibration = default_calibration()
    odds = calibration.log_odds(pieces | {READER: logit})
    assert odds >= calibration.log_odds(pieces)


@given(EVIDENT, st.lists(st.floats(-12, 12), min_size=2, max_size=2).map(sorted))
def test_a_higher_logit_never_says_less(pieces, logits):
    calibration = default_calibration()
    less, more = (calibration.log_odds(pieces | {READER: logit}) for logit in logits)
    assert less <= more + 1e-9


@given(EVIDENT, st.none() | st.floats(-12, 12), st.booleans())
def test_the_name_of_a_skill_means_it(pieces, logit, is_unvetted):
    pieces = pieces | {"name": 1.0, "excluded": 0.0, "hubness": 0.0}
    pieces |= ({} if logit is None else {READER: logit}) | ({UNVETTED: 1.0} if is_unvetted else {})
    calibration = default_calibration()
    odds = calibration.log_odds(pieces)
    assert odds >= NAMED - is_unvetted - 1e-9
    against = pieces | {"excluded": 0.5}
    assert calibration.log_odds(against) < odds or odds > NAMED


def test_an_exact_name_comes_before_what_is_likelier():
    likely = evidence(**dict.fromkeys(OF_SIGN[1], 1.0) | {"name": 0.9})
    named = evidence(name=1.0)
    weak = evidence()
    answer = judge([likely, weak, named], [7, 8, 9], default_calibration())
    assert [hit.row for hit in answer] == [9, 7, 8]
    assert answer[0].score == answer[0].own_score == answer[1].score < answer[1].own_score
    hidden = named | dict.fromkeys(OF_SIGN[-1], 1.0)
    assert [hit.row for hit in judge([likely, hidden], [0, 1], default_calibration())] == [0, 1]


@pytest.fixture(scope="module")
def index_of(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lost")

    @cache
    def index_of(corpus):
        below = folder / str(len(list(folder.iterdir())))
        return SkillIndex.from_roots([write(below / "s", corpus)], index_dir=below / "index")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder / "home"))
        patch.setenv("XDG_CACHE_HOME", str(folder / "home" / "cache"))
        yield index_of


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_an_english_description_over_a_chinese_body_is_found_by_name(index_of, reader):
    corpus = tuple(Drawn(*skill, ()) for skill in UINT)
    assert list(scores_of(index_of(corpus).search("add-uint-support", reader=reader))) == ["00"]


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=pytest.mark.slow if number in (2, 3) else pytest.mark.night)
        for number in range(len(CORPORA))
    ],
)
def test_no_reader_loses_an_answer(index_of, number):
    corpus = draw(number, *CORPORA[number])
    index = index_of(tuple(corpus))
    for position, skill in enumerate(corpus):
        folder = f"{position:02}"
        for reader in READERS:
            scores = scores_of(index.search(skill.name, reader=reader))
            best = max(scores.values(), default=None)
            assert scores.get(folder) == best is not None, (skill.name, reader)
        for request in skill.requests[: 1 if len(corpus) > 10 else None]:
            assert_taken_by_what_opposes(index, request)


def assert_taken_by_what_opposes(index, request):
    """Of what fits unread, a reader takes only what it speaks against."""
    unread = scores_of(index.search(request, 30, reader="off"))
    read = index.search(request, 30, reader="always", threshold=0.0, explain=True)
    threshold = default_calibration().threshold
    for hit in read:
        logit = hit.explain.features.get(READER, 0.0)
        if Path(hit.path).parent.name in unread and logit > 0:
            assert hit.score >= threshold, (request, hit.name)
