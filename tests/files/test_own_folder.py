"""Whose index is found: what a project file places, and what lies in the cache of a user."""

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skillsearch.errors import ConfigError, IndexNotFoundError
from skillsearch.files.own_folder import own_folder
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.settings import user_folders
from skillsearch.settings.config import load_settings

FORGED = "forged-by-the-checkout"


@pytest.fixture
def project(tmp_path, monkeypatch, drinks):
    """A checkout whose settings name its skills and the folder of their index; we work in it."""
    folder = tmp_path / "checkout"
    shutil.copytree(drinks, folder / "skills")
    settings = 'roots = ["skills"]\nindex_dir = "cache"\nmodel = "hashing"\n'
    (folder / "skillsearch.toml").write_text(settings)
    return folder


@pytest.fixture
def forged(project, cli, make_skill, monkeypatch):
    """The same with an index of other skills in that folder, made by somebody else."""
    other = project.parent / "other"
    make_skill(other, FORGED, "Steep green tea at the right temperature.")
    index = project / "cache"
    assert cli("index", other, "--index-dir", index, "--model", "hashing").exit_code == 0
    monkeypatch.chdir(project)
    return index


def test_an_index_that_came_with_a_checkout_is_read_only_if_it_is_named(forged, cli, monkeypatch):
    assert FORGED in cli("list", "--index-dir", forged).stdout
    with monkeypatch.context() as patch:
        patch.setenv("SKILLSEARCH_INDEX_DIR", str(forged))
        assert FORGED in cli("list").stdout
    for command in (["list"], ["query", "steep tea", "--no-refresh"], ["show", FORGED], ["status"]):
        done = cli(*command)
        assert done.exit_code == 4, done
        assert FORGED not in done.stdout
        assert f"That in {forged} may have come with the project" in done.stderr
    done = cli("index")
    assert done.exit_code == 0
    assert "3 skills in the index: 3 read" in done.stdout
    assert ", 0 texts" not in done.stdout
    assert FORGED not in cli("list").stdout
    assert cli("query", "steep tea", "--no-refresh").stdout.split("\t")[2] == "steep-tea"


def test_each_user_has_an_index_of_their_own(forged, cli, monkeypatch, tmp_path):
    cli("index")
    mine = load_settings().index_dir
    assert mine.parent == forged
    assert IndexFolder(mine).exists()
    with monkeypatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache-of-another"))
        theirs = load_settings().index_dir
        assert theirs.parent == forged
        assert theirs != mine
        assert cli("list").exit_code == 4
    assert load_settings().index_dir == mine
    assert cli("list").exit_code == 0


def test_the_name_depends_on_the_secret_and_the_folder(tmp_path):
    cache = tmp_path / "cache"
    name = own_folder(tmp_path / "a", cache).name
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert own_folder(tmp_path / "link", cache).name == name
    names = {name, own_folder(tmp_path / "b", cache).name}
    names.add(own_folder(tmp_path / "a", tmp_path / "cache-2").name)
    assert len(names) == 3
    assert all(len(bytes.fromhex(name.removeprefix("own-"))) == 16 for name in names)


def test_the_secret_is_made_once_for_its_user_alone(tmp_path):
    cache, gate = tmp_path / "cache", threading.Barrier(20)

    def name(_):
        gate.wait(120)
        return own_folder(tmp_path, cache)

    with ThreadPoolExecutor(20) as pool:
        assert len(set(pool.map(name, range(20)))) == 1
    (key,) = cache.iterdir()
    assert key.stat().st_size == 32
    if os.name != "nt":
        assert key.stat().st_mode & 0o777 == 0o600


def test_where_links_cannot_be_had_the_secret_is_kept_too(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert own_folder(tmp_path, tmp_path / "cache") == own_folder(tmp_path, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["key"]


def replaced_by_a_link(key):
    key.rename(key.with_name("elsewhere"))
    key.symlink_to("elsewhere")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
@pytest.mark.parametrize(
    "damage",
    [
        lambda key: key.write_bytes(b""),
        lambda key: key.write_bytes(b"x" * 31),
        lambda key: key.write_bytes(b"x" * 33),
        lambda key: key.chmod(0o644),
        lambda key: key.chmod(0o620),
        replaced_by_a_link,
        lambda key: (key.unlink(), key.mkdir()),
    ],
)
def test_a_secret_that_others_may_know_is_refused(tmp_path, damage):
    own_folder(tmp_path, tmp_path / "cache")
    damage(tmp_path / "cache" / "key")
    with pytest.raises(ConfigError, match=r"key to indexes.*(Remove it|--index-dir)"):
        own_folder(tmp_path, tmp_path / "cache")


def test_where_no_secret_can_be_kept_a_folder_must_be_named(forged, cli, home, drinks):
    if (home / "cache").is_dir():
        shutil.rmtree(home / "cache")  # where the index that is named took its vectors from
    (home / "cache").write_text("in the way")
    done = cli("list")
    assert done.exit_code == 2
    assert "--index-dir" in done.stderr
    assert cli("list", "--index-dir", forged).exit_code == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give")
def test_an_index_of_another_user_is_refused_in_the_cache_but_not_where_it_is_named(
    cli, drinks, tmp_path
):
    assert cli("index", drinks, "--model", "hashing").exit_code == 0
    folder = user_folders.default_index_dir()
    assert cli("list").exit_code == 0
    os.chown(folder, 12345, 12345)
    for command in (["list"], ["query", "tea"], ["index", drinks, "--model", "hashing"]):
        done = cli(*command)
        assert done.exit_code == 4, done
        assert "belongs to user 12345" in done.stderr
    assert "belongs to user 12345" in cli("doctor").stdout
    with pytest.raises(IndexNotFoundError, match="belongs to user 12345"):
        IndexFolder(folder)
    shared = tmp_path / "shared"
    Path(folder).rename(shared)
    assert cli("list", "--index-dir", shared).exit_code == 0
