"""When an index is looked at and refreshed, by whom, and what is said of it."""

import json
import shutil

import pytest

import skillsearch
from skillsearch.agents import default_tools
from skillsearch.errors import SkillSearchError
from skillsearch.index.freshness import MAX_AGE, PAUSE, Freshness, LookTimer
from skillsearch.index.indexing.options import IndexOptions, SegmentLimits
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage import cache
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.settings.config import load_settings

FRESHNESS = "skillsearch.index.freshness"
HASHING = {"model": "hashing"}


def test_a_skill_of_a_root_that_is_gone_is_said_to_wait_for_it(kitchen, clock):
    library = SkillLibrary.open(kitchen.index_dir)
    kitchen.lose_tools()
    for _ in range(2):
        with pytest.raises(SkillSearchError, match="its folder 'tools' is gone") as caught:
            library.load("sharpen-knife")
        assert str(kitchen.base) not in str(caught.value)
        clock.now += MAX_AGE
    kitchen.return_tools()
    assert "Use a stone" in library.load("sharpen-knife").skill.body


def test_much_is_indexed_by_the_executor_and_told_once(kitchen, clock, make_later):
    later = make_later()
    library = SkillLibrary.open(kitchen.index_dir, executor=later)
    kitchen.mix_many()
    for note in ("much has changed (33 added, 0 changed, 0 removed) and is being indexed", ""):
        hits = library.search("mix cocktail number 7")
        assert "mix-7" not in [hit.name for hit in hits]
        assert library.take_note().partition(";")[0] == note
        clock.now += MAX_AGE
    assert len(later.waiting) == 1
    assert library.is_indexing
    later.work()
    assert library.search("mix cocktail number 7")[0].name == "mix-7"
    assert (library.is_indexing, library.take_note()) == (False, "")


def test_little_is_indexed_at_once_although_there_is_an_executor(kitchen, clock, make_later):
    for kind in ("open", "roots"):
        later = make_later()
        if kind == "open":
            library = SkillLibrary.open(kitchen.index_dir, executor=later)
        else:
            library = SkillLibrary.from_roots(kitchen.roots, executor=later, **HASHING)
            with pytest.raises(SkillSearchError):
                library.search("tea")
            later.work()
        library.search("tea")
        clock.now += MAX_AGE
        kitchen.write(
            kitchen.drinks, f"mull-{kind}", f"Mull wine for {kind} parties.", "Do not boil"
        )
        assert library.search(f"mull wine for {kind} parties")[0].name == f"mull-{kind}"
        assert later.waiting == []


def test_without_an_executor_the_message_says_what_to_run(kitchen, clock):
    freshness = Freshness(SkillIndex.open(kitchen.index_dir))
    kitchen.mix_many()
    for _ in range(2):
        warning = freshness.look()
        assert warning.startswith("warning: much has changed (33 added, 0 changed, 0 removed)")
        assert "To fix: run `skillsearch index" in warning
        clock.now += MAX_AGE
    SkillIndex.open(kitchen.index_dir).refresh()
    assert freshness.look() == ""
    assert len(freshness.index) == 5 + 33


def test_a_large_index_is_looked_at_by_the_executor(kitchen, clock, monkeypatch, make_later):
    monkeypatch.setattr(f"{FRESHNESS}.MAX_CHECKED_SKILLS", 3)
    later = make_later()
    library = SkillLibrary.open(kitchen.index_dir, executor=later)
    library.search("tea")
    later.work()
    kitchen.mull_wine()
    for seconds, looks in ((MAX_AGE / 2, 0), (MAX_AGE, 1)):
        clock.now += seconds
        hits = library.search("mull red wine with cinnamon")
        assert "mull-wine" not in [hit.name for hit in hits]
        assert len(later.waiting) == looks
    later.work()
    assert library.search("mull red wine with cinnamon")[0].name == "mull-wine"


@pytest.mark.parametrize("cost", [0.0, 0.001, 0.06, 0.5, 40.0])
def test_a_look_is_followed_by_a_pause_that_its_cost_decides(clock, monkeypatch, cost):
    monkeypatch.setattr(f"{FRESHNESS}.thread_time", iter([7.0, 7.0 + cost]).__next__)
    timer = LookTimer()
    assert timer.is_due(MAX_AGE)
    assert timer.is_current(lambda: True)
    pause = max(MAX_AGE, PAUSE * cost)
    clock.now += pause * 0.99
    assert not timer.is_due(MAX_AGE)
    clock.now += pause * 0.02
    assert timer.is_due(MAX_AGE)
    assert timer.is_due(0)


def test_a_look_in_vain_counts_and_what_is_indexed_does_not(
    kitchen, clock, monkeypatch, make_later
):
    """Where a root of a large index is gone, each look compares everything."""
    monkeypatch.setattr(f"{FRESHNESS}.MAX_CHECKED_SKILLS", 3)
    monkeypatch.setattr(f"{FRESHNESS}.thread_time", iter(range(0, 1000, 5)).__next__)
    later = make_later()
    freshness = Freshness(SkillIndex.open(kitchen.index_dir), later)
    kitchen.mull_wine()
    kitchen.lose_tools()
    for pause in (MAX_AGE, 5 * PAUSE):
        assert "tools is gone" in freshness.look()
        later.work()
        clock.now += pause * 0.99
        assert "tools is gone" in freshness.look()
        assert not later.waiting
        clock.now += pause * 0.02
    freshness.look()
    assert later.waiting
    assert len(freshness.index) == 6


def test_a_folder_that_is_gone_is_told_once_until_it_is_back(kitchen, clock):
    library = SkillLibrary.open(kitchen.index_dir)
    for _ in range(2):
        kitchen.lose_tools()
        clock.now += MAX_AGE
        library.list()
        note = f"the folder {kitchen.tools} is gone; searching the index as it was"
        assert [library.take_note(), library.take_note()] == [note, ""]
        kitchen.return_tools()
        clock.now += MAX_AGE
        library.list()
        assert library.take_note() == ""


def test_json_says_what_stderr_says(kitchen, cli):
    kitchen.mull_wine()
    kitchen.lose_tools()
    result = cli("query", "mull red wine with cinnamon", "--json")
    record = json.loads(result.stdout)
    assert record["hits"][0]["name"] == "mull-wine"
    assert "\n".join(record["notes"]) + "\n" == result.stderr
    assert result.stderr.startswith(
        "index refreshed: 1 added, 0 changed, 0 removed\nwarning: the folder "
    )


def test_a_server_says_in_its_answer_which_root_is_gone(kitchen, clock, make_server, talk):
    async def say(client):
        query = {"query": "steep green tea at the right temperature"}
        await client.call_tool("search_skills", query)
        kitchen.lose_tools()
        clock.now += MAX_AGE
        return [await client.call_tool("search_skills", query) for _ in range(2)]

    answer, again = talk(make_server(index_dir=kitchen.index_dir), say)
    problem = "the folder tools is gone; searching the index as it was"
    assert answer.structured_content["problem"] == problem
    assert answer.content[0].text.endswith(f"\n[{problem}]")
    assert "problem" not in again.structured_content


def test_a_setting_leaves_the_disk_alone_everywhere(kitchen, clock, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_REFRESH", "false")
    default_tools._open.cache_clear()
    kitchen.mull_wine()
    clock.now += MAX_AGE
    assert skillsearch.search_skills("mull red wine with cinnamon") == []
    kitchen.index()
    hits = skillsearch.search_skills("mull red wine with cinnamon")
    assert [hit["name"] for hit in hits] == ["mull-wine"]


def test_what_another_process_wrote_is_searched_with_the_model_that_is_loaded(kitchen):
    library = SkillLibrary.open(kitchen.index_dir)
    library.search("tea")
    index = library._source.index()
    embedder = index._embedder.loaded
    kitchen.mull_wine()
    kitchen.index()
    assert library.search("mull red wine with cinnamon")[0].name == "mull-wine"
    assert library._source.index() is index
    assert index._embedder.loaded is embedder is not None


def test_two_versions_that_run_do_not_rebuild_the_index_in_turn(kitchen, clock, monkeypatch):
    library = SkillLibrary.open(kitchen.index_dir)
    library.search("tea")
    folder = IndexFolder(kitchen.index_dir)
    with monkeypatch.context() as newer:
        newer.setattr(cache, "FORMAT_VERSION", 99)
        kitchen.mull_wine()
        kitchen.index()
        theirs = folder.current()
    kitchen.mix_many()
    for note in ("another version of skillsearch wrote it since (its format is 99, not", ""):
        assert "mull-wine" not in [hit.name for hit in library.search("mull red wine")]
        assert note in (said := library.take_note())
        assert bool(note) == bool(said)
        assert folder.current() == theirs
        clock.now += MAX_AGE
    assert library.search("sharpen a kitchen knife")[0].name == "sharpen-knife"
    kitchen.index()
    assert library.search("mull red wine with cinnamon")[0].name == "mull-wine"


@pytest.mark.parametrize("back", ["as it was", "changed"])
def test_an_index_keeps_what_it_knows_of_a_root_that_is_gone(kitchen, build, back):
    kitchen.lose_tools()
    kitchen.mull_wine()
    index = SkillIndex.open(kitchen.index_dir)
    index.refresh(keep_missing=True)
    assert {document.name for document in index.documents()} >= {"mull-wine", "sharpen-knife"}
    assert [root.path for root in index.opened.settings.roots] == [*kitchen.roots]
    kitchen.return_tools()
    if back == "changed":
        kitchen.write(kitchen.tools, "sew-button", "Sew a button on a shirt.", "Thread it")
        shutil.rmtree(kitchen.tools / "polish-shoes")
    index.refresh(keep_missing=True)
    assert index.generation == build(*kitchen.roots, index_dir="fresh").generation


def test_what_would_lose_a_root_that_is_gone_is_refused(kitchen):
    """Another model reads all skills anew; the index stays as it is."""
    request = IndexRequest.load(kitchen.index_dir)
    kitchen.lose_tools()
    index = SkillIndex.open(kitchen.index_dir)
    part = max(index.opened.folder.glob("*"), key=lambda path: path.stat().st_size)
    part.unlink()
    with pytest.raises(SkillSearchError, match="Nothing was changed"):
        index.refresh(keep_missing=True)
    assert IndexRequest.load(kitchen.index_dir) == request


def test_folders_that_are_served_do_not_make_an_index_forget_one(kitchen, clock):
    """A library of folders drops a root that is gone, and the saved index has it again later."""
    kitchen.lose_tools()
    library = SkillLibrary.from_roots(kitchen.roots, index_dir=kitchen.index_dir, **HASHING)
    library.search("tea")
    assert IndexRequest.load(kitchen.index_dir).roots == kitchen.roots
    kitchen.return_tools()
    index = SkillIndex.open(kitchen.index_dir)
    assert Freshness(index).look() == "index refreshed: a folder is back"
    assert index.search("sharpen a kitchen knife")[0].name == "sharpen-knife"


@pytest.fixture
def garden(kitchen, tmp_path):
    """Write another root, whose skills have chunks and bring examples."""
    root = tmp_path / "garden"
    chunks = "<chunk id=soil description=Soil>Loosen it.</chunk>\n<chunk id=sun>South.</chunk>"
    kitchen.write(root, "plant-beans", "Plant beans in spring.", chunks)
    kitchen.write(root, "prune-roses", "Prune roses after frost.", "Cut above a bud")
    evals = root / "prune-roses" / "evals" / "evals.json"
    evals.parent.mkdir()
    evals.write_text(json.dumps([{"query": "my rose bush is overgrown"}]))
    return root


def take_up(kitchen, root, **options):
    """Index one more root as a question that waits for it does."""
    index = SkillIndex.open(kitchen.index_dir)
    change = RootChange((str(root),), "add", load_settings())
    return index, index.apply(change, IndexOptions(metadata_first=True, **options))


def test_a_new_root_has_its_metadata_embedded_first_and_the_rest_by_the_next_run(
    kitchen, garden, build
):
    index, report = take_up(kitchen, garden)
    assert (report.embedded, index.opened.settings.pending) == (2, (str(garden),))
    hits = index.search("my rose bush is overgrown", threshold=0)
    assert hits[0].name == "prune-roses"
    assert index.search("plant beans in soil, loosen it", threshold=0)[0].chunk == "soil"
    kitchen.write(garden, "water-ferns", "Water ferns.", "<chunk id=pot>Soak it.</chunk>")
    kitchen.write(kitchen.drinks, "mull-wine", "Mull wine.", "<chunk id=heat>Do not boil.</chunk>")
    _, report = take_up(kitchen, garden)
    assert report.embedded == 3  # the metadata of both, and the chunk of the root that is not new
    finished = index.refresh()
    assert (finished.embedded, finished.indexed) == (4, len(index))
    assert index.opened.settings.pending == ()
    assert index.generation == build(*kitchen.roots, garden, index_dir="fresh").generation
    assert index.refresh().generation == index.generation


@pytest.mark.parametrize("how", ["question", "executor", "delta"])
def test_what_waits_is_embedded_by_the_next_question_or_the_executor(
    kitchen, garden, clock, build, how, make_later
):
    limits = SegmentLimits(least_documents=1 if how == "delta" else 1_000)
    index, _ = take_up(kitchen, garden, limits=limits)
    later = make_later()
    freshness = Freshness(index, later if how == "executor" else None)
    assert freshness.look() == ""
    if how == "executor":
        assert index.opened.settings.pending
        later.work()
        clock.now += MAX_AGE
        assert freshness.look() == ""
    assert index.opened.settings.pending == ()
    assert later.waiting == []
    assert SkillIndex.open(kitchen.index_dir).generation == index.generation
    assert index.generation == build(*kitchen.roots, garden, index_dir="fresh").generation


def test_what_waits_in_a_root_that_is_gone_goes_on_waiting(kitchen, garden, clock, build):
    index, _ = take_up(kitchen, garden)
    garden.rename(garden.with_name("away"))
    freshness = Freshness(index)
    for _ in range(2):
        assert "is gone" in freshness.look()
        clock.now += MAX_AGE
    index.refresh(keep_missing=True)
    assert index.opened.settings.pending == (str(garden),)
    garden.with_name("away").rename(garden)
    index.refresh()
    assert index.generation == build(*kitchen.roots, garden, index_dir="fresh").generation
