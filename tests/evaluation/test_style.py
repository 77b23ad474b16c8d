"""The control of style: near a half where the words say nothing, near 1 where they say all."""

import random

import numpy as np
import pytest

from skillsearch.evaluation.style import FEWEST, FOLDS, _folds, style_auroc, style_controls
from skillsearch.evaluation.types import JudgedQuery

WORDS = "make read send find sort draw merge convert chart table letter invoice photo song".split()


def requests(count, prefix, seed, ending="", twin_of=""):
    """Make requests of six random words; a twin's text differs from its original's by chance."""
    rng = random.Random(seed)
    return [
        JudgedQuery(
            f"{prefix}{n}",
            " ".join(rng.choices(WORDS, k=6)) + ending,
            twin_of=f"{twin_of}{n}" if twin_of else "",
        )
        for n in range(count)
    ]


def test_random_style_tells_nothing():
    answerable = requests(300, "q", seed=1)
    assert style_auroc(answerable, requests(300, "n", seed=2)) == pytest.approx(0.5, abs=0.06)
    twins = requests(150, "t", seed=3, twin_of="q")
    assert style_auroc(answerable, twins) == pytest.approx(0.5, abs=0.06)


def test_style_that_tells_all_is_found():
    answerable = requests(60, "q", seed=1)
    for ending in (" please", "?", " and then" * 9):
        assert style_auroc(answerable, requests(40, "n", seed=2, ending=ending)) > 0.97


def test_topics_tell_nothing_about_twins():
    """An original tells of its twin, if it is in another part, that the topic has an answer.

    Here every topic is a word that no other request has, and twins are the same request: whatever
    is learned from the others does not tell the two apart.
    """
    answerable = [JudgedQuery(f"q{n}", f"topic{n} " * 3) for n in range(50)]
    twins = [JudgedQuery(f"t{n}", f"topic{n} " * 3, twin_of=f"q{n}") for n in range(50)]
    assert style_auroc(answerable, twins) == pytest.approx(0.5, abs=0.02)


def test_twins_stay_with_their_originals_in_parts_of_equal_sorts():
    answerable = requests(50, "q", seed=1)
    others = [*requests(25, "t", 2, twin_of="q"), *requests(10, "n", 3)]
    folds = _folds([*answerable, *others], np.arange(85) < 50).tolist()
    assert folds[:25] == folds[50:75]
    for part in (folds[:25], folds[25:50], folds[50:75], folds[75:]):
        assert [part.count(fold) for fold in range(FOLDS)] == [len(part) // FOLDS] * FOLDS


def test_few_requests_have_no_control():
    many, few = requests(FEWEST, "q", 1), requests(FEWEST - 1, "n", 2)
    assert style_controls(many, {"few": few, "no": ()}) == {}
    assert style_controls(few, {"many": many}) == {}
    enough = requests(FEWEST, "n", 2)
    expected = style_auroc(many, enough)
    assert style_controls(many, {"few": few, "twin": enough}) == {"twin": expected}


def test_texts_of_any_script_are_read():
    signs = "今天天气很好我们去公园散步吃饭看书写字"
    rng = random.Random(4)
    texts = ["".join(rng.choices(signs, k=8)) for _ in range(60)]
    answerable = [JudgedQuery(f"q{n}", text) for n, text in enumerate(texts[:30])]
    others = [JudgedQuery(f"n{n}", f"{text}吗") for n, text in enumerate(texts[30:])]
    assert style_auroc(answerable, others) > 0.97
