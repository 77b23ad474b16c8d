"""Tests of what the daemon answers, and of the indexes it keeps open."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from skillsearch.agents.prompt import PromptSkill, render_overview
from skillsearch.daemon.answers import MAX_INDEXES, Answers, WarmIndexes
from skillsearch.daemon.client import read_search
from skillsearch.embedders.embedder import LOADERS
from skillsearch.embedders.embedding import HashingEmbedder
from skillsearch.errors import (
    ConfigError,
    DaemonError,
    EmbedderError,
    IndexNotFoundError,
    QueryError,
)
from skillsearch.files.own_folder import own_folder
from skillsearch.index.freshness import MAX_REFRESHED_FILES
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.settings.environ import variables
from skillsearch.settings.user_folders import cache_dir


@pytest.fixture
def answers():
    return Answers()


@pytest.fixture
def prompt(tmp_path, index_dir, indexed):
    """Return the arguments of an overview in an index of drinks, some changed."""

    def make(text="brew filter coffee", **changes):
        arguments = {"prompt": text, "n": 3, "folder": str(tmp_path), "variables": variables()}
        arguments |= {"index_dir": str(index_dir), "include_unvetted": False, "states": []}
        return arguments | changes

    return make


def names(answer):
    return [hit["name"] for hit in answer["result"]["hits"]]


def without_time(record):
    return {key: value for key, value in record.items() if key != "seconds"}


@pytest.mark.parametrize(
    ("system", "explain", "threshold"),
    [
        ("hybrid", False, None),
        ("hybrid", True, None),
        ("hybrid", True, 1.0),
        ("bm25", False, 0.0),
        ("dense", True, 0.0),
        ("rrf", False, 0.0),
    ],
)
def test_an_answer_is_that_of_the_index(
    answers, question, index_dir, fits_from, system, explain, threshold
):
    fits_from(1.0)
    arguments = question(system=system, explain=explain, threshold=threshold)
    answer = json.loads(json.dumps(answers.search(arguments)))
    expected = SkillIndex.open(index_dir).search(
        "brew filter coffee", 5, threshold, system=system, explain=explain
    )
    result, _, notes = read_search(answer)
    assert without_time(result.to_dict()) == without_time(expected.to_dict())
    assert (result.hits, result.perhaps) == (expected.hits, expected.perhaps)
    assert bool(result.perhaps) == (system == "hybrid" and threshold is None)
    assert notes == ()


@pytest.mark.parametrize(
    "damage",
    [
        lambda answer: answer.pop("result"),
        lambda answer: answer.pop("notes"),
        lambda answer: answer.pop("nearest"),
        lambda answer: answer.update(notes=3),
        lambda answer: answer["result"].pop("hits"),
        lambda answer: answer["result"].pop("perhaps"),
        lambda answer: answer["result"].update(hits=[1]),
        lambda answer: answer["result"].update(more=1),
        lambda answer: answer["result"]["hits"][0].pop("duplicates"),
        lambda answer: answer["result"]["hits"][0].update(explain=[]),
    ],
)
def test_an_answer_of_another_form_is_refused(answers, question, damage):
    """A client never shows half of one."""
    answer = answers.search(question())
    damage(answer)
    with pytest.raises(DaemonError, match="unknown form"):
        read_search(answer)


def test_a_changed_folder_is_indexed_where_a_refresh_is_asked_for(
    answers, question, drinks, make_skill
):
    make_skill(drinks, "mix-cocktails", "Mix cocktails with a shaker.")
    assert names(answers.search(question(query="mix cocktails"))) == []
    refreshed = answers.search(question(query="mix cocktails", refresh=True))
    assert names(refreshed) == ["mix-cocktails"]
    assert refreshed["notes"] == ["index refreshed: 1 added, 0 changed, 0 removed"]
    assert answers.search(question(refresh=True))["notes"] == []


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"query": " "}, QueryError, "The query is empty"),
        ({"query": "x" * 65_537}, QueryError, "65,537 characters"),
        ({"n": 0}, QueryError, "n is 0"),
        ({"threshold": 2}, QueryError, "threshold is 2"),
        ({"system": "magic"}, QueryError, "system is 'magic'"),
        ({"query": None}, DaemonError, "'query' has the wrong type"),
        ({"n": True}, DaemonError, "'n' has the wrong type"),
        ({"n": 1.5}, DaemonError, "'n' has the wrong type"),
        ({"threshold": "0"}, DaemonError, "'threshold' has the wrong type"),
        ({"explain": 1}, DaemonError, "'explain' has the wrong type"),
        ({"index_dir": "relative"}, DaemonError, "not an absolute path"),
        ({"index_dir": "/a\0b"}, DaemonError, "not an absolute path"),
        ({"index_dir": "/nowhere"}, IndexNotFoundError, "no index in /nowhere"),
        ({"more": 1}, DaemonError, "'more' is missing or unknown"),
    ],
)
def test_an_argument_that_cannot_be_used_is_named(answers, question, changes, error, message):
    with pytest.raises(error, match=message):
        answers.search(question(**changes))
    assert names(answers.search(question())) == ["brew-coffee"]


def test_a_damaged_index_is_left_to_the_client(answers, question, index_dir):
    """It builds the index anew, and tells its user meanwhile."""
    part = max(index_dir.glob("generations/*/*"), key=lambda path: path.stat().st_size)
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(DaemonError, match="rebuilt"):
        answers.search(question())


def test_one_question_waits_for_another_but_not_for_long(question):
    """A client that is told so searches by itself."""
    answers = Answers(busy_seconds=0.05)
    with answers._my_turn(), pytest.raises(DaemonError, match="busy"):
        answers.search(question())
    assert names(answers.search(question())) == ["brew-coffee"]


def test_the_indexes_asked_last_stay_open(answers, question, cli, drinks, tmp_path):
    folders = [tmp_path / f"index-{number}" for number in range(MAX_INDEXES + 1)]
    for folder in folders:
        cli("index", drinks, "--index-dir", folder, "--model", "hashing")
        answers.search(question(index_dir=str(folder)))
    answers.search(question(index_dir=str(folders[1])))
    open_folders = [index["index_dir"] for index in answers.status()["indexes"]]
    assert open_folders == [str(folder) for folder in (*folders[2:], folders[1])]
    assert answers.status()["answered"] == MAX_INDEXES + 2


def test_an_index_is_opened_again_for_each_generation(index_dir, indexed, drinks, make_skill):
    warm = WarmIndexes()
    first = warm.get(index_dir)
    make_skill(drinks, "mull-wine", "Mull red wine with cinnamon.")
    SkillIndex.open(index_dir).refresh()
    second = warm.get(index_dir)
    assert second is not first
    assert warm.get(index_dir) is second
    assert [warm_index.index.folder for warm_index in warm] == [index_dir]


def test_an_embedder_is_loaded_once_for_all_indexes(drinks_index, shared_drinks):
    warm = WarmIndexes()
    first, second = warm.get(drinks_index), warm.get(shared_drinks / "index")
    assert first.embedder is second.embedder
    assert second.index.search("brew filter coffee", 1)[0].name == "brew-coffee"


def test_an_index_whose_model_cannot_be_loaded_stays_open(drinks_index, monkeypatch):
    """Each search says so, and nothing is opened anew for every question."""

    def damage():
        raise EmbedderError("words.bin is damaged")

    monkeypatch.setitem(LOADERS, "hashing", damage)
    warm = WarmIndexes()
    first = warm.get(drinks_index)
    for _ in range(2):
        with pytest.raises(EmbedderError, match=r"words\.bin is damaged"):
            warm.get(drinks_index).index.search("brew filter coffee")
    assert warm.get(drinks_index) is first


def test_an_index_of_another_embedder_is_left_to_the_client(drinks, tmp_path):
    """It embeds the skills anew, which takes too long here, and tells its user."""
    request = IndexRequest((drinks,), "hashing", with_body=True)
    SkillIndex.build(
        request, tmp_path / "one", IndexOptions(embedders={"hashing": HashingEmbedder(64)})
    )
    with pytest.raises(DaemonError, match="another embedder"):
        WarmIndexes().get(tmp_path / "one")


def test_an_overview_is_what_a_library_offers(answers, prompt, index_dir):
    library = SkillLibrary.open(index_dir)
    hits = library.search("brew filter coffee", 3, threshold=0.0)
    expected = [PromptSkill(library.handle(hit), hit.description, hit.path) for hit in hits]
    settings = {**variables(), "SKILLSEARCH_THRESHOLD": "0"}
    answer = answers.overview(prompt(variables=settings))
    assert answer.keys() == {"offers", "fits", "unvetted", "notes"}
    assert (answer["unvetted"], answer["notes"]) == (0, [])
    overview = "\n".join(["<available_skills>", *answer["offers"].values(), "</available_skills>"])
    assert overview == render_overview(expected)
    for key, hit in zip(answer["offers"], hits, strict=True):
        digest = hashlib.sha256(Path(hit.path).read_bytes()).hexdigest()
        assert key == f"{hit.doc_id}@{digest}"


def test_much_that_changed_is_indexed_after_the_answer(answers, prompt, drinks, make_skill):
    for number in range(MAX_REFRESHED_FILES + 1):
        make_skill(drinks, f"mix-{number}", f"Mix cocktail number {number}.")
    answer = answers.overview(prompt("mix cocktail number 7"))
    assert answer["offers"] == {}
    (note,) = answer["notes"]
    assert note.startswith(
        "warning: much has changed (33 added, 0 changed, 0 removed) and is being"
    )
    answers._warm._indexing.shutdown()
    answer = answers.overview(prompt("mix cocktail number 7"))
    assert "mix-7" in str(answer["offers"])
    assert answer["notes"] == []


def test_an_index_that_is_gone_is_no_longer_answered_from(answers, prompt, index_dir):
    answers.overview(prompt())
    (index_dir / "CURRENT").unlink()
    with pytest.raises(IndexNotFoundError):
        answers.overview(prompt())


def test_an_index_that_was_healed_is_opened_again(answers, prompt, index_dir, drinks):
    """Its generation is the same, but its files are others than those that are mapped."""
    warm_indexes = answers._warm
    first = warm_indexes.get(index_dir)
    assert warm_indexes.get(index_dir) is first
    records = first.index.opened.folder / "documents-records.npy"
    records.write_bytes(records.read_bytes()[:-1] + b"?")
    again, report = SkillIndex.build(
        first.index.opened.settings.request(), index_dir, IndexOptions(verify=True)
    )
    assert report.healed == (records.name,)
    assert again.generation == first.index.generation
    renewed = warm_indexes.get(index_dir)
    assert renewed is not first
    assert [*renewed.index.documents()] == [*again.documents()]


def test_skills_that_ask_not_to_be_offered_are_not(answers, prompt, drinks, make_skill):
    make_skill(drinks, "secret-tea", "Brew secret tea.", **{"disable-model-invocation": True})
    answer = answers.overview(prompt("brew secret tea"))
    assert "secret-tea" not in str(answer["offers"])
    assert answer["notes"] == ["index refreshed: 1 added, 0 changed, 0 removed"]


def test_the_settings_are_those_of_the_client(answers, prompt, tmp_path, index_dir):
    """Its folder and variables count, not those of whoever started the daemon."""
    text = f"threshold = 1.0\nindex_dir = '{index_dir}'\n"
    (tmp_path / "skillsearch.toml").write_text(text, encoding="utf-8")
    shutil.copytree(index_dir, tmp_path / "copy").rename(own_folder(index_dir, cache_dir()))
    assert answers.overview(prompt(index_dir=None))["offers"] == {}
    settings = {**variables(), "SKILLSEARCH_THRESHOLD": "0.1"}
    assert "brew-coffee" in str(
        answers.overview(prompt(index_dir=None, variables=settings))["offers"]
    )
    (tmp_path / "skillsearch.toml").write_text("nonsense = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="nonsense"):
        answers.overview(prompt())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variables": {}}, "another home folder"),
        ({"variables": []}, "'variables' has the wrong type"),
        ({"folder": "here"}, "not an absolute path"),
        ({"n": None}, "'n' has the wrong type"),
    ],
)
def test_a_client_of_other_surroundings_or_that_wants_none_is_turned_away(
    answers, prompt, changes, message
):
    with pytest.raises(DaemonError, match=message):
        answers.overview(prompt(**changes))
    with pytest.raises(DaemonError, match="turn the daemon off"):
        answers.overview(prompt(variables={**variables(), "SKILLSEARCH_DAEMON": "off"}))
