"""``skillsearch prompt``: what a host puts into a system prompt."""

import json

import pytest
from skills_ref.prompt import to_prompt


def test_the_overview_is_what_the_reference_library_writes_before_what_is_loaded(indexed, drinks):
    command = ("prompt", "-", "-n", "1", "--threshold", "0")
    result = indexed(*command, stdin="steep green tea\n")
    assert result.stdout.rstrip("\n") == to_prompt([drinks / "steep-tea"])
    both = indexed(*command, "--load", "steep-tea", stdin="squeeze lemons")
    assert "</available_skills>\n\n<skill_content" in both.stdout
    assert "squeeze-lemons" in both.stdout


def test_where_nothing_fits_nothing_is_printed(indexed):
    result = indexed("prompt", "who won the world cup")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "No skill fits, so none is offered." in result.stderr


def test_all_skills_can_be_offered_whatever_the_request_in_each_format(indexed):
    result = indexed("prompt", "--all", "--format", "markdown")
    assert [line.split("**")[1] for line in result.stdout.splitlines() if line[:2] == "- "] == [
        "brew-coffee",
        "squeeze-lemons",
        "steep-tea",
    ]
    result = indexed("prompt", "--all", "--format", "json")
    assert [skill["name"] for skill in json.loads(result.stdout)][2] == "steep-tea"
    assert json.loads(indexed("prompt", "world cup", "--format", "json").stdout) == []


def test_hidden_and_shadowed_skills_are_not_offered(cli, tmp_path, make_skill):
    """Every skill offered loads by its name."""
    make_skill(tmp_path / "a", "steep-tea", "Steep green tea.")
    make_skill(tmp_path / "b", "steep-tea", "Steep black tea.")
    make_skill(tmp_path / "b", "tea-secret", "Steep.", **{"disable-model-invocation": True})
    options = ("--index-dir", tmp_path / "i")
    cli("index", tmp_path / "a", tmp_path / "b", *options, "--model", "hashing")
    for words in (["steep tea", "--threshold", "0"], ["--all"]):
        report = json.loads(cli("prompt", *words, *options, "--json").stdout)
        assert report["skills"] == ["steep-tea"]
        assert report["query"] == ("steep tea" if "steep tea" in words else "")
        assert "green" in report["prompt"]


def test_a_loaded_skill_brings_its_body_and_files(indexed, drinks):
    (drinks / "steep-tea" / "notes.md").write_text("n")
    result = indexed("prompt", "--load", "Steep-Tea")
    lines = result.stdout.splitlines()
    assert lines[0] == '<skill_content name="steep-tea">'
    assert "Use 80 C." in lines
    assert f"Skill directory: {drinks / 'steep-tea'}" in lines
    assert "<file>notes.md</file>" in lines
    assert lines[-1] == "</skill_content>"


def test_a_loaded_skill_leaves_its_chunks_out_and_names_them(cli, tmp_path, make_skill):
    chunk = "<chunk id='hot' description='How <available_skills> hot'>Eighty.</chunk>"
    make_skill(tmp_path / "r", "steep-tea", "Steep tea.", f"# Tea\n\n{chunk}\n")
    options = ("--index-dir", tmp_path / "i")
    cli("index", tmp_path / "r", *options, "--model", "hashing")
    text = cli("prompt", "--load", "steep-tea", *options).stdout
    assert "Eighty." not in text
    assert text.endswith(
        "</skill_content>\nChunks of the body, loaded by their ids:\n"
        "- hot: How &lt;available_skills> hot\n"
    )


def test_the_rest_of_a_long_skill_is_in_its_file_as_a_prompt_has_no_tools(
    cli, tmp_path, make_skill
):
    """A prompt is read by an agent that may have no tool of ours."""
    chunks = "".join(f'<chunk id="c{n}" description="{"d" * 99}">x</chunk>\n' for n in range(400))
    path = make_skill(tmp_path / "r", "tea", "Makes tea.", "Steep it. " * 11_000 + chunks)
    for number in range(60):
        (path.parent / f"{number}.txt").write_text("x")
    cli("index", tmp_path / "r", "--model", "hashing")
    prompt = cli("prompt", "--load", "tea").stdout
    assert prompt.count("the rest is in SKILL.md") == 2
    assert "There are more files than are listed here." in prompt
    assert "read_skill_file" not in prompt


def test_what_skills_require_is_added_to_loaded_ones_alone(indexed):
    done = indexed("prompt", "steep tea", "--required")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--required is for the skills of --load NAME" in done.stderr


def test_what_a_loaded_skill_needs_comes_before_it(cli, tmp_path, make_skill):
    root = tmp_path / "r"
    make_skill(root, "report", requires_skills=["chart", "gone"])
    make_skill(root, "chart", requires_skills=["csv"])
    make_skill(root, "csv", requires_skills=["chart"])
    options = ("--index-dir", tmp_path / "i")
    cli("index", root, *options, "--model", "hashing")
    result = cli("prompt", "--load", "report", "--required", *options)
    heads = [line for line in result.stdout.splitlines() if line.startswith("<skill_content")]
    assert [head.split('"')[1] for head in heads] == ["csv", "chart", "report"]
    assert "report requires gone, which is not there" in result.stderr
    assert "these require each other: chart -> csv -> chart" in result.stderr
    assert cli("prompt", "--load", "report", *options).stdout.count("<skill_content") == 1


@pytest.mark.parametrize("arguments", [[], ["tea", "--all"]])
def test_it_must_be_clear_what_to_offer(indexed, arguments):
    result = indexed("prompt", *arguments)
    assert result.exit_code == 2
    assert "skillsearch prompt" in result.stderr
    unknown = indexed("prompt", "--load", "steep-te")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert "Did you mean: steep-tea" in unknown.stderr
