"""Tests of ``skillsearch index``: what it indexes, prints, and answers to bad input."""

import json
import os

import pytest

from skillsearch.cli import indexing
from skillsearch.index import amending
from skillsearch.index.request import IndexRequest

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


@pytest.fixture
def index(cli, index_dir):
    """Run ``index --json`` with the hashing embedder and return its exit code and object."""

    def run(*args):
        result = cli("index", "--index-dir", index_dir, "--model", "hashing", "--json", *args)
        return result.exit_code, json.loads(result.stdout) if result.stdout else result.stderr

    return run


def codes(report):
    """Return the codes of the diagnostics."""
    return [item["code"] for item in report["diagnostics"]]


def test_json_is_one_object_with_the_keys_of_the_contract(index, drinks):
    """The metadata of three skills are three texts; their bodies are none."""
    code, report = index(drinks)
    assert code == 0
    assert report.keys() >= REPORT_KEYS
    assert (report["indexed"], report["embedded"], report["reused"]) == (3, 3, 0)
    assert (report["removed"], report["skipped"], report["diagnostics"]) == (0, 0, [])
    assert len(report["generation"]) == 32


def test_a_second_run_does_nothing_and_a_verified_one_reads_all(index, drinks):
    """The generation stays; ``--verify`` hashes every file and finds all unchanged."""
    first = index(drinks)[1]
    for args in ((drinks,), (drinks, "--verify")):
        _, report = index(*args)
        assert (report["embedded"], report["reused"]) == (0, 3)
        assert report["generation"] == first["generation"]


def test_a_person_reads_one_line_on_stdout_and_problems_on_stderr(cli, drinks, make_skill):
    """Counts go to stdout; what is wrong with a file goes to stderr with its path."""
    bad = make_skill(drinks, "no-description", description="")
    result = cli("index", drinks, "--index-dir", "i", "--model", "hashing")
    assert result.exit_code == 0
    assert result.stdout.startswith("3 skills in the index: 3 read, 0 unchanged, 0 removed, 1 skip")
    assert f"{bad}: error description-missing" in result.stderr


def test_many_problems_are_summed_up(cli, tmp_path, make_skill):
    """Ten are shown in full, the others counted by code."""
    for number in range(15):
        make_skill(tmp_path / "r", f"empty-{number}", description="")
    stderr = cli("index", tmp_path / "r", "--index-dir", "i", "--model", "hashing").stderr
    assert stderr.count("error description-missing") == 10
    assert "also: description-missing 5 (--json lists all)" in stderr


def test_metadata_alone_leaves_the_bodies_out(indexed, cli, drinks):
    """A word of the body finds nothing in an index of metadata."""
    query = ("query", "beans", "--threshold", 0.01, "--system", "bm25", "--json")
    full = json.loads(indexed(*query).stdout)
    assert [hit["name"] for hit in full["hits"]] == ["brew-coffee"]
    cli("index", drinks, "--index-dir", "meta", "--model", "hashing", "--fields", "metadata")
    assert json.loads(cli(*query, "--index-dir", "meta").stdout)["hits"] == []


def test_examples_need_no_other_folder(cli):
    """An installed copy can show itself."""
    result = cli("index", "--examples", "--index-dir", "i", "--model", "hashing", "--json")
    examples = len(list(indexing.EXAMPLES.glob("*/SKILL.md")))
    assert json.loads(result.stdout)["indexed"] == examples >= 20


def test_the_packaged_model_is_the_default(cli, drinks):
    """Without ``--model`` the index is made with the ONNX model of the package."""
    assert cli("index", drinks, "--index-dir", "i").exit_code == 0
    status = json.loads(cli("status", "--index-dir", "i", "--json").stdout)
    assert status["model"] == "onnx"
    hits = json.loads(
        cli(
            "query",
            "how hot should the water be",
            "--index-dir",
            "i",
            "--json",
            "--threshold",
            "0",
            "-n",
            "1",
        ).stdout
    )["hits"]
    assert [hit["name"] for hit in hits] == ["steep-tea"]


def test_roots_come_from_arguments_then_settings_then_the_index_then_the_usual_places(
    cli, tmp_path, make_skill, home, index_dir
):
    """Each source counts only where those before it say nothing."""
    names = ("usual", "settings", "argument")
    roots = {name: tmp_path / name for name in names} | {"usual": home / ".claude" / "skills"}
    for name, root in roots.items():
        make_skill(root, f"{name}-skill")

    def index(*args):
        assert cli("index", *args, "--index-dir", index_dir, "--model", "hashing").exit_code == 0
        return [root.name for root in IndexRequest.load(index_dir).roots]

    assert index() == ["skills"]
    assert index(roots["argument"]) == ["argument"]
    assert index() == ["argument"]
    (tmp_path / "skillsearch.toml").write_text('roots = ["settings"]\n')
    assert index() == ["settings"]
    assert index(roots["argument"]) == ["argument"]


def test_the_index_made_again_keeps_its_model_and_fields(cli, drinks, index_dir):
    """A bare ``index`` renews what is there; it does not turn it into something else."""
    cli("index", drinks, "--index-dir", index_dir, "--model", "hashing", "--fields", "metadata")
    cli("index", "--index-dir", index_dir)
    request = IndexRequest.load(index_dir)
    assert (request.model, request.with_body) == ("hashing", False)
    cli("index", "--index-dir", index_dir, "--fields", "full")
    assert IndexRequest.load(index_dir).with_body is True


def test_nothing_to_index_says_what_to_do(cli):
    """Without any folder the answer is a usage error with three ways on."""
    result = cli("index")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "skillsearch index FOLDER" in result.stderr
    assert "--examples" in result.stderr


def test_a_missing_root_is_named_and_the_index_stays(index, drinks, tmp_path):
    """A gone folder must not become an index without its skills."""
    before = index(drinks)[1]["generation"]
    code, message = index(drinks, tmp_path / "gone")
    assert code == 2
    assert f"{tmp_path / 'gone'}: The folder does not exist" in message
    assert index(drinks)[1]["generation"] == before


def test_a_file_instead_of_a_folder_is_refused(index, drinks):
    """The message names the file."""
    path = drinks / "steep-tea" / "SKILL.md"
    code, message = index(path)
    assert code == 2
    assert str(path) in message


def test_a_file_as_index_folder_is_refused(cli, drinks):
    """``--index-dir`` wants a folder."""
    result = cli("index", drinks, "--index-dir", drinks / "steep-tea" / "SKILL.md")
    assert result.exit_code == 2
    assert "is a file" in result.stderr


@NEEDS_ORDINARY_USER
def test_an_unreadable_root_is_refused(index, drinks):
    """The permissions are named as the cause."""
    drinks.chmod(0)
    code, message = index(drinks)
    drinks.chmod(0o700)
    assert code == 2
    assert "permissions" in message


@NEEDS_ORDINARY_USER
def test_an_unreadable_folder_is_reported_and_the_rest_indexed(index, drinks):
    """One closed folder costs its own skill only."""
    (drinks / "steep-tea").chmod(0)
    code, report = index(drinks)
    (drinks / "steep-tea").chmod(0o700)
    assert (code, report["indexed"], codes(report)) == (0, 2, ["folder-unreadable"])


def test_an_empty_root_makes_an_empty_index_and_a_warning(index, tmp_path):
    """No skill is no error, and is not silent."""
    (tmp_path / "empty").mkdir()
    code, report = index(tmp_path / "empty")
    assert (code, report["indexed"], codes(report)) == (0, 0, ["root-empty"])


@pytest.mark.timeout(20)
def test_a_fifo_named_skill_md_does_not_block(index, drinks):
    """It is reported as no regular file."""
    (drinks / "pipe").mkdir()
    os.mkfifo(drinks / "pipe" / "SKILL.md")
    code, report = index(drinks)
    assert (code, report["indexed"], report["skipped"]) == (0, 3, 1)
    assert codes(report) == ["not-a-regular-file"]


@pytest.mark.timeout(20)
def test_a_sparse_file_of_five_gigabytes_is_not_read(index, drinks):
    """Its size alone is enough to leave it out."""
    (drinks / "huge").mkdir()
    with (drinks / "huge" / "SKILL.md").open("wb") as file:
        file.truncate(5 << 30)
    code, report = index(drinks)
    assert (code, report["indexed"], codes(report)) == (0, 3, ["file-too-large"])


@pytest.mark.timeout(20)
def test_a_loop_of_links_ends(index, drinks):
    """Each skill is counted once, by its real path."""
    (drinks / "steep-tea" / "again").symlink_to(drinks)
    (drinks / "self").symlink_to(drinks / "self")
    code, report = index(drinks)
    assert (code, report["indexed"], report["skipped"]) == (0, 3, 0)


def test_a_model_that_nothing_is_called_exits_with_1(cli, drinks):
    """The message lists what can be used."""
    result = cli("index", drinks, "--index-dir", "i", "--model", "nonsense")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "'nonsense'; use one of: onnx, minilm, hashing" in result.stderr


def test_an_index_folder_that_cannot_be_written_exits_with_1(cli, drinks, tmp_path):
    """One line says where, why, and what to do."""
    (tmp_path / "locked" / "lock").mkdir(parents=True)
    result = cli("index", drinks, "--index-dir", tmp_path / "locked", "--model", "hashing")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Choose another --index-dir" in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_interrupt_exits_with_130_and_says_what_is_kept(cli, drinks, monkeypatch):
    """Ctrl-C is no error of ours and costs nothing that was embedded."""

    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(indexing, "load_settings", interrupt)
    result = cli("index", drinks)
    assert (result.exit_code, result.stdout) == (130, "")
    assert "what was embedded is kept" in result.stderr


def test_an_unexpected_error_is_one_line_that_says_it_is_a_bug(cli, drinks, monkeypatch):
    """No traceback reaches a user who did not ask for one."""

    def fail(*_args, **_kwargs):
        raise RuntimeError("a cog broke")

    monkeypatch.setattr(indexing, "load_settings", fail)
    result = cli("index", drinks)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "bug in skillsearch" in result.stderr
    assert "RuntimeError: a cog broke" in result.stderr


def test_a_bad_setting_in_a_project_file_is_named(cli, tmp_path, drinks):
    """The file, the key and the value stand in the message."""
    (tmp_path / "skillsearch.toml").write_text("n = 0\n")
    result = cli("index", drinks)
    assert result.exit_code == 2
    assert "skillsearch.toml: n = 0 must be a whole number from 1 to 1000" in result.stderr


def test_only_what_is_named_is_looked_at_in_a_large_index(index, drinks, make_skill, monkeypatch):
    """A file that changed and one that is gone; what else changed waits."""
    monkeypatch.setattr(amending, "LEAST_DOCUMENTS", 2)
    index(drinks)
    first, second, third = sorted(path.parent.name for path in drinks.glob("*/SKILL.md"))
    for name in (first, second):
        with (drinks / name / "SKILL.md").open("a") as file:
            file.write("More words.\n")
    (drinks / third / "SKILL.md").unlink()
    code, report = index(drinks, "--only", drinks / first / "SKILL.md", "--only", drinks / third)
    assert code == 0
    assert (report["indexed"], report["reused"], report["removed"]) == (2, 1, 1)
    code, report = index(drinks)
    assert (report["indexed"], report["reused"]) == (2, 1)


def test_only_a_path_in_no_root_changes_nothing(index, drinks, tmp_path, monkeypatch):
    """There is nothing of it in the index, and nothing comes."""
    monkeypatch.setattr(amending, "LEAST_DOCUMENTS", 2)
    _, before = index(drinks)
    code, report = index(drinks, "--only", tmp_path / "elsewhere")
    assert code == 0
    assert (report["generation"], report["reused"]) == (before["generation"], 3)


def test_only_keeps_to_what_was_indexed(index, drinks, make_skill, tmp_path, monkeypatch):
    """Though the settings of the folder that it is called in name other roots."""
    monkeypatch.setattr(amending, "LEAST_DOCUMENTS", 2)
    index(drinks)
    make_skill(tmp_path / "others", "play-chess")
    (tmp_path / "skillsearch.toml").write_text('roots = ["others"]\n')
    monkeypatch.chdir(tmp_path)
    path = sorted(drinks.glob("*/SKILL.md"))[0]
    with path.open("a") as file:
        file.write("More words.\n")
    _, report = index("--only", path)
    assert (report["indexed"], report["reused"]) == (3, 2)
    _, report = index()
    assert report["indexed"] == 1
