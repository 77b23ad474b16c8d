"""Tests of what doctor and validate find out."""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata, util
from pathlib import Path

import pytest

from skillsearch.embedders.embedder import PACKAGED_MODEL
from skillsearch.files.atomic_files import write_record
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage import cache
from skillsearch.reports.health import EXTRAS, PACKAGES, doctor
from skillsearch.reports.validation import validate_paths
from skillsearch.settings.environ import install_extra, pip_install


def verdicts(checks, name):
    return [(check.verdict, check.detail) for check in checks if check.name == name]


def test_all_packages_of_the_project_are_looked_for():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    wanted = {entry.partition(">")[0].lower() for entry in project["dependencies"]}
    assert {name.lower() for name in PACKAGES} == wanted
    assert set(EXTRAS) == set(project["optional-dependencies"])


def test_a_missing_package_is_an_error_with_the_pip_line(monkeypatch):
    version = metadata.version

    def look_up(name):
        if name == "xxhash":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", look_up)
    packages, missing = verdicts(doctor(), "packages")
    assert packages[0] == "ok"
    assert "xxhash" not in packages[1]
    assert missing == ("error", f"missing: {pip_install()} xxhash")


@pytest.mark.parametrize("installed", [[], ["find", "mcp"], [*EXTRAS]])
def test_extras_are_a_line_of_those_that_are_installed_and_one_of_the_others(
    monkeypatch, installed
):
    modules = {EXTRAS[extra] for extra in installed}
    monkeypatch.setattr(util, "find_spec", lambda name: name if name in modules else None)
    details = [detail for _, detail in verdicts(doctor(), "extras")]
    others = ", ".join(extra for extra in EXTRAS if EXTRAS[extra] not in modules)
    cure = f"to add EXTRA: {install_extra('EXTRA')}"
    assert details == [
        *([f"installed: {', '.join(installed)}"] if installed else []),
        *([f"not installed, all optional: {others}; {cure}"] if others else []),
    ]


def test_a_swapped_model_is_an_error(tmp_path, monkeypatch):
    copied = shutil.copytree(PACKAGED_MODEL, tmp_path / "model")
    path = copied / "model.onnx"
    path.write_bytes(path.read_bytes() + b"swapped")
    monkeypatch.setenv("SKILLSEARCH_MODEL", f"onnx:{copied}")
    packaged, (verdict, detail) = verdicts(doctor(), "model")
    assert packaged[0] == "ok"
    assert verdict == "error"
    assert detail.startswith(f"onnx:{copied}: {path} ")
    assert "damaged" in detail


def test_the_chosen_model_is_loaded_too(monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_MODEL", "nonsense")
    packaged, chosen = verdicts(doctor(), "model")
    assert packaged[0] == "ok"
    assert chosen[0] == "error"
    assert "'nonsense'" in chosen[1]


@pytest.mark.usefixtures("default_reader")
def test_each_setting_comes_with_its_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLSEARCH_N", "7")
    (tmp_path / "skillsearch.toml").write_text("daemon = 'off'\n")
    monkeypatch.setenv("SKILLSEARCH_THRESHOLD", "0.5")
    details = [detail for _, detail in verdicts(doctor(tmp_path / "i"), "settings")]
    assert details == [
        f"daemon = off ({tmp_path / 'skillsearch.toml'})",
        "n = 7 (environment)",
        "threshold = 0.5 (environment)",
        f"index_dir = {tmp_path / 'i'} (flag)",
    ]


def test_no_index_yet_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checks = doctor(tmp_path / "new")
    ((verdict, detail),) = verdicts(checks, "index")
    assert verdict == "warning"
    assert "skillsearch index FOLDER" in detail
    assert verdicts(checks, "index folder")[0][0] == "ok"
    assert verdicts(checks, "root")[0][0] == "warning"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["", "new"])
def test_a_folder_that_takes_no_byte_is_not_writable(tmp_path, name):
    """As on a full disk, whose folders grant permission all the same."""
    code = (
        "import resource, sys; from pathlib import Path; from skillsearch.reports import health\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "print(*health._check_folder(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"error {tmp_path / name} is not writable: File too large; ")
    assert list(tmp_path.iterdir()) == []


def test_a_good_index_is_said_to_be_good_and_one_that_is_not_is_told(index, drinks):
    checks = doctor(index.folder)
    assert verdicts(checks, "index")[0][0] == "ok"
    alias = f"{index.opened.settings.roots[0].path} (alias drinks)"
    assert verdicts(checks, "root") == [("ok", alias)]
    assert verdicts(checks, "index = disk") == [("ok", "nothing was added, changed or removed")]
    (drinks / "steep-tea" / "SKILL.md").unlink()
    index.folder.chmod(0o777)
    checks = doctor(index.folder)
    assert verdicts(checks, "index = disk") == [
        (
            "warning",
            f"0 added, 0 changed, 1 removed; run: skillsearch index --index-dir {index.folder}",
        )
    ]
    ((verdict, detail),) = verdicts(checks, "index folder")
    assert verdict == "warning"
    assert "chmod go-w" in detail
    drinks.rename(drinks.with_name("elsewhere"))
    ((verdict, detail),) = verdicts(doctor(index.folder), "root")
    assert verdict == "error"
    assert str(drinks) in detail


def test_a_request_of_another_version_is_an_error_that_no_indexing_mends(index, monkeypatch):
    write_record(index.folder / "request.json", {"roots": {}})
    monkeypatch.setattr(cache, "FORMAT_VERSION", 99)
    ((verdict, detail),) = verdicts(doctor(index.folder), "index")
    assert (verdict, detail.partition(" decided")[0]) == ("error", "Another version of skillsearch")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes wherever it likes")
def test_a_folder_that_cannot_be_written_is_an_error(index):
    index.folder.chmod(0o500)
    assert verdicts(doctor(index.folder), "index folder")[0][0] == "error"


def test_a_file_in_the_place_of_the_index_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("x")
    assert verdicts(doctor(tmp_path / "file" / "i"), "index folder")[0][0] == "error"


def test_diagnostics_are_summed_up_by_code(drinks, index_dir, make_skill):
    for number in range(2):
        make_skill(drinks, f"empty-{number}", description="")
    make_skill(drinks, "Loud-Name")
    SkillIndex.from_roots(drinks, index_dir=index_dir, model="hashing")
    assert verdicts(doctor(index_dir), "skills") == [
        ("warning", "lost: 2 skills; errors: description-missing 2"),
        ("warning", "warnings: name-characters 1"),
    ]


def test_shadowed_skills_are_named(tmp_path, make_skill, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for root in ("project", "user"):
        make_skill(tmp_path / root, "steep-tea")
    roots = [tmp_path / "project", tmp_path / "user"]
    index = SkillIndex.from_roots(roots, index_dir=tmp_path / "i", model="hashing")
    assert verdicts(doctor(index.folder), "shadowed") == [
        ("ok", "found only by their ids: user:steep-tea by project:steep-tea")
    ]


def test_skills_that_cannot_be_published_are_named(tmp_path, make_skill, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "skills"
    make_skill(root, "steep-tea")
    make_skill(root, "for-people", **{"disable-model-invocation": True})
    for number in range(10, 22):
        make_skill(root, f"Bad {number}")
    make_skill(root, "long", "x" * 1025)
    index = SkillIndex.from_roots(root, index_dir=tmp_path / "i", model="hashing")
    ((verdict, detail),) = verdicts(doctor(index.folder), "skills over MCP")
    rule = "should hold only lowercase letters, digits and hyphens"
    bad = (f"{root}/Bad {n}/SKILL.md (The name 'Bad {n}' {rule})" for n in range(10, 20))
    assert verdict == "warning"
    assert detail == (
        "published: 1 of 15 skills; not published: name-characters 12, hidden 1,"
        " description-too-long 1. To publish more (`skillsearch validate FOLDER` lists all): "
        f"{', '.join(bad)} and 3 more"
    )


def test_what_skills_need_and_cannot_have_is_named(tmp_path, make_skill, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_skill(tmp_path / "r", "a", requires_skills=["b", *(f"gone-{n}" for n in range(12))])
    make_skill(tmp_path / "r", "b", requires_skills=["a"])
    index = SkillIndex.from_roots(tmp_path / "r", index_dir=tmp_path / "i", model="hashing")
    missing, circle = verdicts(doctor(index.folder), "required skills")
    assert missing[0] == circle[0] == "warning"
    assert missing[1].startswith("missing: gone-0 (for a), gone-1 (for a), ")
    assert missing[1].endswith("gone-9 (for a) and 2 more")
    assert circle[1] == "require each other: a -> b -> a"


def test_skills_that_have_all_they_need_are_counted(tmp_path, make_skill, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_skill(tmp_path / "r", "b")
    index = SkillIndex.from_roots(tmp_path / "r", index_dir=tmp_path / "i", model="hashing")
    assert verdicts(doctor(index.folder), "required skills") == []
    make_skill(tmp_path / "r", "a", requires_skills=["b"])
    index.refresh()
    assert verdicts(doctor(index.folder), "required skills") == [("ok", "all there")]


def test_the_executors_of_the_machine_are_named():
    details = dict(detail.split(": ", 1) for _, detail in verdicts(doctor(), "executor"))
    assert set(details) == {"local", "namespace", "container"}
    assert details["local"] == "works, isolation: none"
    assert all(details.values())


def test_validating_a_folder_reports_what_stands_in_the_way(drinks):
    """A FIFO in the place of a SKILL.md is a finding, not a hang."""
    (drinks / "pipe").mkdir()
    os.mkfifo(drinks / "pipe" / "SKILL.md")
    checked, _, findings = validate_paths([drinks])
    assert checked == 3
    assert [(finding.code, finding.severity) for finding in findings] == [
        ("not-a-regular-file", "error")
    ]
