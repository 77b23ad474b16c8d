"""Near-identical skills take one place."""

import numpy as np
import pytest

from skillsearch.index.duplicates import collapse

LONG = "A body that is long enough to tell skills apart. " * 8


@pytest.fixture
def groups(tmp_path, add_skill, build):
    """Return the groups of an index over skills given as (name, description, body)."""

    def groups(*skills, n=10, order=None):
        for number, (name, description, body) in enumerate(skills):
            add_skill(tmp_path / "skills" / f"folder-{number}", name, description, body)
        corpus = build(tmp_path / "skills").opened.corpus
        return collapse(corpus, np.array(order or range(len(skills)), np.int64), n)

    return groups


def test_copies_take_the_place_of_the_first(groups):
    """Wherever between others they are ranked."""
    copy, other = ("pdf", "Fill in PDF forms", LONG), ("tea", "Make tea", "")
    assert groups(copy, other, copy, copy) == [(0, (2, 3)), (1, ())]


def test_the_order_is_that_of_the_ranking(groups):
    """Not of the documents."""
    copy, other = ("pdf", "Fill in PDF forms", LONG), ("tea", "Make tea", "")
    assert groups(copy, other, copy, order=[2, 1, 0]) == [(0, (0,)), (1, ())]


@pytest.mark.parametrize(
    ("one", "other", "are_copies"),
    [
        (("pdf", "Fill in forms", LONG), ("pdf", "Fill in forms", "another body"), True),
        (("pdf", "Fill in forms", LONG), ("PDF", "Fill in forms", LONG), True),
        (("pdf", "Fill in forms", LONG), ("pdf", "Trim video clips with care", LONG), False),
        (("pdf", "Fill in forms", LONG), ("form-filler", "Fill in forms", LONG), False),
        (("a", "Fill in forms " * 9, LONG), ("b", "Fill in forms " * 9, LONG), True),
        (("a", "Fill in forms " * 9, LONG), ("b", "Fill in forms " * 9, LONG + "x"), False),
        (("a", "Fill in forms " * 9, ""), ("b", "Fill in forms " * 9, ""), False),
    ],
)
def test_copies_say_the_same_under_one_name_or_with_one_body(groups, one, other, are_copies):
    """Equal words alone, an equal name alone, or an equal short body alone are not enough."""
    assert groups(one, other) == ([(0, (1,))] if are_copies else [(0, ()), (1, ())])


def test_no_more_groups_than_wanted(groups):
    """Copies right behind the last one still belong to it."""
    copy, other = ("pdf", "Fill in PDF forms", LONG), ("tea", "Make tea", "")
    assert groups(copy, copy, other, copy, n=1) == [(0, (1,))]


def test_nothing_ranked_is_nothing_grouped(groups):
    """As when no skill fits."""
    assert groups(("pdf", "Fill in PDF forms", LONG), n=5, order=[0])[1:] == []
