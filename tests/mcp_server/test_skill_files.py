"""The files of skills for a website: all of each, and only of skills that may be offered."""

import pytest

from skillsearch.library.skill_library import SkillLibrary
from skillsearch.mcp_server.publication import Publisher
from skillsearch.mcp_server.skill_files import files_of_skills


@pytest.fixture
def publish(tmp_path, make_skill):
    """Read the skills of two roots, one of which nobody vouches for."""
    for folder, name in (("own", "tea"), ("own", "coffee"), ("theirs", "cocoa")):
        path = make_skill(tmp_path / folder, name, f"Makes {name}.")
        (path.parent / "run.sh").write_text(name)
        (path.parent / "run.sh").chmod(0o755)
    (tmp_path / "own" / "coffee" / "SKILL.md").write_text("---\nname: coffee\n---\n")
    roots, trust = [tmp_path / "own", tmp_path / "theirs"], (f"{tmp_path / 'theirs'}=project",)
    publisher = Publisher(SkillLibrary.from_roots(roots, trust=trust))
    return lambda *, unvetted: files_of_skills(publisher, include_unvetted=unvetted)


def test_each_skill_comes_with_every_file_and_which_are_programs(publish, tmp_path):
    skills, count = publish(unvetted=True)
    assert count == 0
    assert {skill.document.name: skill.description for skill in skills} == {
        "tea": "Makes tea.",
        "cocoa": "Makes cocoa.",
    }  # coffee has no description, so it cannot be published
    for skill in skills:
        folder = tmp_path / skill.document.root / skill.document.name
        assert skill.files == {path.name: path.read_bytes() for path in folder.iterdir()}
        assert skill.programs == {"run.sh"}


def test_those_that_nobody_vouches_for_are_counted_and_left_out(publish):
    skills, count = publish(unvetted=False)
    assert ([skill.document.name for skill in skills], count) == (["tea"], 1)
