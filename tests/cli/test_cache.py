"""`skillsearch cache`: what lies in the cache folder, what needs it, and how it is emptied."""

import fcntl
import json
import os
import shutil
import time
import zipfile

import pytest

from skillsearch.files.own_folder import own_folder
from skillsearch.reports.cache import KEPT_SECONDS, read_cache, remove_unused
from skillsearch.roots.bundles import local_root
from skillsearch.roots.sources import folder_of
from skillsearch.settings.user_folders import cache_dir, default_index_dir, index_dir_for
from skillsearch.text.safe_text import visible

SKILL = "---\nname: steep-tea\ndescription: Steep green tea in hot water.\n---\nUse 80 C.\n"


@pytest.fixture
def pack(tmp_path):
    def make(name):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("steep-tea/SKILL.md", SKILL)
        return tmp_path / name

    return make


@pytest.fixture
def index(cli):
    """Index roots with a model that loads nothing."""

    def run(*args):
        result = cli("index", "--model", "hashing", *args)
        assert result.exit_code == 0, result.stderr

    return run


@pytest.fixture
def cache(cli):
    def run(*args):
        result = cli("cache", "--json", *args)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return run


def kinds(entries):
    return [(entry["kind"], entry["path"].rpartition("/")[2]) for entry in entries]


def age(path, days=30.1):
    """Make a file, or all that is in a folder, look as if it was used last so long ago."""
    when = time.time() - days * 24 * 3600
    for inner in (*path.rglob("*"), path):
        os.utime(inner, (when, when), follow_symlinks=False)


def write(path, size=10):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    return path


def everything(folder):
    return {p: p.is_file() and p.read_bytes() for p in folder.rglob("*")}


def test_an_empty_cache_is_shown(cli, cache):
    assert cache() == {
        "folder": str(cache_dir().resolve()),
        "bytes": 0,
        "entries": [],
        "removed": [],
    }
    assert cli("cache", "--clear").stdout == ""
    assert not cache_dir().exists()
    result = cli("cache", "--prune", "--clear")
    assert result.exit_code == 2
    assert "one of --prune and --clear" in result.stderr


def test_all_that_lies_there_is_shown_with_what_needs_it(index, cache, pack, tmp_path, drinks):
    index(pack("tea.zip"))
    index(pack("tea.zip"), "--index-dir", tmp_path / "elsewhere")
    index(drinks, "--index-dir", index_dir_for([drinks], "hashing"))
    for name in ("models/a.bin", "maps/a.json", "evaluation/c/x", "matplotlib/fonts"):
        write(cache_dir() / name)
    for name in ("artifacts/a", "foreign/x"):
        write(cache_dir() / name)
    os.link(cache_dir() / "evaluation" / "c" / "x", cache_dir() / "evaluation" / "c" / "y")
    listing = cache()
    archive = folder_of(tmp_path / "tea.zip").parent
    assert set(kinds(listing["entries"])) == {
        ("index", "default"),
        ("index", index_dir_for([drinks], "hashing").name),
        ("archive", archive.name),
        ("model", "a.bin"),
        ("map", "a.json"),
        ("evaluation", "c"),
        ("library", "matplotlib"),
        ("vectors", "embeddings"),
        ("kept", "artifacts"),
        ("other", "foreign"),
    }
    by_kind = {entry["kind"]: entry for entry in listing["entries"]}
    assert by_kind["evaluation"]["bytes"] == by_kind["model"]["bytes"] == 10
    assert by_kind["archive"]["about"] == str(tmp_path / "tea.zip")
    assert by_kind["archive"]["used_by"] == [str(default_index_dir()), str(tmp_path / "elsewhere")]
    needed = {entry["about"]: entry["used_by"] for entry in listing["entries"]}
    assert needed[str(drinks)] == []
    assert listing["bytes"] == sum(entry["bytes"] for entry in listing["entries"])


def test_rows_are_for_programs_and_tables_for_people(
    index, cli, pack, tmp_path, terminal, monkeypatch
):
    index(pack("tea.zip"))
    rows = [line.split("\t") for line in cli("cache").stdout.splitlines()]
    (archive,) = [row for row in rows if row[0] == "archive"]
    today = time.strftime("%Y-%m-%d")
    folder = folder_of(tmp_path / "tea.zip").parent
    assert archive[2:] == [today, str(folder), str(tmp_path / "tea.zip"), str(default_index_dir())]
    terminal()
    monkeypatch.setenv("COLUMNS", "400")
    table = cli("cache").stdout
    assert f"{tmp_path / 'tea.zip'}; needed by {default_index_dir()}" in table
    assert str(folder) not in table


@pytest.mark.parametrize(("days", "is_kept"), [(29.9, True), (30.1, False)])
def test_what_nothing_needs_is_pruned_after_thirty_days(cache, pack, drinks, index, days, is_kept):
    local_root(pack("tea.zip"))
    other = index_dir_for([drinks], "hashing")
    index(drinks, "--index-dir", other)
    for name in ("models/a.bin", "evaluation/c/x", "torch/x"):
        write(cache_dir() / name)
    age(cache_dir(), days)
    before = kinds(cache()["entries"])
    assert len(before) == 6
    listing = cache("--prune")
    assert kinds(listing["entries"]) == (before if is_kept else [])
    assert kinds(listing["removed"]) == ([] if is_kept else before)


def test_index_prunes_archives_that_no_index_is_over(index, cli, pack, tmp_path, drinks):
    needed, left = pack("needed.zip"), pack("left.zip")
    elsewhere = ("--index-dir", tmp_path / "elsewhere")
    index(needed, *elsewhere)
    index(left)
    age(cache_dir())
    index(drinks, "--replace")
    assert folder_of(needed).is_dir()
    assert not folder_of(left).parent.exists()
    assert cli("show", "steep-tea", "--body", *elsewhere).stdout == "Use 80 C.\n"
    shutil.rmtree(tmp_path / "elsewhere")
    age(cache_dir())
    index(drinks)
    assert list((cache_dir() / "roots").iterdir()) == []


def test_an_index_that_cannot_be_read_may_need_an_archive(index, cache, pack, tmp_path):
    index(pack("tea.zip"), "--index-dir", tmp_path / "elsewhere")
    write(tmp_path / "elsewhere" / "request.json")
    assert kinds(cache("--clear")["removed"]) == [("vectors", "embeddings")]
    shutil.rmtree(tmp_path / "elsewhere")
    assert [kind for kind, _ in kinds(cache("--clear")["removed"])] == ["archive"]


def test_a_library_over_an_archive_keeps_it(cache, pack):
    from skillsearch import SkillLibrary

    folder = local_root(pack("tea.zip"))
    library = SkillLibrary.from_roots([folder], model="hashing")
    assert [hit.name for hit in library.search("green tea", threshold=0)] == ["steep-tea"]
    (archive,) = [entry for entry in cache()["entries"] if entry["kind"] == "archive"]
    assert archive["used_by"] == [str(index_dir_for([folder], "hashing"))]


def test_clear_leaves_what_is_needed(index, cache, cli, pack, tmp_path, drinks, monkeypatch):
    tea, coffee = pack("tea.zip"), pack("coffee.zip")
    mine, other = cache_dir() / "mine", index_dir_for([folder_of(coffee)], "hashing")
    index(drinks)
    index(tea, "--index-dir", mine)
    index(coffee, "--index-dir", other)
    write(cache_dir() / "artifacts" / "a")
    write(cache_dir() / "models" / "a.bin")
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(mine))
    listing = cache("--clear")
    assert set(kinds(listing["removed"])) == {
        ("index", other.name),
        ("archive", folder_of(coffee).parent.name),
        ("model", "a.bin"),
        ("vectors", "embeddings"),
    }
    assert set(kinds(listing["entries"])) == {
        ("index", "default"),
        ("index", "mine"),
        ("archive", folder_of(tea).parent.name),
        ("kept", "artifacts"),
    }
    assert cli("status").exit_code == 0
    assert cli("show", "steep-tea", "--body").stdout == "Use 80 C.\n"


def test_an_index_that_the_daemon_holds_is_needed(cache, cli, index, drinks, runtime):
    other = index_dir_for([drinks], "hashing")
    index(drinks, "--index-dir", other)
    cli("daemon", "start")
    cli("query", "tea", "--index-dir", other)
    listing = cache("--clear")
    assert [entry["used_by"] for entry in listing["entries"]] == [["the daemon"]]


@pytest.mark.parametrize("kind", ["index", "archive", "evaluation"])
def test_what_a_process_writes_is_left(cache, index, pack, drinks, kind):
    folder = {
        "index": index_dir_for([drinks], "hashing"),
        "archive": folder_of(pack("tea.zip")).parent,
        "evaluation": cache_dir() / "evaluation" / "c" / "index-1",
    }[kind]
    if kind == "archive":
        local_root(pack("tea.zip"))
    else:
        index(drinks, "--index-dir", folder)
    with (folder / "lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert len(cache("--clear")["entries"]) == 1
    assert cache("--clear")["entries"] == []


def test_what_was_used_since_it_was_looked_at_is_left(pack):
    folder = local_root(pack("tea.zip"))
    age(cache_dir())
    entries = read_cache(cache_dir())
    local_root(pack("tea.zip"))
    assert list(remove_unused(entries)) == []
    assert folder.is_dir()
    assert KEPT_SECONDS == 30 * 24 * 3600


def test_a_removal_that_is_interrupted_leaves_nothing_half(cache, pack, monkeypatch):
    """A folder is moved away before it is removed; the next removal finishes the job."""
    folder = local_root(pack("tea.zip"))
    with monkeypatch.context() as patched:

        def die(path):
            raise KeyboardInterrupt

        patched.setattr(shutil, "rmtree", die)
        with pytest.raises(KeyboardInterrupt):
            list(remove_unused(read_cache(cache_dir()), 0))
    assert not folder.parent.exists()
    assert [kind for kind, _ in kinds(cache()["entries"])] == ["leftover"]
    assert cache("--prune")["entries"] == []
    assert local_root(pack("tea.zip")).is_dir()


@pytest.mark.parametrize("name", ["plain", "a\nb\tc", "\x1b[31mred", "\udcff", "x" * 200])
def test_links_are_not_followed_and_odd_names_are_shown(cli, cache, tmp_path, name):
    outside = write(tmp_path / "outside" / "file").parent
    write(outside / "generations" / "x")
    roots, odd = cache_dir() / "roots", cache_dir() / name
    for folder in (roots, cache_dir() / "models", cache_dir() / "evaluation", odd / "inner"):
        folder.mkdir(parents=True)
        (folder / name).symlink_to(outside)
    (cache_dir() / f"link{name[:9]}").symlink_to(outside)
    (odd / "lock").symlink_to(outside / "file")
    os.mkfifo(odd / "request.json")
    (roots / "d" / "used-by-x").mkdir(parents=True)
    os.mkfifo(roots / "d" / "ready.json")
    before = everything(outside)
    shown = cli("cache")
    assert shown.exit_code == 0
    assert "\x1b" not in shown.stdout
    cache("--clear")
    assert everything(outside) == before
    left = {(entry["kind"], entry["path"]) for entry in cache()["entries"]}
    assert {kind for kind, _ in left} == {"other"}
    assert ("other", visible(str(odd.resolve()))) in left


def test_the_key_to_indexes_of_projects_is_kept(cache):
    key = own_folder(cache_dir() / "elsewhere", cache_dir())
    assert kinds(cache("--clear")["entries"]) == [("kept", "key")]
    assert own_folder(cache_dir() / "elsewhere", cache_dir()) == key
