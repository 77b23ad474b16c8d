"""Near-identical skills take one place."""

import numpy as np
import pytest

from skillsearch.index.search.duplicates import collapse, copies

LONG = "A body that is long enough to tell skills apart. " * 8


@pytest.fixture
def corpus_of(tmp_path, add_skill, build):
    """Index skills given as (name, description, body), numbered in that order."""

    def corpus_of(*skills, **options):
        for number, (name, description, body) in enumerate(skills):
            add_skill(tmp_path / "skills" / f"folder-{number}", name, description, body)
        return build(tmp_path / "skills", **options).opened.corpus

    return corpus_of


@pytest.fixture
def groups(corpus_of):
    """Return the groups of an index over skills given as (name, description, body)."""

    def groups(*skills, n=10, order=None):
        return collapse(corpus_of(*skills), np.array(order or range(len(skills)), np.int64), n)

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


FORMS = ("pdf", "Fill in PDF forms and flatten them", LONG)


@pytest.mark.parametrize(
    ("other", "stands_for"),
    [
        (FORMS, True),
        (("PDF", "Trim video clips with care", "# Other"), True),
        (("filler", "Trim video clips with care", LONG), True),
        (("pdfs", "Fill in PDF forms and flatten them", "# Other"), False),
        (("tea", "Make tea", "# Other"), False),
    ],
)
def test_one_likeness_is_enough_to_stand_for_a_skill(corpus_of, other, stands_for):
    """Its name, its metadata or its body, either way round."""
    corpus = corpus_of(FORMS, other)
    for number in (0, 1):
        assert copies(corpus, [number]) == ({0, 1} if stands_for else {number})


def test_equal_metadata_alone_stands_for_a_skill(corpus_of):
    """Under names that weigh little beside a long description."""
    text = "Fill in the fields of a PDF form, flatten it, sign it and send it to the office. " * 5
    corpus = corpus_of(("a", text, "# One"), ("b", text, "# Two"), ("tea", "Make tea", ""))
    assert np.dot(*corpus.dense[0].segments[0].fields[0][:2]) >= 0.97
    assert copies(corpus, [1]) == {0, 1}


def test_no_body_is_no_equal_body(corpus_of):
    """Two skills that say nothing more are not one."""
    corpus = corpus_of(("pdf", "Fill in forms", ""), ("tea", "Make tea", ""))
    assert copies(corpus, [0]) == {0}


def test_an_index_of_metadata_alone_has_copies_by_body_too(corpus_of):
    """By its digest, which every document has."""
    corpus = corpus_of(FORMS, ("filler", "Trim video clips", LONG), with_body=False)
    assert copies(corpus, [0]) == {0, 1}


def test_copies_of_several_skills_are_put_together(corpus_of):
    """Each once; of none there are none."""
    tea = ("tea", "Make tea", "Boil water.")
    corpus = corpus_of(FORMS, tea, FORMS, ("sql", "Tune queries", "# Plans"), tea)
    assert copies(corpus, [0, 1, 0]) == {0, 1, 2, 4}
    assert copies(corpus, []) == set()
