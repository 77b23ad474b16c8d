"""Tests of ``skillsearch index``: what it indexes, prints, and answers to bad input."""

import json
import os
import re
import shlex

import pytest

from skillsearch.index.roots.request import IndexRequest

NEEDS_ORDINARY_USER = pytest.mark.skipif(
    os.geteuid() == 0, reason="root reads whatever the permissions say"
)
REPORT_KEYS = {
    "indexed",
    "embedded",
    "reused",
    "removed",
    "skipped",
    "diagnostics",
    "generation",
    "seconds",
}


def test_json_is_one_object_with_the_keys_of_the_contract(index, drinks, cli, index_dir):
    """The metadata of three skills are three texts; their bodies are none."""
    code, report = index(drinks)
    assert code == 0
    assert (report["index_dir"], report["roots"]) == (str(index_dir), [str(drinks)])
    lines = cli("index", drinks, "--index-dir", index_dir).stdout.splitlines()
    assert lines[1] == f"index: {index_dir}; roots: {drinks}"
    assert report.keys() >= REPORT_KEYS
    assert (report["indexed"], report["embedded"], report["reused"]) == (3, 3, 0)
    assert (report["removed"], report["skipped"], report["diagnostics"]) == (0, 0, [])
    assert len(report["generation"]) == 32


def test_a_second_run_does_nothing_and_a_verified_one_reads_all(index, drinks):
    first = index(drinks)[1]
    for args in ((drinks,), (drinks, "--verify")):
        _, report = index(*args)
        assert (report["embedded"], report["reused"]) == (0, 3)
        assert report["generation"] == first["generation"]


def test_a_folder_of_other_files_is_no_place_for_an_index_and_nothing_none(
    index, cli, drinks, index_dir
):
    index_dir.mkdir()
    (index_dir / ".gitkeep").touch()
    assert index(drinks)[0] == 0
    (index_dir / "notes.txt").write_text("mine")
    assert index(drinks)[1]["reused"] == 3
    names = sorted(path.name for path in drinks.iterdir())
    result = cli("index", drinks, "--index-dir", drinks, "--model", "hashing")
    assert result.exit_code == 2
    assert f"holds other files ({', '.join(names)}) and no index" in result.stderr
    assert f"such as {drinks / 'index'}" in result.stderr
    assert sorted(path.name for path in drinks.iterdir()) == names


@pytest.mark.parametrize("name", ["embeddings-final.npy", "lockfile.txt", "generations-old"])
def test_a_file_that_is_only_called_like_ours_is_somebody_else_s(cli, drinks, index_dir, name):
    index_dir.mkdir()
    (index_dir / name).write_text("mine")
    result = cli("index", drinks, "--index-dir", index_dir, "--model", "hashing")
    assert result.exit_code == 2
    assert f"holds other files ({name})" in result.stderr
    (index_dir / "request.json").write_text("{}")  # as in an index that was never finished
    cli("index", drinks, "--index-dir", index_dir, "--model", "hashing")
    assert (index_dir / name).read_text() == "mine"
    result = cli("index", drinks, "--index-dir", drinks / "steep-tea" / "SKILL.md")
    assert result.exit_code == 2
    assert "is a file" in result.stderr
    nothing = cli("index")
    assert (nothing.exit_code, nothing.stdout) == (2, "")
    assert "skillsearch index FOLDER" in nothing.stderr
    assert "--examples" in nothing.stderr


def test_a_person_reads_one_line_on_stdout_and_problems_on_stderr(cli, drinks, make_skill):
    bad = make_skill(drinks, "no-description", description="")
    result = cli("index", drinks, "--index-dir", "i", "--model", "hashing")
    assert result.exit_code == 0
    assert result.stdout.startswith("lost: 1 skill; 3 skills in the index: 3 read, 0 unchanged")
    assert f"{bad}: error description-missing" in result.stderr


def test_many_problems_are_summed_up(cli, tmp_path, make_skill):
    for number in range(15):
        make_skill(tmp_path / "r", f"empty-{number}", description="")
    stderr = cli("index", tmp_path / "r", "--index-dir", "i", "--model", "hashing").stderr
    assert stderr.count("error description-missing") == 10
    assert "errors: description-missing 5 (--json lists all)" in stderr


def test_warnings_of_a_kind_are_counted(cli, drinks, make_skill):
    """They cost no skill, and a screen of them hides what does; one alone is shown."""
    for number in range(12):
        make_skill(drinks, f"named-{number}").parent.rename(drinks / f"other-{number}")
    (drinks / "link").symlink_to(drinks.parent)
    args = ("index", drinks, "--index-dir", "i", "--model", "hashing")
    first, second = cli(*args).stderr.splitlines()
    assert first.startswith(f"{drinks / 'link'}: error link-leaves-root ")
    assert second == "warnings: name-differs-from-folder 12 (--json lists all)"
    assert len(json.loads(cli(*args, "--json").stdout)["diagnostics"]) == 13


@pytest.mark.parametrize(
    "args",
    [
        ["index", ""],
        ["index", ".", ""],
        ["list", "--index-dir", ""],
        ["budget", ""],
        ["add", ""],
        ["remove", ""],
        ["update", ""],
        ["run", "brew-coffee", "--root", "", "--", "ls"],
        ["run", "brew-coffee", "--input", "", "--", "ls"],
    ],
)
def test_an_empty_path_is_not_the_working_folder(cli, args):
    result = cli(*args)
    assert result.exit_code == 2
    assert "it is empty; name a path, or . for this folder" in result.stderr


def test_the_index_made_again_keeps_its_model_and_fields(cli, drinks, index_dir):
    """A bare ``index`` renews what is there; it does not turn it into something else."""
    cli("index", drinks, "--index-dir", index_dir, "--model", "hashing", "--fields", "metadata")
    cli("index", "--index-dir", index_dir)
    request = IndexRequest.load(index_dir)
    assert (request.model, request.with_body) == ("hashing", False)
    cli("index", "--index-dir", index_dir, "--fields", "full")
    assert IndexRequest.load(index_dir).with_body is True


def test_an_index_folder_that_cannot_be_written_exits_with_1(cli, drinks, tmp_path):
    (tmp_path / "locked" / "lock").mkdir(parents=True)
    result = cli("index", drinks, "--index-dir", tmp_path / "locked", "--model", "hashing")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Choose another --index-dir" in result.stderr
    assert result.stderr.count("\n") == 1


@NEEDS_ORDINARY_USER
def test_a_folder_that_may_not_be_written_is_not_called_full(index, drinks, index_dir, make_skill):
    index(drinks)
    make_skill(drinks, "more")
    (index_dir / "generations").chmod(0o500)
    code, message = index(drinks)
    (index_dir / "generations").chmod(0o700)
    assert code == 1
    assert "Permission denied" in message
    assert "check who may write there" in message
    assert "space" not in message


def test_an_interrupt_is_no_bug_and_an_unexpected_error_one_line_that_says_it_is(failing):
    loud = failing(RuntimeError("a cog broke"), "list", "-v")
    assert loud.exit_code == 1
    assert "Traceback" in loud.stderr
    assert "raise error\nRuntimeError: a cog broke" in loud.stderr
    interrupted = failing(KeyboardInterrupt(), "index")
    assert (interrupted.exit_code, interrupted.stdout) == (130, "")
    assert "embedded texts are kept" in interrupted.stderr
    result = failing(RuntimeError("a cog broke"), "index")
    assert "Traceback" not in result.stderr
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "bug in skillsearch" in result.stderr
    assert "RuntimeError: a cog broke" in result.stderr


def test_only_keeps_to_what_was_indexed(cli, index, drinks, make_skill, index_dir, monkeypatch):
    index(drinks)
    others = index_dir.parent / "others"
    make_skill(others, "play-chess")
    monkeypatch.setenv("SKILLSEARCH_ROOTS", str(others))
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(index_dir))
    path = sorted(drinks.glob("*/SKILL.md"))[0]
    with path.open("a") as file:
        file.write("More words.\n")
    report = json.loads(cli("index", "--only", path, "--json").stdout)
    assert (report["indexed"], report["reused"]) == (3, 2)
    assert json.loads(cli("index", "--json").stdout)["indexed"] == 4


def test_commands_to_run_next_name_the_index_that_an_option_named(cli, drinks, index_dir):
    options = ("--index-dir", index_dir)
    said = cli("index", drinks, *options, "--model", "hashing", "--trust", "project").stderr
    (vouch,) = re.findall(r"to vouch: skillsearch (.*)", said)
    assert cli(*shlex.split(vouch)).exit_code == 0
    (look,) = re.findall(r"there is: skillsearch (.*)", cli("query", "zzz", *options).stderr)
    assert "steep-tea" in cli(*shlex.split(look)).stdout
    (drinks / "steep-tea" / "SKILL.md").unlink()
    done = cli("status", *options), cli("doctor", *options)
    again = [re.search(r"run: skillsearch (.*)", each.stderr + each.stdout)[1] for each in done]
    assert again == [f"index --index-dir {index_dir}"] * 2
    assert cli(*shlex.split(again[0])).exit_code == 0
    assert cli("status", *options).exit_code == 0


def test_only_says_which_paths_no_root_holds(index, cli, drinks, index_dir, tmp_path):
    index(drinks)
    (tmp_path / "link").symlink_to(drinks / "steep-tea")
    for path in (drinks / "steep-tea", drinks / "gone", drinks.parent, tmp_path / "link"):
        assert cli("index", "--only", path, "--index-dir", index_dir).stderr == ""
    for stray in (tmp_path / "nowhere" / "SKILL.md", f"{drinks}-too"):
        said = cli("index", "--only", stray, "--index-dir", index_dir).stderr
        assert f"no root of this index holds {stray}; correct the path" in said


def test_thousands_of_skills_are_asked_about_on_a_terminal(cli, make_skill, tmp_path, monkeypatch):
    for number in range(4):
        make_skill(tmp_path / "many", f"skill-{number}")
    monkeypatch.setattr("skillsearch.cli.options.MANY_SKILLS", 3)
    assert cli("index", tmp_path / "many").exit_code == 0
    questions = []
    terminal = type("Terminal", (), {"isatty": lambda _self: True})()
    monkeypatch.setattr(
        "skillsearch.cli.options.sys", type("Sys", (), {"stdin": terminal, "stderr": terminal})
    )
    confirm = lambda text, **_how: questions.append(text)  # noqa: E731
    monkeypatch.setattr("skillsearch.cli.options.click.confirm", confirm)
    from skillsearch.cli.options import check_size

    check_size(tmp_path / "many", is_agreed=False)
    check_size(tmp_path / "many", is_agreed=True)
    check_size(tmp_path / "many" / "skill-0", is_agreed=False)
    assert [text.partition(" is ")[2] for text in questions] == [
        "more than 3 skills, which takes minutes. Go on?"
    ]


@pytest.mark.parametrize("option", ["--model", "--reader"])
@pytest.mark.parametrize("name", ["nope", "./nope", "onnx:./nope", "st:"])
def test_a_model_that_nothing_is_called_is_wrong_usage(cli, drinks, index_dir, option, name):
    command = ("index", drinks) if option == "--model" else ("query", "tea")
    result = cli(*command, option, name, "--index-dir", index_dir)
    assert result.exit_code == 2
    assert name in result.stderr
