"""Which pairs are trained in which order, and which skills side by side."""

import random
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from skillsearch.training.plan import (
    CLUSTER,
    JUDGED,
    SAME,
    QueryRows,
    TrainingSettings,
    batches,
    distinct_skills,
    has_texts,
    make_plan,
    neighbours,
)
from skillsearch.training.queries import SkillText

SETTINGS = TrainingSettings(steps=6, batch_size=16, seed=5)


def make_text(number, **changes):
    fields = {
        "name": f"skill-{number}",
        "about": f"Sorts parcels of kind {number} by weight. Use when bin {number} is full.",
        "body": f"# Steps\n\nWeigh each parcel of kind {number} twice before it goes into a bin.\n",
    }
    return SkillText(**fields | changes)


def unit_rows(count, seed=0, dimensions=8):
    rows = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def skills():
    return [make_text(number) for number in range(40)]


@pytest.fixture(scope="module")
def near():
    return neighbours(unit_rows(40, seed=1, dimensions=12))


@pytest.mark.parametrize("field", ["about", "body"])
def test_a_copy_has_the_row_of_the_first(field):
    """The same description or body, white space and case aside, is the same skill."""
    long = "Weigh each parcel twice before it goes into its bin. " * 6
    first = make_text(1, body=long)
    same = " ".join(getattr(first, field).upper().split(" ")).replace(" ", "\n ")
    copy = make_text(2, **{field: same})
    distinct, rows = distinct_skills([first, make_text(3), copy])
    assert [skill.name for skill in distinct] == ["skill-1", "skill-3"]
    assert rows == {0: 0, 1: 1, 2: 0}


def test_short_bodies_are_equal_by_chance():
    """A stub makes no two skills copies."""
    distinct, _ = distinct_skills([make_text(number, body="See the docs.") for number in (1, 2)])
    assert len(distinct) == 2


def test_texts_to_make_queries_of_are_counted(skills):
    """Each skill here has a clause, two sentences, a heading and a paragraph."""
    assert has_texts(skills[:2], 10)
    assert not has_texts(skills[:2], 11)


def test_the_same_seed_gives_the_same_plan(skills, near):
    plan = make_plan(skills, near, SETTINGS)
    assert plan == make_plan(skills, near, SETTINGS)
    assert plan != make_plan(skills, near, replace(SETTINGS, seed=6))


def test_a_plan_has_a_batch_for_each_step_and_no_skill_twice_in_one(skills, near):
    plan = make_plan(skills, near, SETTINGS)
    assert [len(batch) for batch in plan] == [16] * 6
    for batch in plan:
        rows = [row for row, _ in batch]
        assert len(set(rows)) == len(rows)
        assert all(
            f"kind {row} " in pair.document
            or f"-{row}:" in pair.document
            or f"{row}" in pair.document
            for row, pair in batch
        )


def test_fewer_skills_than_a_batch_are_one_batch(skills, near):
    few = make_plan(skills[:10], neighbours(np.eye(10, dtype=np.float32)), SETTINGS)
    assert {len(batch) for batch in few} == {10}


def test_judged_queries_have_their_share_and_a_near_skill_beside_each(skills, near):
    """A quarter of sixteen is four; each is paired with a field of the chosen skill."""
    judged = [QueryRows(f"where does parcel {row} go", (row,)) for row in range(20)]
    settings = replace(SETTINGS, judged_share=0.25)
    for batch in make_plan(skills, near, settings, judged):
        judged_at = [index for index, (_, pair) in enumerate(batch) if pair.kind == JUDGED]
        assert len(judged_at) == 4
        for index in judged_at:
            row, pair = batch[index]
            assert pair.query == f"where does parcel {row} go"
            assert f"kind {row} " in pair.document
            assert batch[index + 1][0] in near[row][:8]


def test_few_judged_queries_are_not_learned_by_heart(skills, near):
    """One query is used at most eight times, up to rounding, however many steps there are."""
    settings = replace(SETTINGS, steps=30, judged_share=0.5)
    plan = make_plan(skills, near, settings, [QueryRows("where does it go", (3,))] * 8)
    assert sum(pair.kind == JUDGED for batch in plan for _, pair in batch) == 90


@pytest.mark.parametrize(
    ("steps", "rates"),
    [
        (100, {1: 0.2, 5: 1.0, 24: 0.8, 62: 0.4, 99: 0.02, 100: 0.02}),
        (3, {1: 1.0, 2: 0.5, 3: 0.02}),
    ],
)
def test_the_learning_rate_rises_and_falls(steps, rates):
    settings = TrainingSettings(steps=steps, learning_rate=2.0, warm_up=0.05)
    shares = {step: settings.rate_at(step) / 2.0 for step in rates}
    assert shares == pytest.approx(rates)


def test_without_judged_queries_the_share_means_nothing(skills, near):
    assert make_plan(skills, near, replace(SETTINGS, judged_share=0.5)) == make_plan(
        skills, near, SETTINGS
    )


def test_neighbours_are_those_of_a_full_sort():
    vectors = unit_rows(300)
    nearest = neighbours(vectors)
    cosines = vectors @ vectors.T
    for row, near in enumerate(nearest):
        allowed = [other for other in range(300) if cosines[row, other] < SAME]
        expected = sorted(allowed, key=lambda other: -cosines[row, other])[: len(near)]
        assert [other for other in near if other >= 0] == expected


def test_a_skill_is_no_neighbour_of_itself_or_its_copies():
    vectors = unit_rows(20)
    vectors[7] = vectors[3]
    nearest = neighbours(vectors)
    assert 3 not in nearest[7]
    assert 7 not in nearest[3]
    assert all(row not in near for row, near in enumerate(nearest))


@pytest.mark.parametrize("count", [2, 3, 9])
def test_few_skills_have_few_neighbours(count):
    assert neighbours(unit_rows(count)).shape == (count, count - 1)


def test_every_skill_is_dealt_once_a_round():
    near = neighbours(unit_rows(100))
    first = [row for batch in islice(batches(near, 10, random.Random(3)), 10) for row in batch]
    assert sorted(first) == list(range(100))


def test_a_batch_is_made_of_neighbours():
    vectors = unit_rows(400, dimensions=4)
    batch = next(batches(neighbours(vectors), 4 * CLUSTER, random.Random(3)))
    together = vectors[batch[:CLUSTER]] @ vectors[batch[:CLUSTER]].T
    assert together[np.triu_indices(CLUSTER, 1)].mean() > 0.3
