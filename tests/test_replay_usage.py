"""Tests of the script that replays usage."""

import numpy as np
import pytest

from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.evidence import EVIDENCE
from skillsearch.usage.events import Event, packed
from skillsearch.usage.support import Usage

REQUEST = "lemons, tea or coffee"


@pytest.fixture
def replay(import_script):
    return import_script("replay_usage")


@pytest.fixture
def samples(replay):
    """Make requests whose right skill comes second, both of them fitting."""
    rows = np.eye(8, dtype=np.float32)
    nothing = dict.fromkeys(EVIDENCE, 0.0)
    hits = [{**nothing, "cosine_metadata": 1.5}, {**nothing, "cosine_metadata": 1.4}]
    return [replay.Sample(row, {f"right {n}": 2}, [f"wrong {n}", f"right {n}"], hits)
            for n, row in enumerate(rows)]  # fmt: skip


def test_right_loads_put_a_skill_first_for_the_same_request_alone(replay, samples):
    changes = replay.replay(samples, 1.0, 3, 2, default_calibration())
    assert changes["repeated"][:, 1].tolist() == [1.0] * 8
    assert not changes["new"].any()


def test_wrong_loads_do_not(replay, samples):
    changes = replay.replay(samples, 0.0, 3, 1, default_calibration())
    assert not changes["repeated"].any()
    events = list(replay.loads(samples, 0.0, 2, np.random.default_rng(0)))
    assert {event.skill.partition(" ")[0] for event in events} == {"wrong"}


def test_measures_are_those_of_a_ranking(replay):
    grades = {"a": 2, "b": 1}
    assert replay.measures(["a", "b"], grades) == (1.0, 1.0)
    assert replay.measures(["c", "a"], grades)[1] == 0.0
    assert replay.measures(["c", "d"], grades) == (0.0, 0.0)


def test_a_ranking_is_that_of_a_search(replay, drinks_index):
    from skillsearch.index.search.candidates import find_candidates
    from skillsearch.index.search.evidence import MOST_USAGE, find_evidence
    from skillsearch.index.search.ranker import heads, rank
    from skillsearch.index.skill_index import SkillIndex

    index = SkillIndex.open(drinks_index)
    form, corpus = index.analyse(REQUEST), index.opened.corpus
    (candidates,) = find_candidates(corpus, [form], 10)
    ranked = heads(corpus, rank(corpus, candidates, "hybrid", default_calibration()))
    rows = ranked.best[:10].tolist()
    skills = [corpus.documents[int(number)].doc_id for number in ranked.documents[rows]]
    sample = replay.Sample(form.vector, {}, skills, find_evidence(corpus, form, ranked, rows))
    second = replay.ranking(sample, None, default_calibration(), MOST_USAGE)[1]
    load = Event("loaded", 0, "", vector=packed(form.vector), skill=second)
    index.usage = Usage.of([load] * 9, len(form.vector), 0)
    hits = index.search(REQUEST, 10, 0.0).hits
    ordered = replay.ranking(sample, index.usage, default_calibration(), MOST_USAGE)
    assert [hit.doc_id for hit in hits] == ordered[: len(hits)]
    assert ordered[0] == second
