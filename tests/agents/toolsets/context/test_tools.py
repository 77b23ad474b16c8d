"""The tools and the prompt of a context: scores, texts and flow of the design document."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from skillsearch.agents.tool import ToolResult
from skillsearch.agents.toolsets.context import (
    GetSkillArgs,
    ListSkillsArgs,
    SearchSkillsArgs,
    SkillMetadata,
    ToolContext,
    calculate_match_score,
    get_skill,
    list_skills,
    search_skills,
    skills_prompt,
    toolset,
)
from skillsearch.text.states import NO_HIT, PERHAPS

UINT = "Add unsigned integer (uint) type support to PyTorch operators."
TEA = "Steep green tea at the right temperature."
SUMMARY = f"- add-uint-support: {UINT}\n- steep-tea: {TEA}"
PROMPT = """\
## Available Skills

The following skills are available to assist with specific tasks:

{}

When a task matches a skill's description, you can use the `get_skill` tool to retrieve the full \
skill content and follow its instructions."""
NO_SKILLS = (
    "This context has no skills: it was made without a skills_manager. Go on without skills."
)
USE_A_NAME = "Call get_skill with a name that search_skills or list_skills gives."


@pytest.fixture
def vanishing(root, manager, monkeypatch):
    """Remove one skill right after the library has looked at the disk."""
    library = manager.loader.library
    look = library.refresh

    def refresh():
        look()
        (root / "steep-tea" / "SKILL.md").unlink()

    monkeypatch.setattr(library, "refresh", refresh)


def get(ctx, name):
    result = get_skill(ctx, GetSkillArgs(name=name))
    assert result.success, result
    return result.output


# The keyword score


@pytest.mark.parametrize(
    ("query", "name", "description", "score"),
    [
        ("uint", "add-uint-support", "", 0.8),  # whole query in the name
        ("UIN", "Add-Uint-Support", "", 0.8),  # in any case, part of a word
        ("make uint", "add-uint-support", "", 0.5),  # one word in the name
        ("pytorch operators", "x", "Support for PyTorch operators.", 0.6),  # whole, described
        ("fast operators", "x", "Support for PyTorch operators.", 0.3),  # one word, described
        ("make uint", "add-uint-support", "To make uint work.", 0.6),  # the better of 0.5, 0.6
        ("uint ops", "add-uint-support", "Of ops.", 0.5),  # the better of 0.5, 0.3
        ("uint", "add-uint-support", "For uint.", 0.8),  # the better of 0.8, 0.6
        ("tea", "add-uint-support", "For operators.", 0.0),  # nowhere
        ("  ", "a", "b", 0.0),  # no word
        ("", "a", "b", 0.8),  # the empty text is part of every name
    ],
)
def test_keywords_score_by_the_formula_of_the_document(query, name, description, score):
    metadata = SkillMetadata(name=name, description=description, path=Path("SKILL.md"))
    assert calculate_match_score(query, metadata) == score


# The tools


def test_a_context_has_lists_of_its_own_and_takes_no_other_manager(tmp_path):
    ToolContext(workspace_root=tmp_path).active_skills.append("x")
    assert ToolContext(workspace_root=tmp_path).active_skills == []
    with pytest.raises(ValidationError):
        ToolContext(workspace_root=tmp_path, skills_manager="none")


@pytest.mark.parametrize(
    ("args", "values"),
    [
        (SearchSkillsArgs, {"query": ""}),
        (SearchSkillsArgs, {"query": "x" * 65_537}),
        (SearchSkillsArgs, {"query": "a", "limit": 0}),
        (SearchSkillsArgs, {"query": "a", "limit": 1001}),
        (SearchSkillsArgs, {"limit": 1}),
        (GetSkillArgs, {"name": "x" * 257}),
        (ListSkillsArgs, {"all": True}),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(args, values):
    with pytest.raises(ValidationError):
        args(**values)


def test_a_list_has_room_for_more_than_the_summary(root, make_manager, make_skill, tmp_path):
    for number in range(40):
        make_skill(root, f"s{number:02}", "x" * 1000)
    ctx = ToolContext(workspace_root=tmp_path, skills_manager=make_manager(root))
    listed = list_skills(ctx, ListSkillsArgs()).output
    assert 30_000 < len(listed) <= 32_000
    assert listed.endswith("\n(not listed: 10 of 42 skills; find them with search_skills)")


def test_no_skills_are_told_as_such(tmp_path, make_manager):
    ctx = ToolContext(workspace_root=tmp_path, skills_manager=make_manager(tmp_path / "none"))
    assert list_skills(ctx, ListSkillsArgs()).output == "There are no skills; go on without."


def test_a_search_gives_lines_best_first(ctx):
    assert search_skills(ctx, SearchSkillsArgs(query="steep green tea")) == ToolResult(
        success=True, output=f"- steep-tea: {TEA}"
    )
    assert search_skills(ctx, SearchSkillsArgs(query="who won the world cup")) == ToolResult(
        success=True, output=NO_HIT
    )


def test_a_search_lists_what_may_fit_below_a_line(root, make_manager, tmp_path, fits_from):
    fits_from(1.0)
    manager = make_manager(root)
    ctx = ToolContext(workspace_root=tmp_path, skills_manager=manager)
    output = search_skills(ctx, SearchSkillsArgs(query="steep green tea")).output
    assert output.splitlines()[:2] == [PERHAPS, f"- steep-tea: {TEA}"]
    first = manager.search_skills("steep green tea")[0]
    assert isinstance(first, SkillMetadata)
    assert (first.name, first.state, first.also) == ("steep-tea", "perhaps", "")


def test_a_query_that_cannot_be_searched_is_an_error(ctx):
    result = search_skills(ctx, SearchSkillsArgs(query="  "))
    assert not result.success
    assert result.error.startswith("The query is empty; say in words what is to be done.\n")


def test_active_skills_are_noted_once_the_latest_last(ctx):
    noted = ctx.active_skills
    for name in ("steep-tea", "add-uint-support", "Steep-Tea"):
        get(ctx, name)
    assert ctx.active_skills is noted
    assert noted == ["add-uint-support", "steep-tea"]


def test_an_older_version_is_active_under_its_id(versions, make_manager, tmp_path):
    ctx = ToolContext(workspace_root=tmp_path, skills_manager=make_manager(versions))
    assert "Fills forms, 1.10." in get(ctx, "pdf@>=1,<2")
    get(ctx, "pdf")
    assert ctx.active_skills == ["versions:1.10/pdf", "pdf"]


def test_an_unknown_skill_is_an_error_with_the_nearest(ctx):
    assert get_skill(ctx, GetSkillArgs(name="steep-te")) == ToolResult(
        success=False, error=f"No skill is named 'steep-te'. Did you mean: steep-tea?\n{USE_A_NAME}"
    )
    assert ctx.active_skills == []


def test_an_error_does_not_tell_where_the_skills_lie(ctx, root, vanishing):
    result = get_skill(ctx, GetSkillArgs(name="steep-tea"))
    assert not result.success
    assert result.error.endswith("\nUse another skill, or tell the user that it is broken.")
    assert str(root) not in result.error
    assert ctx.active_skills == []


def test_a_skill_tells_what_to_get_before_it(ctx, root, make_skill):
    make_skill(root, "boil-water")
    make_skill(root, "steep-tea", TEA, requires={"skills": ["boil-water"]})
    make_skill(root, "serve-tea", requires={"skills": ["steep-tea"]})
    output = get(ctx, "serve-tea")
    assert output == (
        "Get these skills first, in this order: boil-water, steep-tea\n\n"
        + (root / "serve-tea" / "SKILL.md").read_text()
    )
    assert ctx.active_skills == ["serve-tea"]


def test_what_is_active_need_not_be_got_again(ctx, root, make_skill):
    make_skill(root, "serve-tea", requires={"skills": ["steep-tea", "add-uint-support"]})
    get(ctx, "steep-tea")
    assert get(ctx, "serve-tea").startswith(
        "Get these skills first, in this order: add-uint-support\n\n"
    )
    get(ctx, "add-uint-support")
    assert get(ctx, "serve-tea").startswith("---\n")


def test_a_needed_version_is_named_so_that_it_can_be_got(
    versions, make_manager, make_skill, tmp_path
):
    make_skill(versions, "fill", requires={"skills": ["pdf@<1.5"]})
    ctx = ToolContext(workspace_root=tmp_path, skills_manager=make_manager(versions))
    head = "Get these skills first, in this order: versions:1.0/pdf\n\n"
    assert get(ctx, "fill").startswith(head)
    assert "Fills forms, 1.0." in get(ctx, "versions:1.0/pdf")
    assert not get(ctx, "fill").startswith(head)


def test_missing_skills_and_circles_are_told(ctx, root, make_skill):
    make_skill(root, "a", requires={"skills": ["b", "find-cups@>=2"]})
    make_skill(root, "b", requires={"skills": ["a"]})
    assert get(ctx, "a").splitlines()[:5] == [
        "Get these skills first, in this order: b",
        "Needed, but missing: find-cups@>=2 (for a)",
        "These need each other, so any order will do: a -> b -> a",
        "",
        "---",
    ]


def test_very_many_needs_are_cut(ctx, root, make_skill):
    needed = [f"need-{number:02}" for number in range(30)]
    make_skill(root, "greedy", requires={"skills": needed})
    line = get(ctx, "greedy").splitlines()[0]
    assert line.endswith("need-19 (for greedy) and 10 more")


def test_a_long_circle_is_cut(ctx, root, make_skill):
    ring = [f"{number:02}{'x' * 60}" for number in range(40)]
    for name, needed in zip(ring, [*ring[1:], ring[0]], strict=True):
        make_skill(root, name, requires={"skills": [needed]})
    line = get(ctx, ring[0]).splitlines()[1]
    head = "These need each other, so any order will do: "
    assert line.startswith(f"{head}{ring[0]} -> {ring[1]} -> ")
    assert len(line) == len(head) + 1000


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (list_skills, ListSkillsArgs()),
        (search_skills, SearchSkillsArgs(query="tea")),
        (get_skill, GetSkillArgs(name="tea")),
    ],
)
def test_without_a_manager_every_tool_says_so(tmp_path, function, args):
    result = function(ToolContext(workspace_root=tmp_path), args)
    assert result == ToolResult(success=False, error=NO_SKILLS)


# The system prompt, and the whole flow


def test_the_prompt_is_that_of_the_document(manager):
    assert skills_prompt(manager) == PROMPT.format(SUMMARY)


def test_braces_in_a_description_stay_as_they_are(root, make_manager, make_skill):
    make_skill(root, "x", "Fill {name} and {0}.")
    assert "- x: Fill {name} and {0}." in skills_prompt(make_manager(root))


def test_without_skills_there_is_no_prompt(tmp_path, make_manager):
    assert skills_prompt(make_manager(tmp_path / "none")) == ""
    assert skills_prompt(None) == ""


def test_an_agent_runs_the_flow_of_the_document(root, make_manager, tmp_path, opened):
    manager = make_manager(root)
    manager.search_skills("build the index")
    opened.clear()
    ctx = ToolContext(workspace_root=tmp_path, skills_manager=manager)
    system = f"You are Code.\n\n{skills_prompt(manager)}"
    assert "add-uint-support" in system
    assert "dispatch macro" not in system

    offered = toolset(ctx)
    answer = offered.call("search_skills", {"query": "add uint support to an operator"})["result"]
    assert answer == {"success": True, "output": f"- add-uint-support: {UINT}"}
    assert opened == []
    got = offered.call("get_skill", {"name": "add-uint-support"})["result"]
    assert got["success"]
    assert got["output"].endswith("# Uint\n\nEdit the dispatch macro.\n")
    assert ctx.active_skills == ["add-uint-support"]
    assert opened == [root / "add-uint-support" / "SKILL.md"]

    path = root / "add-uint-support" / "SKILL.md"
    path.write_text(path.read_text().replace("macro", "table"))
    assert (
        "dispatch table"
        in offered.call("get_skill", '{"name": "add-uint-support"}')["result"]["output"]
    )
    path.unlink()
    assert offered.call("list_skills")["result"]["output"] == f"- steep-tea: {TEA}"
    assert not offered.call("get_skill", {"name": "add-uint-support"})["result"]["success"]
