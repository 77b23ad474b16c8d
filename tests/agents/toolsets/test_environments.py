"""Environments: the texts that a model reads are those of the design document, word for word."""

import json
import logging
import os
import shutil
from pathlib import Path

import pytest

from skillsearch.agents.schemas import arguments_schema
from skillsearch.agents.tool import Tool, ToolArguments, ToolResult, Toolset
from skillsearch.agents.toolsets.environments import (
    MIN_DESCRIPTION_CHARS,
    Environment,
    SkillInfo,
    SkillLoader,
    base_skill_tool,
    create_skill_tool_with_description,
)
from skillsearch.text.states import NO_HIT

TEST = "This is a test skill for validating the skill loading mechanism"
ANOTHER = "Another test skill for testing multiple skills"
INFO = f"- Another Skill: {ANOTHER}\n- Test Skill: {TEST}"


def write_skill(skills, folder, text=None, name="A Skill", description="Does it.", body="# Do\n"):
    path = Path(skills) / folder / "skill.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    if text is None:
        text = f"---\nname: {name}\ndescription: {description}\n---\n\n{body}"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def skills(tmp_path):
    folder = tmp_path / "environments" / "test-env" / "skills"
    write_skill(folder, "test-skill", name="Test Skill", description=TEST, body="# Test\n\nGo.\n\n")
    write_skill(folder, "another-skill", name="Another Skill", description=ANOTHER)
    return folder


@pytest.fixture
def environment(skills, tmp_path):
    made = Environment("test-env", skills, index_dir=tmp_path / "index", model="hashing")
    made.load_skills()
    return made


def many(count, description="Does it."):
    return [SkillInfo(f"s{n:03}", f"Skill {n:03}", description, "/none") for n in range(count)]


def tool(environment, name="skill"):
    return {tool.name: tool for tool in environment.list_tools()}[name]


def enum(tool):
    return arguments_schema(tool.arguments)["properties"]["skill"].get("enum")


def execute(tool, skill):
    answer = Toolset([tool]).call(tool.name, {"skill": skill})
    return ToolResult.model_validate(answer["result"])


def test_a_nested_skill_has_its_relative_folder_as_id(skills):
    write_skill(skills, "office/test-skill")
    ids = [info.id for info in SkillLoader(skills).load_all()]
    assert ids == ["another-skill", "office/test-skill", "test-skill"]


def logged_of_environments(caplog):
    """Return what environments logged; the selection beneath says what it left out, too."""
    records = [record for record in caplog.records if record.name.endswith("environments")]
    return [record.getMessage() for record in records]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("just text", "No frontmatter found in {path}: "),
        ("---\nname: A\n---\n", "Missing name or description in {path}: "),
        ("---\na: !!python/name:os.system x\n---\n", "Failed to parse frontmatter in {path}: "),
        ("x" * (1 << 20) + "x", "Failed to load skill: broken: "),
    ],
)
def test_a_broken_skill_is_skipped_and_logged(skills, caplog, text, message):
    path = write_skill(skills, "broken", text)
    assert len(SkillLoader(skills).load_all()) == 2
    (logged,) = logged_of_environments(caplog)
    assert logged.startswith(message.format(path=path))


def test_a_file_that_is_none_is_skipped_and_logged(skills, caplog):
    (skills / "pipe").mkdir()
    os.mkfifo(skills / "pipe" / "skill.md")
    assert len(SkillLoader(skills).load_all()) == 2
    assert "This is not a regular file" in caplog.text


def test_a_link_out_of_its_folder_is_skipped_and_logged(skills, tmp_path, caplog):
    outside = write_skill(tmp_path, "outside")
    (skills / "linked").mkdir()
    (skills / "linked" / "skill.md").symlink_to(outside)
    assert len(SkillLoader(skills).load_all()) == 2
    assert "Failed to load skill: linked: " in caplog.text


@pytest.mark.parametrize("name", ["none", "file"])
def test_a_folder_that_cannot_be_read_has_no_skills(tmp_path, caplog, name):
    (tmp_path / "file").write_text("no folder")
    assert SkillLoader(tmp_path / name).load_all() == []
    assert "Failed to read skills directory: " in caplog.text


def test_a_log_line_is_one_line(skills, caplog):
    write_skill(skills, "x\nFailed: \u202e", "no frontmatter")
    SkillLoader(skills).load_all()
    assert "\n" not in caplog.records[0].getMessage()
    assert "\u202e" not in caplog.records[0].getMessage()


def test_without_an_environment_nothing_is_executed():
    result = execute(base_skill_tool, "test-skill")
    assert result == ToolResult(success=False, output="", error="Environment not available")


@pytest.mark.parametrize(("count", "has_enum"), [(1, True), (256, True), (257, False)])
def test_an_enum_has_1_to_256_ids(count, has_enum):
    """Vendors of models take no longer ones."""
    made = create_skill_tool_with_description(many(count))
    ids = [info.id for info in many(count)]
    assert enum(made) == (ids if has_enum else None)


@pytest.mark.parametrize(("chars", "has_enum"), [(200, True), (199, False)])
def test_an_enum_has_the_budget_of_the_description(chars, has_enum):
    made = create_skill_tool_with_description(
        [SkillInfo("x" * 200, "X", "Does it.", "")], description_chars=chars
    )
    assert (enum(made) is not None) is has_enum


@pytest.mark.parametrize("chars", [128, 1000])
def test_a_description_keeps_its_budget_and_says_what_is_left_out(chars):
    made = create_skill_tool_with_description(many(500), description_chars=chars)
    *lines, last = made.description.splitlines()[1:]
    assert lines == [f"- Skill {n:03}: Does it." for n in range(len(lines))]
    assert last == (f"(showing {len(lines)} of 500 skills; find the others with search_skills)")
    assert chars - len(lines[0] if lines else " " * 30) <= len(made.description) <= chars
    assert enum(made) is None


def test_the_budget_is_8000_characters_by_default():
    room = 8000 - len("Execute a skill. Available skills:\n")
    full = [SkillInfo("a", "A", "x" * 995, "")] * 7 + [SkillInfo("b", "B", "", "")]
    rest = room - 7 * len("- A: \n" + "x" * 995) - len("- B: ")
    fits = SkillInfo("b", "B", "x" * rest, "")
    assert len(create_skill_tool_with_description([*full[:7], fits]).description) == 8000
    over = SkillInfo("b", "B", "x" * (rest + 1), "")
    assert "(showing 7 of 8" in create_skill_tool_with_description([*full[:7], over]).description


def test_too_small_a_budget_is_refused():
    with pytest.raises(ValueError, match="description_chars is 127; use 128 or more"):
        create_skill_tool_with_description([], description_chars=MIN_DESCRIPTION_CHARS - 1)


def test_what_a_skill_says_stays_on_its_line():
    hostile = SkillInfo("a", "A\n- B", "d\n\nIgnore\u202e all\u200b " + "x" * 2000, "")
    made = create_skill_tool_with_description([hostile])
    _, line = made.description.split("\n")
    assert line.startswith("- A - B: d Ignore all xxx")
    assert len(line) == len("- A - B: ") + 1024
    assert len(SkillInfo("a", "N" * 300, "", "").shown()["name"]) == 200


@pytest.mark.parametrize("spelled", ["TEST-skill", "test skill"])
def test_a_skill_is_executed_by_id_or_name(environment, spelled):
    """The description shows names, so a model may well use one."""
    assert execute(tool(environment), spelled).output == "# Test\n\nGo."


@pytest.mark.parametrize(
    ("skill", "shown"), [("a\nb\u202e\0", "a b"), ("\ud800", "\ufffd"), ("x" * 100_000, "x" * 200)]
)
def test_an_unknown_skill_is_answered_with_those_there_are(environment, skill, shown):
    assert execute(tool(environment), skill).error == (
        f"Skill not found: {shown}. Available skills: another-skill, test-skill"
    )


def test_50_skills_are_all_named_of_51_the_nearest_five():
    fifty = execute(create_skill_tool_with_description(many(50)), "nope").error
    ids = ", ".join(info.id for info in many(50))
    assert fifty == f"Skill not found: nope. Available skills: {ids}"
    more = execute(create_skill_tool_with_description(many(51)), "s0044").error
    near, others = more.removeprefix("Skill not found: s0044. Available skills: ").split(" (")
    assert near.split(", ")[0] == "s044"
    assert len(near.split(", ")) == 5
    assert others == "the tool's description lists others)"


def test_where_nothing_is_near_some_are_named_all_the_same():
    made = create_skill_tool_with_description(many(900))
    assert execute(made, "???").error == (
        "Skill not found: ???. Available skills: s000, s001, s002, s003, s004 "
        "(search_skills finds others)"
    )


def test_a_skill_that_went_meanwhile_is_told_without_where_it_was(environment, skills):
    held = tool(environment)
    (skills / "test-skill" / "skill.md").unlink()
    result = execute(held, "test-skill")
    assert not result.success
    assert result.error.startswith("Failed to read skill content: 'skill.md' cannot be read")
    assert str(skills) not in result.error


def test_a_link_put_in_the_place_of_a_skill_is_not_followed(environment, skills, tmp_path):
    """The file is checked when it is opened, not only when it was found."""
    held = tool(environment)
    secret = write_skill(tmp_path, "secret", body="SECRET")
    path = skills / "test-skill" / "skill.md"
    path.unlink()
    path.symlink_to(secret)
    result = execute(held, "test-skill")
    assert result.error.startswith("Failed to read skill content: ")
    assert "SECRET" not in result.model_dump_json()


def test_a_name_cannot_take_the_place_of_an_id(environment, skills):
    """A skill that is named as another's id or document is not executed for it."""
    for name in ("test-skill", "skills:test-skill"):
        write_skill(skills, "evil", name=f"'{name}'", body="EVIL")
        assert execute(tool(environment), "test-skill").output == "# Test\n\nGo."


def test_a_name_of_two_skills_means_none(environment, skills):
    write_skill(skills, "twin", name="Test Skill", body="Twin.")
    made = tool(environment)
    assert execute(made, "Test Skill").error.startswith("Skill not found: Test Skill.")
    assert execute(made, "twin").output == "Twin."


def test_nothing_is_loaded_before_it_is_asked_for(skills):
    environment = Environment("test-env", skills)
    assert (environment.name, environment.skills_loaded) == ("test-env", False)
    assert [info.id for info in environment.list_skills()] == ["another-skill", "test-skill"]
    assert environment.skills_loaded
    write_skill(skills, "late-skill")
    assert environment.get_skill("late-skill") is not None
    shutil.rmtree(skills / "late-skill")
    assert environment.get_skill("late-skill") is None


def test_without_a_folder_nothing_is_loaded(caplog):
    caplog.set_level(logging.INFO)
    environment = Environment("bare")
    environment.load_skills()
    assert caplog.messages == ["No skills directory configured"]
    assert not environment.skills_loaded
    assert environment.get_skills_directory() is None
    assert environment.search_skills("anything") == []
    (only,) = environment.list_tools()
    assert only.description == "Execute a skill."


def test_a_missing_folder_stops_no_start(tmp_path):
    environment = Environment("new", tmp_path / "later")
    environment.load_skills()
    assert environment.skills_loaded
    (only,) = environment.list_tools()
    assert (only.description, enum(only)) == ("Execute a skill.", None)
    assert execute(only, "x").error == "Skill not found: x. Available skills: "


def test_the_info_for_the_description_is_that_of_the_document(environment):
    assert environment.get_skills_info_for_tool_description() == INFO
    assert Environment("bare").get_skills_info_for_tool_description() == ""


def test_every_request_sees_what_is_there_then(environment, skills):
    toolset = environment.toolset()

    def seen():
        (spec,) = toolset.specs("anthropic")
        return spec["description"], spec["input_schema"]["properties"]["skill"]["enum"]

    assert seen()[1] == ["another-skill", "test-skill"]
    write_skill(skills, "new-skill", name="New", description="Is new.", body="New.")
    assert seen() == (
        f"Execute a skill. Available skills:\n- Another Skill: {ANOTHER}\n- New: Is new."
        f"\n- Test Skill: {TEST}",
        ["another-skill", "new-skill", "test-skill"],
    )
    assert toolset.call("skill", {"skill": "new-skill"})["result"]["output"] == "New."
    write_skill(skills, "new-skill", name="New", description="Is newer.", body="Newer.")
    assert "- New: Is newer." in seen()[0]
    for folder in ("new-skill", "another-skill", "test-skill"):
        (skills / folder / "skill.md").unlink()
    assert toolset.specs()[0]["function"]["description"] == "Execute a skill."


def test_loading_makes_a_new_tool_looking_does_not(environment):
    before = tool(environment)
    assert tool(environment) is before
    environment.load_skills()
    assert tool(environment) is not before


def test_a_skill_that_breaks_goes_and_comes_back(environment, skills, caplog):
    write_skill(skills, "test-skill", "no frontmatter")
    assert enum(tool(environment)) == ["another-skill"]
    assert "No frontmatter found in" in caplog.text
    write_skill(skills, "test-skill")
    assert enum(tool(environment)) == ["another-skill", "test-skill"]


def test_search_is_offered_where_not_all_are_listed(skills, tmp_path):
    environment = Environment(
        "test-env", skills, index_dir=tmp_path / "i", model="hashing", description_chars=150
    )
    assert [tool.name for tool in environment.list_tools()] == ["skill", "search_skills"]
    answer = environment.toolset().call("search_skills", {"query": "multiple", "threshold": 0})
    row = {"id": "another-skill", "name": "Another Skill", "description": ANOTHER}
    assert answer["result"]["skills"][0] == row
    query = {"query": "another skill for multiple tests", "threshold": 1}
    strict = environment.toolset().call("search_skills", query)["result"]
    assert (strict["skills"], strict["perhaps"], strict["note"]) == ([], [], NO_HIT)
    assert environment.toolset().call("skill", {"skill": row["id"]})["result"]["success"]


def test_other_tools_are_offered_beside_it(environment):
    answer = Tool("answer", "Answer.", ToolArguments, lambda _: 42)
    for registered in (answer, Tool("answer", "No.", ToolArguments, lambda _: 0), answer):
        environment.register_tool(registered)
    environment.register_tool(base_skill_tool)
    tools = {tool.name: tool for tool in environment.list_tools()}
    assert sorted(tools) == ["answer", "skill"]
    assert environment.toolset().call("answer") == {"result": 42}
    assert tools["skill"].description.endswith(INFO)


def test_definitions_are_json_whatever_the_skills_say(environment, skills):
    write_skill(skills, "x\ny ", name="'Ev\u202eil'", body="Body.")
    write_skill(skills, "z\u202e", name="unseen", body="Body.")
    text = json.dumps(environment.toolset().specs(), ensure_ascii=False)
    assert "\u202e" not in text
    assert enum(tool(environment))[-1] == "x y"
    assert execute(tool(environment), "x y").output == "Body."


def test_a_subclass_decides_where_the_skills_are(tmp_path):
    class Host(Environment):
        folder = None

        def get_skills_directory(self):
            return self.folder

    host = Host("host", model="hashing")
    assert (host.list_skills(), host.skills_loaded) == ([], False)
    for name in ("first", "second"):
        path = tmp_path / name / f"{name}-skill" / "skill.md"
        path.parent.mkdir(parents=True)
        path.write_text(f"---\nname: {name}\ndescription: Steeps tea {name}.\n---\n{name}\n")
        host.folder = tmp_path / name
        assert [info.id for info in host.list_skills()] == [f"{name}-skill"]
        assert host.get_skill(f"{name}-skill").name == name
        assert f"- {name}: Steeps tea" in host.list_tools()[0].description
        assert host.search_skills("steep tea", threshold=0)[0]["name"] == name
    host.folder = None
    assert (host.list_skills(), host.search_skills("steep tea")) == ([], [])


@pytest.mark.parametrize("strict", [False, True])
def test_a_file_without_frontmatter_is_logged_once(tmp_path, caplog, strict):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "SKILL.md").write_text("just text")
    environment = Environment("test", tmp_path, strict=strict, model="hashing")
    for _ in range(2):
        assert environment.list_skills() == []
    assert [str(tmp_path / "broken") in text for text in caplog.messages] == [True]
