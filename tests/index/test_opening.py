"""An index is brought up to date before it is searched, never by the search."""

import pytest

from skillsearch.embedders.embedding import HashingEmbedder
from skillsearch.embedders.model_files import _stamps_file
from skillsearch.index.corpus import open_current
from skillsearch.index.freshness import Freshness
from skillsearch.index.opening import answer_queries, open_fresh
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.settings.config import load_settings


@pytest.fixture
def another_model(index):
    """Publish the same index as other files of its model would have made it."""

    def publish():
        folder = IndexFolder(index.folder)
        generation = folder.open()
        other = {"identity": "hashing of old", "fingerprint": "0" * 16}
        model = {**generation.settings["model"], **other}
        settings, parts = {**generation.settings, "model": model}, list(generation.parts)
        folder.write(lambda _target: None, settings, before=generation, reused=parts)

    return publish


def test_an_index_whose_model_has_changed_is_refreshed(index, another_model):
    another_model()
    opened = SkillIndex.open(index.folder)
    assert Freshness(opened).look() == "index refreshed: its model has changed"
    assert Freshness(opened).look() == Freshness(SkillIndex.open(index.folder)).look() == ""
    assert opened.search("fill in a PDF form")[0].name == "pdf-forms"
    assert opened.opened.settings.model.fingerprint == HashingEmbedder().fingerprint


def test_an_embedder_that_was_loaded_before_its_model_changed_is_loaded_again(index, another_model):
    another_model()
    folder, old = IndexFolder(index.folder), HashingEmbedder(64)
    opened = SkillIndex(folder, open_current(folder), old)
    assert Freshness(opened).look() == "index refreshed: its model has changed"
    assert opened.opened.settings.model.fingerprint == HashingEmbedder().fingerprint
    assert opened.search("fill in a PDF form")[0].name == "pdf-forms"


def test_changed_skills_and_a_changed_model_are_told_together(index, root, another_model):
    another_model()
    (root / "tea-timer" / "SKILL.md").unlink()
    note = Freshness(SkillIndex.open(index.folder)).look()
    assert note == "index refreshed: 0 added, 0 changed, 1 removed, its model has changed"


@pytest.fixture
def search_all(tmp_path, monkeypatch):
    """Search an index from a folder of no project, whose index would have a key to its folder."""
    monkeypatch.chdir(tmp_path)

    def search_all(folder):
        opened = SkillIndex.open(folder)
        for query in ("fill in a PDF form", "양식을 작성해 줘"):
            opened.search(query, explain=True)
        opened.search_many(["tea", "keys"])

    return search_all


def test_a_search_writes_nothing_to_the_index_or_the_home(index, home, files_of, search_all):
    before = files_of(index.folder), files_of(home)
    search_all(index.folder)
    assert (files_of(index.folder), files_of(home)) == before


@pytest.mark.usefixtures("default_reader")
def test_a_search_with_packaged_models_adds_at_most_their_digests_to_the_home(
    root, build, home, files_of, search_all
):
    """Without them each cold query would read all of the files anew."""
    index = build(root, model="onnx")
    stamps = str(_stamps_file().relative_to(home))
    _stamps_file().unlink(missing_ok=True)
    before = files_of(index.folder), files_of(home)
    search_all(index.folder)
    inside, at_home = files_of(index.folder), files_of(home)
    at_home.pop(stamps, None)
    assert (inside, at_home) == before


def test_every_interface_is_answered_after_the_same_steps(index, root):
    (root / "tea-timer" / "SKILL.md").unlink()
    notes = []
    opened = open_fresh(load_settings(index_dir=index.folder), notes.append)
    queries = ["fill in a PDF form", "차를 우려 주세요"]
    results = list(answer_queries(opened, queries, notes.append, SearchOptions(n=1)))
    assert [result.query for result in results] == queries
    assert results[0][0].name == "pdf-forms"
    assert notes == ["index refreshed: 0 added, 0 changed, 1 removed"]
