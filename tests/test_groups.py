"""Near-copies of one root answer as a group, in every interface, led by the one there first."""

import json
import shutil

import pytest

from skillsearch.agents.default_tools import library_tools
from skillsearch.agents.prompt import offered, render_available, render_overview
from skillsearch.agents.tool import Toolset
from skillsearch.agents.toolsets.workspace import describe_skills
from skillsearch.daemon.answers import Answers
from skillsearch.daemon.client import read_search, search_question
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.arrivals import ARRIVALS
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.settings.environ import variables
from skillsearch.text.provenance import record_of_source, source_tag

QUERY = "fill in a PDF form"
ABOUT = "Fill in PDF forms, check each field, and flatten the result."
BODY = "Read the fields of the form, write a value into each, then check and flatten it. " * 6
STRANGE = "Help with anything that comes up, step by step, and say what was done about it. " * 6
OPTIONS = ("--model", "hashing")


@pytest.fixture
def root(tmp_path, make_skill):
    """A skill, and others that have nothing to do with it."""
    make_skill(tmp_path / "skills", "pdf-forms", ABOUT, BODY, metadata={"version": "1.2.0"})
    make_skill(tmp_path / "skills", "steep-tea", "Steep green tea at the right temperature.")
    return tmp_path / "skills"


@pytest.fixture
def copied(root, make_skill):
    """A copy under a name that sorts first, and one that has the name of the first."""
    make_skill(root, "aa-pro", ABOUT, BODY)
    shutil.copytree(root / "pdf-forms", root / "zz")
    return root


@pytest.fixture
def index_folder(cli, copied, index_dir):
    assert cli("index", copied, "--index-dir", index_dir, *OPTIONS).exit_code == 0
    return index_dir


@pytest.fixture
def group(index_folder):
    """What a library finds for the request, with its library."""
    library = SkillLibrary.open(index_folder)
    hit = library.search(QUERY, 3, 0.0).hits[0]
    return library, hit


ALSO = {"aa-pro": "skills:pdf-forms, skills:zz", "skills:pdf-forms": "aa-pro, skills:zz"}


def test_a_family_has_one_place_and_names_that_load_all(group):
    library, hit = group
    paths = {hit.path, *hit.duplicates}
    assert len(paths) == 3
    handles = [hit.handle or hit.name, *(member.shown for member in hit.family.members)]
    assert {library.find(name).path for name in handles} == paths
    assert source_tag(hit) == f"[also {', '.join(handles[1:])}, copies]"


def test_all_that_shows_a_hit_tells_of_its_family(group, index_folder, cli):
    library, hit = group
    said = source_tag(hit).strip("[]")
    assert said == f"also {ALSO[library.handle(hit)]}, copies"
    assert record_of_source(hit) == {"also": said}
    arguments = {"query": QUERY, "n": 3, "threshold": 0.0}
    rows = Toolset(library_tools(library)).call("search_skills", arguments)["result"]["skills"]
    assert rows[0]["also"] == said
    skills = [offered(library, hit)]
    assert all(said in render_overview(skills, form) for form in ("xml", "markdown", "json"))
    assert said in render_available(skills)
    assert said in describe_skills(library, QUERY)
    options = ("--index-dir", index_folder, "--threshold", "0")
    assert said in cli("query", QUERY, *options).stdout
    assert said in cli("prompt", QUERY, *options).stdout
    record = json.loads(cli("query", QUERY, *options, "--json").stdout)["hits"][0]
    assert {member["path"] for member in record["family"]["members"]} == set(record["duplicates"])
    options = SearchOptions(n=2, threshold=0.0, reader="off", face="terminal")
    result = read_search(Answers().search(search_question(QUERY, index_folder, options)))[0]
    assert source_tag(result.hits[0]).strip("[]") == said


@pytest.mark.usefixtures("default_reader")
def test_the_offers_of_the_hook_tell_of_it(index_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_THRESHOLD", "0")
    question = {"prompt": QUERY, "n": 2, "folder": str(tmp_path), "variables": variables()}
    question |= {"include_unvetted": False, "index_dir": str(index_folder), "states": []}
    text = "\n".join(Answers().overview(question)["offers"].values())
    assert "[also " in text


def test_the_one_that_was_there_first_is_shown(root, make_skill, index_dir):
    index = SkillIndex.from_roots(root, index_dir=index_dir, model="hashing")
    make_skill(root, "aa-pro", ABOUT, BODY + f"{QUERY} {QUERY}\n", metadata={"version": "9.0"})
    index.refresh()
    for _ in range(2):
        hit = index.search(QUERY, threshold=0.0).hits[0]
        assert (hit.name, [member.name for member in hit.family.members]) == (
            "pdf-forms",
            ["aa-pro"],
        )
        make_skill(root, "pdf-forms", ABOUT, BODY + "And save it.\n", metadata={"version": "1.3"})
        index.refresh()  # who is changed was still there first
    shutil.rmtree(index_dir / "generations")
    (index_dir / "CURRENT").unlink()
    index = SkillIndex.from_roots(root, index_dir=index_dir, model="hashing")
    assert index.search(QUERY, threshold=0.0).hits[0].name == "pdf-forms"


def test_what_came_when_is_forgotten_with_what_is_gone(root, make_skill, index_dir):
    index = SkillIndex.from_roots(root, index_dir=index_dir, model="hashing")
    assert not (index_dir / ARRIVALS).exists()
    make_skill(root, "aa-pro", ABOUT, BODY)
    index.refresh()
    note = (index_dir / ARRIVALS).read_bytes()
    shutil.rmtree(root / "aa-pro")
    index.refresh()
    assert len((index_dir / ARRIVALS).read_bytes()) < len(note)
    make_skill(root, "aa-pro", ABOUT, BODY)
    index.refresh()
    assert index.search(QUERY, threshold=0.0).hits[0].name == "pdf-forms"
    (index_dir / ARRIVALS).write_bytes(b"x\n{}")
    make_skill(root, "bb-other", "Whistle a tune.", STRANGE)
    index.refresh()
    assert index.search(QUERY, threshold=0.0).hits[0].family is not None


def test_a_stranger_of_the_name_hides_nothing(root, make_skill, index_dir, cli):
    make_skill(root / "x", "pdf-forms", "Generic helper.", STRANGE, metadata={"version": "99.0.0"})
    made = cli("index", root, "--index-dir", index_dir, *OPTIONS)
    assert "name-ambiguous" in made.stderr
    assert "skills:pdf-forms, skills:x/pdf-forms" in made.stderr
    again = cli("index", root, "--index-dir", index_dir, *OPTIONS)
    assert "name-ambiguous" in again.stderr
    library = SkillLibrary.open(index_dir)
    hit = library.search(QUERY, 2, 0.0).hits[0]
    assert (hit.handle, hit.description) == ("skills:pdf-forms", ABOUT)
    assert library.load(hit.handle).skill.description == ABOUT
    other = library.search("generic helper", 2, 0.0).hits[0]
    assert library.load(other.handle).skill.description == "Generic helper."
    for command in ("audit", "doctor"):
        output = cli(command, "--index-dir", index_dir, "--json").stdout
        assert "are named 'pdf-forms'" in output
        assert "skills:x/pdf-forms" in output


def test_a_copy_in_a_trash_is_never_found_and_one_in_a_worktree_stands_last(root, index_dir, cli):
    shutil.copytree(root / "pdf-forms", root / ".trash/2026/pdf-forms")
    shutil.copytree(root / "pdf-forms", root / ".claude/worktrees/fix/pdf-forms")
    assert cli("index", root, "--index-dir", index_dir, *OPTIONS).exit_code == 0
    library = SkillLibrary.open(index_dir)
    hit = library.search(QUERY, 2, 0.0).hits[0]
    assert (hit.doc_id, hit.handle, len(hit.duplicates)) == ("skills:pdf-forms", "", 1)
    assert library.find("pdf-forms").doc_id == "skills:pdf-forms"
    assert all(".trash" not in document.path for document in library.list())
