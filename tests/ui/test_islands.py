"""Islands are where points crowd together, and their words are those that others do not say."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from skillsearch.ui.islands import Named, find_islands

KINDS = (
    ("git-{}", "Rebase branches, wants commits. Use when the user asks."),
    ("invoices-{}", "Check invoices, wants totals. Use when the user asks."),
    ("weather_{}", "Forecast rain and wind. Use when the user asks."),
)
MIDDLES = np.array([[0.2, 0.2], [0.8, 0.3], [0.4, 0.85]])


def crowds(size=20, seed=0):
    """Return three crowds of skills, each of one kind, in no order."""
    chance = np.random.default_rng(seed)
    kinds = chance.permutation(np.repeat(np.arange(3), size))
    xy = MIDDLES[kinds] + chance.uniform(-0.02, 0.02, (len(kinds), 2))
    skills = [
        Named.of(KINDS[kind][0].format("abc"[i % 3]), KINDS[kind][1], "en")
        for i, kind in enumerate(kinds.tolist())
    ]
    return xy.astype(np.float32), skills


def test_each_crowd_is_an_island_named_by_its_own_words():
    islands = find_islands(*crowds())[:3]
    by_words = {island.words[0]: island for island in islands}
    assert set(by_words) == {"git", "invoices", "weather"}
    for word, middle in zip(("git", "invoices", "weather"), MIDDLES, strict=True):
        island = by_words[word]
        assert np.hypot(island.x - middle[0], island.y - middle[1]) < 0.02
        assert 0 < island.radius < 0.03
        assert island.size == 20


def test_words_that_names_lack_and_words_of_all_name_nothing():
    said = {word for island in find_islands(*crowds()) for word in island.words}
    assert not said & {"wants", "use", "user", "asks", "rain"}


def test_the_order_of_skills_changes_nothing():
    xy, skills = crowds()
    order = np.random.default_rng(1).permutation(len(xy))
    assert find_islands(xy[order], [skills[i] for i in order]) == find_islands(xy, skills)


def test_words_are_whole_in_any_script():
    chance = np.random.default_rng(0)
    for name, word in (("गणना-बिल", "गणना"), ("جداول-مبيعات", "جداول"), ("发票整理", "发票")):
        xy = np.vstack([MIDDLES[:1] + chance.uniform(-0.01, 0.01, (9, 2)), chance.random((40, 2))])
        skills = [Named.of(name, "", "")] * 9 + [Named.of("other", "", "")] * 40
        assert word in find_islands(xy.astype(np.float32), skills)[0].words


def test_few_skills_have_no_island():
    assert find_islands(np.zeros((0, 2), np.float32), []) == []
    assert find_islands(np.full((4, 2), 0.5, np.float32), crowds()[1][:4]) == []


@settings(max_examples=30)
@given(st.integers(0, 60), st.integers(0, 99))
def test_any_points_give_islands_in_the_square_with_words_of_their_own(count, seed):
    chance = np.random.default_rng(seed)
    xy = np.clip(chance.normal(0.5, 0.3, (count, 2)), 0, 1).astype(np.float32)
    islands = find_islands(xy, (crowds()[1] * 2)[:count])
    assert len({frozenset(island.words) for island in islands}) == len(islands)
    for island in islands:
        assert 0 <= island.x <= 1
        assert 0 <= island.y <= 1
        assert 5 <= island.size <= count
        assert 1 <= len(island.words) <= 3
