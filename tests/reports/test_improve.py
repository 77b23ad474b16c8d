"""A description is proposed only if it helps on other requests, at no cost of a rival."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from skillsearch.errors import QueryError, SkillError, StorageError
from skillsearch.files import atomic_files
from skillsearch.index.indexing.trial import Trial
from skillsearch.index.skill_index import SkillIndex
from skillsearch.reports.improve import (
    LEAST_REQUESTS,
    MOST_REQUESTS,
    Figures,
    Improver,
    mined_requests,
    own_requests,
    split,
)
from skillsearch.reports.improving import Improving, read_requests
from skillsearch.reports.own_files import replace_skill_md, why_not_own
from skillsearch.reports.proposals import KINDS, Proposal
from skillsearch.skills.parser import read_skill

MADE_FROM = ["brew sencha in a kettle", "brew gyokuro leaves"]
MEASURED = ["which kettle to brew sencha", "brew gyokuro for how long"]


@pytest.fixture
def index(drinks, tmp_path):
    """Index the drinks by the hashing embedder."""
    return SkillIndex.from_roots(drinks, index_dir=tmp_path / "index", model="hashing")


@pytest.fixture
def improver(index, tmp_path):
    """Take the skill about tea, whose rivals are found by a request each."""
    trial, document = Trial.begin(index.opened, tmp_path / "trial"), index.find("steep-tea")
    data = Path(document.path).read_bytes()
    return Improver(trial, document, data, lambda rival: [f"{rival.name} please"], "off")


def test_words_of_requests_help_with_other_requests_and_rivals_keep_theirs(improver):
    found = improver.improve(MADE_FROM, MEASURED)
    assert found.is_proposed
    assert found.is_split
    assert found.own.after.is_better(found.own.before)
    assert found.own.after.first == len(MEASURED)
    assert found.description.startswith(found.before)
    assert all(word in found.description for word in ("sencha", "gyokuro"))
    assert found.rivals
    assert not any(effect.after.is_worse(effect.before) for effect in found.rivals)
    (again,) = improver.attempts([Proposal((), found.description)], MEASURED)
    assert again.after == found.own.after
    assert "made from 2 requests, measured on 2 others" in found.summary
    assert "first for 0 → 2" in found.own.summary


def test_the_same_skill_and_requests_give_the_same_proposal(improver, index, tmp_path):
    again = Trial.begin(index.opened, tmp_path / "again")
    other = replace(improver, trial=again)
    assert other.improve(MADE_FROM, MEASURED) == improver.improve(MADE_FROM, MEASURED)


def test_what_would_cost_a_rival_its_request_is_not_proposed(improver):
    """The rival is the first hit for what it is asked now, and would not be any more."""
    asked = "brew gyokuro in a kettle for sencha"
    held = {"brew-coffee": [asked]}
    strict = replace(improver, requests_of=lambda document: held.get(document.name, []))
    found = strict.improve(MADE_FROM, MEASURED)
    rival = next(rival for rival in found.rivals if rival.name == "brew-coffee")
    assert rival.before.first == 1
    assert (found.is_proposed, found.description) == (False, found.before)
    assert found.costly > 0
    assert "at the cost of a rival" in found.summary
    assert rival.after == rival.before


def test_a_request_that_costs_a_rival_is_left_out(improver):
    """All kinds of proposals cost it, as long as they are made of all requests."""
    milk, made_from = "warm milk for guests", [*MADE_FROM, "warm milk for guests"]
    held = {"brew-coffee": [f"filter {milk}"]}
    strict = replace(improver, requests_of=lambda document: held.get(document.name, []))
    found = strict.improve(made_from, MEASURED)
    rival = next(rival for rival in found.rivals if rival.name == "brew-coffee")
    documents = improver.trial.opened.corpus.documents
    document = documents[documents.number_of(rival.doc_id)]
    material = strict.material(made_from)
    made = filter(None, (material.made(kinds) for kinds in KINDS))
    for attempt in strict.attempts(made, MEASURED):
        after, _ = strict.measure(attempt.searched, document, held["brew-coffee"])
        assert after.is_worse(rival.before)
    assert found.is_proposed
    assert "milk" not in found.description
    assert rival.after == rival.before


def test_a_description_that_is_found_for_everything_is_fine(improver):
    found = improver.improve(["steep green tea"], ["steep-tea"])
    assert not found.is_proposed
    assert "is fine" in found.summary


def test_requests_are_split_so_that_every_second_one_measures():
    texts = ["a b", "c  d", "e", "a b", "f", "g\u200bh"]
    assert split(texts) == (["a b", "e", "gh"], ["c d", "f"], True)
    few = ["a", "b", "c"][: LEAST_REQUESTS - 1]
    assert split(few) == (few, few, False)
    many = [str(number) for number in range(500)]
    assert sum(map(len, split(many)[:2])) == MOST_REQUESTS


def test_figures_are_better_only_if_none_falls():
    before = Figures(4, 2, 3, 1)
    assert Figures(4, 3, 3, 1).is_better(before)
    assert not Figures(4, 3, 2, 1).is_better(before)
    assert not before.is_better(before)
    assert Figures(4, 4, 4, 0).is_worse(before)


def test_a_skill_without_examples_is_asked_what_its_body_lists(index):
    body = "# Tea\n\n## When to use\n\n- brew a pot for guests\n- tea\n"
    assert mined_requests(body) == ["brew a pot for guests"]
    assert own_requests(index, index.find("steep-tea")) == []


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (b"one thing\n\n  another \n", ["one thing", "another"]),
        (b'{"request": "one"}\n{"query": "two", "n": 1}\n"three"\n', ["one", "two", "three"]),
        (b"\xef\xbb\xbf{broken\n", ["{broken"]),
        (b'{"other": 1}\n{"text": 5}\n', []),
        (b"[" * 10_000, ["[" * 10_000]),
        (b"{" * 100_000, ["{" * 100_000]),
    ],
)
def test_requests_are_read_as_lines_or_json(data, texts):
    assert read_requests(data) == texts


def test_requests_in_another_encoding_are_refused():
    with pytest.raises(
        QueryError, match=r"Line 2 of the requests is not UTF-8; save them as that\."
    ):
        read_requests("tea\ncafé\n".encode("latin-1"))


def test_a_file_that_cannot_be_edited_safely_is_refused_with_its_path(index, drinks):
    path = drinks / "steep-tea" / "SKILL.md"
    path.write_text("---\nname: steep-tea\n---\nSteep green tea.\n", "utf-8")
    index.refresh()
    with pytest.raises(SkillError, match=rf"{path} has no description of its own"):
        Improving.of(index, "steep-tea").improve([*MADE_FROM, *MEASURED], "off")
    with pytest.raises(SkillError, match="There are no requests for squeeze-lemons"):
        Improving.of(index, "squeeze-lemons").improve([], "off")


def test_only_plain_folders_of_the_user_are_edited(index, drinks, tmp_path):
    document = index.find("steep-tea")
    assert why_not_own(index, document, tmp_path) == ""
    index.add_roots(drinks, trust="project")
    assert "nobody vouches" in why_not_own(index, index.find("steep-tea"), tmp_path)


def test_a_skill_of_an_archive_and_a_link_out_of_the_root_are_refused(index, drinks, tmp_path):
    document = index.find("steep-tea")
    shutil.move(drinks / "steep-tea", tmp_path / "elsewhere")
    (drinks / "steep-tea").symlink_to(tmp_path / "elsewhere")
    assert "a link out of its root" in why_not_own(index, document, tmp_path)
    archive = shutil.make_archive(tmp_path / "tea", "zip", tmp_path, "elsewhere")
    index = SkillIndex.from_roots(archive, index_dir=tmp_path / "other", model="hashing")
    assert f"came from {archive}" in why_not_own(index, index.find("steep-tea"), tmp_path)


def test_a_file_is_replaced_with_its_mode_and_not_if_it_has_changed(drinks):
    path = drinks / "steep-tea" / "SKILL.md"
    before = path.read_bytes()
    path.chmod(0o640)
    replace_skill_md(path, before, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o640)
    with pytest.raises(SkillError, match="was changed meanwhile"):
        replace_skill_md(path, before, b"newer")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_an_interrupted_write_loses_nothing(drinks, monkeypatch, step):
    path = drinks / "steep-tea" / "SKILL.md"
    before = path.read_bytes()

    def fail(*_, **__):
        raise KeyboardInterrupt

    if step == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    else:
        monkeypatch.setattr(atomic_files.os, "fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        replace_skill_md(path, before, b"new")
    assert path.read_bytes() == before
    assert [*path.parent.iterdir()] == [path]


def test_a_full_disk_is_told_and_the_file_stays(drinks, monkeypatch):
    path = drinks / "steep-tea" / "SKILL.md"
    before = path.read_bytes()

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(StorageError, match="No space left on device"):
        replace_skill_md(path, before, b"new")
    assert path.read_bytes() == before


def test_what_is_written_reads_as_proposed_and_keeps_its_examples(index, drinks):
    improving = Improving.of(index, "steep-tea")
    found = improving.improve([MADE_FROM[0], MEASURED[0], MADE_FROM[1], MEASURED[1]], "off")
    assert found.is_proposed
    improving.write(found)
    path = drinks / "steep-tea" / "SKILL.md"
    assert read_skill(path, doc_id="", root=drinks).description == found.description
