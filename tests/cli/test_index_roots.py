"""Tests of the roots of ``skillsearch index``: added, replaced, taken out, and refused."""

import json
import os
import shlex
import shutil
from pathlib import Path

import pytest

from skillsearch.files.own_folder import own_folder
from skillsearch.index.roots.request import IndexRequest
from skillsearch.settings.user_folders import cache_dir

NEEDS_ORDINARY_USER = pytest.mark.skipif(
    os.geteuid() == 0, reason="root reads whatever the permissions say"
)


@pytest.fixture
def skills(tmp_path, make_skill):
    """Make folders of one skill each and return the function that makes them."""

    def make(*names):
        for name in names:
            make_skill(tmp_path / name, f"{name}-skill")
        return [tmp_path / name for name in names]

    return make


@pytest.fixture
def roots_of(index_dir):
    return lambda: [Path(root).name for root in IndexRequest.load(index_dir).named]


@pytest.fixture
def listed_names(cli, index_dir):
    def names():
        listed = json.loads(cli("list", "--index-dir", index_dir, "--json").stdout)["skills"]
        return {skill["name"] for skill in listed}

    return names


def test_what_was_indexed_stays_and_new_roots_come_behind(index, skills, roots_of, listed_names):
    first, second, third = skills("first", "second", "third")
    index(second)
    index(first, third)
    assert roots_of() == ["second", "first", "third"]
    index()
    assert roots_of() == ["second", "first", "third"]
    assert listed_names() == {"first-skill", "second-skill", "third-skill"}


def test_a_named_root_without_skills_is_noted_next_to_those_that_have_some(
    cli, skills, tmp_path, index_dir
):
    def notes(*roots):
        result = cli("index", *roots, "--index-dir", index_dir, "--model", "hashing")
        return [line for line in result.stderr.splitlines() if "no SKILL.md lies below" in line]

    first, inner = skills("first", "outer/inner")
    (empty := tmp_path / "first-empty").mkdir()
    cure = "correct the path, or put skills there"
    assert notes(first, empty) == [f"note: no SKILL.md lies below {empty}; {cure}"]
    assert notes(first, inner) == notes() == []
    assert notes(tmp_path / "outer") == []
    (tmp_path / "broken" / "tea").mkdir(parents=True)
    (tmp_path / "broken" / "tea" / "SKILL.md").touch()
    assert notes(tmp_path / "broken") == []


def test_examples_are_added_too_and_come_last(index, skills, listed_names, roots_of):
    first, second = skills("first", "second")
    index("--examples")
    index(first)
    index(second)
    assert roots_of() == ["first", "second", "examples"]
    assert {"first-skill", "second-skill", "kubernetes-crashloop"} <= listed_names()


def test_after_the_examples_the_usual_places_are_still_found(index, home, make_skill, roots_of):
    index("--examples")
    make_skill(home / ".claude" / "skills", "usual-skill")
    index()
    assert roots_of() == ["skills", "examples"]


@pytest.mark.parametrize("source", ["project", "variable", "user"])
def test_roots_of_the_settings_come_first(
    cli, skills, tmp_path, home, monkeypatch, source, index_dir
):
    skills("set", "before", "new")
    folder = own_folder(index_dir, cache_dir()) if source == "project" else index_dir
    files = {"project": tmp_path / "skillsearch.toml"}
    files["user"] = home / "config" / "skillsearch" / "skillsearch.toml"
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(folder))
    cli("index", tmp_path / "before", "--model", "hashing")
    if source == "variable":
        monkeypatch.setenv("SKILLSEARCH_ROOTS", str(tmp_path / "set"))
    else:
        monkeypatch.delenv("SKILLSEARCH_INDEX_DIR")
        files[source].parent.mkdir(parents=True, exist_ok=True)
        roots = f'roots = ["{tmp_path / "set"}"]\nindex_dir = "{index_dir}"\n'
        files[source].write_text(roots)
    assert cli("index", tmp_path / "new").exit_code == 0
    assert [Path(root).name for root in IndexRequest.load(folder).named] == ["set", "before", "new"]


def test_roots_of_a_project_do_not_go_into_an_index_that_a_flag_names(
    index, skills, tmp_path, roots_of, index_dir
):
    """The project names roots for its own index, or for yours; not for any other that has some."""
    _, mine = skills("theirs", "mine")
    (tmp_path / "skillsearch.toml").write_text('roots = ["theirs"]\nindex_dir = "idx"\n')
    index(mine)
    assert roots_of() == ["mine"]
    index()
    assert roots_of() == ["mine"]
    shutil.rmtree(index_dir)
    index()
    assert roots_of() == ["theirs"]


def test_a_root_that_is_there_is_not_added_under_another_spelling(
    index, skills, tmp_path, monkeypatch, roots_of
):
    (mine,) = skills("mine")
    (tmp_path / "link").symlink_to(mine)
    monkeypatch.chdir(mine)
    index(mine)
    _, report = index(tmp_path / "link", "../mine/", ".", f"{mine}/../mine")
    assert (roots_of(), report["roots"], report["indexed"]) == (["mine"], [str(mine)], 1)


@pytest.mark.parametrize("order", [("outer", "outer/inner"), ("outer/inner", "outer")])
def test_a_root_inside_another_is_not_indexed_twice(index, tmp_path, make_skill, order):
    make_skill(tmp_path / "outer", "outer-skill")
    make_skill(tmp_path / "outer" / "inner", "inner-skill")
    reports = [index(tmp_path / name)[1] for name in order]
    assert (reports[1]["indexed"], reports[1]["roots"]) == (2, [str(tmp_path / "outer")])


def test_replace_holds_exactly_the_roots_named_and_says_what_left(index, skills, roots_of):
    first, second, third = skills("first", "second", "third")
    index(first, second, third)
    _, report = index("--replace", second)
    assert (roots_of(), report["indexed"]) == (["second"], 1)
    assert report["left"] == {str(first): 1, str(third): 1}


def test_a_skill_that_another_root_still_holds_has_not_left(index, tmp_path, make_skill):
    make_skill(tmp_path / "outer" / "inner", "inner-skill")
    make_skill(tmp_path / "outer", "outer-skill")
    index(tmp_path / "outer")
    _, report = index("--replace", tmp_path / "outer" / "inner")
    assert report["left"] == {str(tmp_path / "outer"): 1}
    _, report = index("--replace", tmp_path / "outer")
    assert report["left"] == {}


def test_replace_without_a_root_takes_those_of_the_settings_or_the_usual_places(
    index, skills, home, make_skill, tmp_path, roots_of
):
    mine, _ = skills("mine", "set")
    make_skill(home / ".agents" / "skills", "usual-skill")
    index(mine)
    index("--replace")
    assert roots_of() == ["skills"]
    (tmp_path / "skillsearch.toml").write_text('roots = ["set"]\n')
    index("--replace")
    assert roots_of() == ["set"]


def test_a_root_that_was_indexed_and_is_gone_is_refused_with_both_ways_on(
    cli, index, skills, index_dir, roots_of, listed_names
):
    """The command that is told leaves it out; with the root back all is as before."""
    first, second, third = skills("first", "my second", "third")
    index(first, second)
    first.rename(first.with_name("away"))
    code, message = index(third)
    command = f"skillsearch index --replace '{second}' {third} --index-dir {index_dir}"
    assert code == 2
    assert message.rstrip().endswith(f"bring it back, or leave its skills out: {command}")
    assert f"{first}: The folder does not exist" in message
    assert roots_of() == ["first", "my second"]
    assert "first-skill" in listed_names()
    first.with_name("away").rename(first)
    assert index(third)[0] == 0
    assert roots_of() == ["first", "my second", "third"]
    first.rename(first.with_name("away"))
    assert cli(*shlex.split(command)[1:]).exit_code == 0
    assert roots_of() == ["my second", "third"]
    for root in (second, third):
        root.rename(root.with_name(f"away-{root.name}"))
    assert "skillsearch index --replace FOLDER --index-dir" in index()[1]


def test_roots_outside_of_a_project_are_added_with_the_command_for_ones_own(
    cli, skills, tmp_path, make_skill, home
):
    (mine,) = skills("mine")
    project = tmp_path / "work" / "skillsearch.toml"
    project.write_text('index_dir = "idx"\nroots = ["inside"]\nmodel = "hashing"\n')
    make_skill(tmp_path / "work" / "inside", "inside-skill")
    stderr = cli("index", mine).stderr
    own = home / "cache" / "skillsearch" / "default"
    command = f"skillsearch index {mine} --index-dir {own}"
    assert f"the index of the project, which {project} names" in stderr
    assert stderr.rstrip().endswith(command)
    assert "note:" not in cli("index", "inside").stderr
    report = json.loads(cli(*command.split()[1:], "--json").stdout)
    assert (report["roots"], report["indexed"]) == ([str(mine)], 1)


def test_a_missing_root_beside_others_is_told_how_to_go_without(cli, skills):
    (mine,) = skills("my skills")
    result = cli("index", mine, "nowhere", "--model", "hashing")
    assert result.exit_code == 2
    command = result.stderr.rstrip().partition("Without it: ")[2]
    assert shlex.split(command) == ["skillsearch", "index", str(mine)]
    assert cli(*shlex.split(command)[1:], "--model", "hashing").exit_code == 0


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("owner/repo", "https://github.com/owner/repo/archive/HEAD.zip"),
        ("git@github.com:owner/repo.git", "https://github.com/owner/repo/archive/HEAD.zip"),
        ("git@gitlab.com:a/b", "https://gitlab.com/a/b/-/archive/HEAD/b-HEAD.zip"),
        ("ssh://git@github.com/o/r.git", "https://github.com/o/r/archive/HEAD.zip"),
    ],
)
def test_a_repository_is_told_the_url_of_its_archive(cli, typed, url):
    result = cli("index", typed)
    assert result.exit_code == 2
    assert f"For a repository, name its archive: {url}" in result.stderr


def test_what_lies_on_this_machine_is_no_repository(cli, make_skill):
    path = make_skill("skills")
    for name in ("skills/tea-timer/SKILL.md", path):
        result = cli("index", name)
        assert result.exit_code == 2
        assert "name the one that holds it" in result.stderr
        assert "archive" not in result.stderr


@NEEDS_ORDINARY_USER
def test_an_unreadable_root_is_refused(index, drinks):
    drinks.chmod(0)
    code, message = index(drinks)
    drinks.chmod(0o700)
    assert code == 2
    assert "permissions" in message


def test_remove_takes_roots_out_and_says_what_left(index, cli, skills, roots_of, index_dir):
    first, second, third = skills("first", "second", "third")
    index(first, second, third)
    first.rename(first.with_name("away"))
    code, report = index("--remove", first)
    assert (code, roots_of()) == (0, ["second", "third"])
    assert (report["indexed"], report["left"]) == (2, {str(first): 1})
    stderr = cli("index", "--remove", "../third", "--index-dir", index_dir).stderr
    assert f"with {third}, 1 skill left the index" in stderr


def test_removing_too_much_or_nothing_is_refused(index, skills, roots_of):
    first, second, third = skills("first", "second", "third")
    index(first, second)
    for args, part in [
        (["--remove"], "--remove takes out ROOTs; name them."),
        (["--remove", third], f"is not a root of this index. Its roots: {first}, {second}"),
        (["--remove", first, second], "skillsearch index --replace FOLDER --index-dir"),
        (["--remove", "--replace", first], "use one of them"),
        (["--remove", first, "--only", first], "use one of them"),
        (["--replace", "--only", first], "--only"),
    ]:
        code, message = index(*args)
        assert (code, part in message) == (2, True), message
    assert roots_of() == ["first", "second"]


@pytest.mark.parametrize(
    ("command", "root"),
    [
        *(("index", root) for root in ("/", "{home}", "{home}/..", "/usr", "{home}/link")),
        *((command, "{home}") for command in ("watch", "mcp", "budget", "audit")),
    ],
)
def test_a_whole_home_folder_or_disk_is_refused_with_the_way(cli, home, root, command):
    (home / "link").symlink_to(home)
    result = cli(command, root.format(home=home))
    assert result.exit_code == 2
    assert "is a whole home folder or disk, not a folder of skills" in result.stderr
    assert "--yes" in result.stderr


def test_a_home_folder_is_taken_by_those_who_mean_it(cli, home, make_skill):
    make_skill(home / "notes", "tea")
    assert cli("index", home, "--yes").exit_code == 0
    assert cli("index", home / "notes").exit_code == 0


def test_a_link_into_another_root_is_read_like_any_skill(cli, tmp_path):
    linked, other = tmp_path / "one" / "tea", tmp_path / "other"
    linked.mkdir(parents=True)
    other.mkdir()
    text = "---\nname: tea\ndescription: Brew {} tea.\n---\nSteep.\n"
    (other / "tea.md").write_text(text.format("black"), encoding="utf-8")
    (linked / "SKILL.md").symlink_to(other / "tea.md")
    result = cli("index", linked.parent, other, "--index-dir", "i", "--model", "hashing")
    assert result.stdout.startswith("1 skill in the index")
    assert "Steep." in cli("show", "tea", "--body", "--index-dir", "i").stdout
    (other / "tea.md").write_text(text.format("some very green"), encoding="utf-8")
    assert "1 read" in cli("index", "--index-dir", "i", "--model", "hashing").stdout
    assert "green" in cli("show", "tea", "--index-dir", "i").stdout
