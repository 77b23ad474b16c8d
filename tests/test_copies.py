"""A copy in a later root erases and displaces a skill in no interface of the package."""

import json
import shutil

import pytest

from skillsearch.agents.default_tools import library_tools
from skillsearch.agents.tool import Toolset
from skillsearch.daemon.answers import Answers
from skillsearch.daemon.client import search_question
from skillsearch.index.search.options import SearchOptions
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.settings.environ import variables

QUERY = "brew filter coffee or steep green tea"


@pytest.fixture
def copies(tmp_path, drinks):
    """Copy all drinks into a root whose alias sorts first, one as it is, the others padded."""
    root = tmp_path / "a-copies"
    shutil.copytree(drinks, root)
    for name in ("steep-tea", "squeeze-lemons"):
        with (root / name / "SKILL.md").open("a") as file:
            file.write(f"{QUERY}, {QUERY}.\n" * 20)
    return root


@pytest.fixture
def index_folder(cli, drinks, copies, index_dir):
    cli("index", drinks, copies, "--index-dir", index_dir, "--model", "hashing")
    return index_dir


@pytest.fixture
def expected(drinks, tmp_path):
    """Return the paths and scores of what is found among the drinks alone."""
    library = SkillLibrary.from_roots(drinks, index_dir=tmp_path / "alone", model="hashing")
    hits = library.search(QUERY, 2, 0.0)
    return [(hit.path, hit.score) for hit in hits]


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_query_finds_it_and_a_prompt_offers_it(cli, index_folder, expected, is_batch):
    request = ["--batch", "-"] if is_batch else [QUERY]
    stdin = json.dumps({"_id": "1", "text": QUERY}) if is_batch else None
    options = ("--index-dir", index_folder, "-n", "2", "--threshold", "0")
    record = json.loads(cli("query", *request, *options, "--json", stdin=stdin).stdout)
    assert [(hit["path"], hit["score"]) for hit in record["hits"]] == expected
    offered = json.loads(cli("prompt", QUERY, *options, "--format", "json").stdout)
    assert [skill["location"] for skill in offered] == [path for path, _ in expected]


@pytest.mark.usefixtures("default_reader")
def test_the_daemon_answers_with_it(index_folder, expected, tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_THRESHOLD", "0")
    answers = Answers()
    options = SearchOptions(n=2, threshold=0.0, reader="auto", face="terminal")
    result = answers.search(search_question(QUERY, index_folder, options))
    hits = result["result"]["hits"]
    assert [(hit["path"], hit["score"]) for hit in hits] == expected
    question = {"prompt": QUERY, "n": 2, "folder": str(tmp_path), "variables": variables()}
    question |= {"include_unvetted": False, "states": []}
    text = "\n".join(
        answers.overview({**question, "index_dir": str(index_folder)})["offers"].values()
    )
    assert expected[0][0] in text
    assert "a-copies" not in text


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_library_and_its_tools_find_it(
    drinks, copies, index_folder, expected, tmp_path, is_saved
):
    library = SkillLibrary.from_roots(
        [drinks, copies], index_dir=tmp_path / "library", model="hashing"
    )
    library = SkillLibrary.open(index_folder) if is_saved else library
    assert [(hit.path, hit.score) for hit in library.search(QUERY, 2, 0.0)] == expected
    arguments = {"query": QUERY, "n": 2, "threshold": 0.0}
    rows = Toolset(library_tools(library)).call("search_skills", arguments)["result"]["skills"]
    assert [(row["path"], row["score"]) for row in rows] == expected
    assert [library.find(row["name"]).path for row in rows] == [path for path, _ in expected]
