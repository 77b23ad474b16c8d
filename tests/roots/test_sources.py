"""How roots are written, and which folder stands for them."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import RootError
from skillsearch.index.skill_index import SkillIndex
from skillsearch.roots.bundles import local_root, local_roots
from skillsearch.roots.sources import (
    WELL_KNOWN,
    added_source,
    folder_of,
    is_bundle,
    shown,
    source_behind,
    source_of,
)
from skillsearch.settings.user_folders import cache_dir


@pytest.mark.parametrize(
    ("names", "is_one"),
    [
        ("a.zip A.ZIP a.tar a.tar.gz a.tgz a.tar.bz2 a.tar.xz gone.zip", True),
        ("skills skills.gz zip SKILL.md a.tar.lz", False),
    ],
)
def test_an_archive_is_told_by_its_name(tmp_path, names, is_one):
    for name in names.split():
        assert is_bundle(str(tmp_path / name)) == is_bundle(tmp_path / name) == is_one
    assert not is_bundle(tmp_path)


@pytest.mark.parametrize(
    "url", ["https://x.org/a", "HTTP://x.org", "ftp://x.org/a.zip", "https://x.org/SKILL.md"]
)
def test_a_url_is_a_bundle_of_whatever_scheme(url):
    """A scheme that cannot be fetched is reported when it is fetched."""
    assert is_bundle(url)


def test_a_folder_named_like_an_archive_is_a_folder(tmp_path):
    (tmp_path / "skills.zip").mkdir()
    assert not is_bundle(tmp_path / "skills.zip")
    assert local_root(tmp_path / "skills.zip") == tmp_path / "skills.zip"


@pytest.mark.parametrize(
    ("root", "source"),
    [
        ("https://x.org/a.zip#part", "https://x.org/a.zip"),
        ("HTTPS://x.org/A.zip?b=1", "https://x.org/A.zip?b=1"),
        ("file:///srv/a%20b.zip", "/srv/a b.zip"),
        ("file://localhost/srv/skills", "/srv/skills"),
        ("FILE:///srv/a.zip", "/srv/a.zip"),
        ("/srv/a.zip", "/srv/a.zip"),
    ],
)
def test_a_root_has_one_way_to_be_written(root, source):
    assert source_of(root) == source
    assert source_of(source) == source


@given(st.lists(st.sampled_from(["~", "..", ".", "a", "a.zip", "#folder=b", "file:", " "])))
def test_an_absolute_path_is_the_same_root_as_its_text(parts):
    path = Path("/", *parts)
    assert source_of(path) == source_of(str(path)) == str(path)
    assert folder_of(path) == folder_of(str(path))
    assert is_bundle(path) == is_bundle(str(path))


def test_a_path_is_taken_from_the_working_folder_or_home(tmp_path, monkeypatch, home):
    monkeypatch.chdir(tmp_path)
    assert source_of("a.zip") == str(tmp_path / "a.zip")
    assert source_of(Path("~/a.zip")) == str(home / "a.zip")
    assert source_of("~nobody-of-that-name/a") == str(tmp_path / "~nobody-of-that-name/a")


@pytest.mark.parametrize("url", ["file://server/share/a.zip", "file://", "file://localhost"])
def test_a_file_of_another_machine_is_refused(url):
    with pytest.raises(
        RootError, match=r"does not name a file on this machine; write file:///PATH\."
    ):
        source_of(url)


@pytest.mark.parametrize(
    ("root", "name"),
    [
        ("/srv/my skills.tar.gz", "my-skills"),
        ("/srv/工具.zip", "工具"),
        ("/srv/..zip", "skills"),
        ("https://x.org/packs/drinks.tgz?key=1", "drinks"),
        ("https://x.org/o/r/zip/refs/heads/main", "main"),
        ("https://x.org/skills/steep-tea/SKILL.md", "steep-tea"),
        ("https://x.org/SKILL.md", "skills"),
        ("https://x.org", "skills"),
        ("https://x.org/%2e%2e%2fetc.zip", "etc"),
        ("https://x.org/a%00b%0a.zip", "a-b"),
        ("https://[x", "skills"),
        ("https://x.org/" + "n" * 300 + ".zip", "n" * 60),
    ],
)
def test_the_folder_of_a_bundle_is_named_after_it(root, name):
    folder = folder_of(root)
    assert folder.name == name
    assert folder.parent.parent == cache_dir() / "roots"


@given(st.text(max_size=80), st.sampled_from(["https://x.org/", "https://", "/srv/"]))
def test_whatever_the_source_its_folder_lies_in_the_cache(text, start):
    folder = folder_of(f"{start}{text}.zip")
    assert folder.parent.parent == cache_dir() / "roots"
    assert 0 < len(os.fsencode(folder.name)) <= 255
    assert folder.name not in {".", ".."}
    assert "/" not in folder.name


def test_each_source_has_a_folder_of_its_own():
    folders = {folder_of(f"https://{host}/a.zip") for host in ("x.org", "y.org", "x.org:8080")}
    assert len(folders) == 3
    assert folder_of("https://x.org/a.zip") in folders


def test_plain_folders_are_returned_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders, sources = local_roots(["here", tmp_path / "gone"])
    assert folders == (tmp_path / "here", tmp_path / "gone")
    assert sources == ()
    assert not cache_dir().exists()


def test_sources_are_kept_for_all_roots_where_one_is_a_bundle(pack, tmp_path):
    archive = pack("drinks.zip")
    folders, sources = local_roots([tmp_path, archive])
    assert folders == (tmp_path, folder_of(archive))
    assert sources == (str(tmp_path), str(archive))


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://user:secret@x.org/a.zip", "https://x.org/a.zip"),
        ("https://x.org:80/a?token=secret#secret", "https://x.org:80/a?..."),
        ("https://x.org/a\x1b[31m\u202e.zip", "https://x.org/a[31m.zip"),
        ("https://[x/secret", "The URL"),
        ("/srv/a.zip", "/srv/a.zip"),
    ],
)
def test_messages_show_no_password_and_no_key(url, text):
    assert shown(url) == text


def test_what_a_folder_was_unpacked_from_can_be_told(pack, tmp_path):
    archive = pack("drinks.zip")
    folder = local_root(archive)
    assert source_behind(folder) == str(archive)
    assert source_behind(tmp_path) == ""
    os.mkfifo(tmp_path / "ready.json")
    assert source_behind(tmp_path / "root") == ""
    (folder.parent / "ready.json").write_text("[]")
    assert source_behind(folder) == ""


GITHUB = "https://github.com/owner/repo/archive"


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("owner/repo", f"{GITHUB}/HEAD.zip"),
        ("owner/repo@v1.2", f"{GITHUB}/v1.2.zip"),
        ("owner/repo/skills/pdf", f"{GITHUB}/HEAD.zip#folder=skills/pdf"),
        ("owner/repo@main/skills", None),
        ("git@github.com:owner/repo.git", f"{GITHUB}/HEAD.zip"),
        ("https://skills.example.com", f"https://skills.example.com{WELL_KNOWN}"),
        ("https://skills.example.com/", f"https://skills.example.com{WELL_KNOWN}"),
        ("https://x.example/pack.zip", "https://x.example/pack.zip"),
        ("mcp+https://x.example/mcp", "mcp+https://x.example/mcp"),
    ],
)
def test_what_people_name_means_a_source(name, source):
    assert added_source(name) == (source or f"{GITHUB}/main/skills.zip")


GITLAB, CODEBERG = "https://gitlab.com/owner/repo", "https://codeberg.org/owner/repo"
HEAD = "archive/HEAD.zip"
IN_GITLAB = "-/archive/{0}/repo-{0}.zip".format
FORGE_URLS = {
    "https://github.com/owner/repo": {
        # A repository, however its page is reached.
        **dict.fromkeys(("", "/", ".git", "?tab=readme-ov-file", "/?tab=readme#use", "#use"), HEAD),
        "@v1.2": "archive/v1.2.zip",
        "#folder=skills/pdf": f"{HEAD}#folder=skills/pdf",
        # A state of it, and a folder there.
        "/tree/main": "archive/main.zip",
        "/tree/v1.2/": "archive/v1.2.zip",
        "/tree/main/skills": "archive/main.zip#folder=skills",
        "/tree/main/my%20skills/pdf?x=1": "archive/main.zip#folder=my%20skills/pdf",
        "/commit/0a1b2c": "archive/0a1b2c.zip",
        "/releases/tag/v1.2": "archive/v1.2.zip",
        # The page of a SKILL.md is the folder of that skill.
        "/blob/main/skills/pdf/SKILL.md": "archive/main.zip#folder=skills/pdf",
        "/blob/main/SKILL.md?plain=1": "archive/main.zip",
        # Files, and pages that show no folder, are taken as they are.
        **dict.fromkeys(
            (
                *("/archive/main.zip", "/archive/refs/heads/main.zip"),
                *("/archive/refs/tags/v1.tar.gz", "/archive/HEAD.zip#folder=a", "/zipball/main"),
                *("/releases/download/v1/x.zip", "/releases/latest/download/x.tar.gz"),
                *("/raw/main/SKILL.md", "/raw/refs/heads/main/a/SKILL.md"),
                *("/blob/main/README.md", "/issues", "/issues/7", "/releases", "/wiki/tree"),
            )
        ),
    },
    GITLAB: {
        **dict.fromkeys(("", "/", ".git", "?ref_type=heads"), IN_GITLAB("HEAD")),
        "@v1": IN_GITLAB("v1"),
        "/-/tree/main": IN_GITLAB("main"),
        "/tree/main/a": IN_GITLAB("main") + "#folder=a",
        "/-/tree/main/skills/pdf?ref_type=heads": IN_GITLAB("main") + "#folder=skills/pdf",
        "/-/blob/main/pdf/SKILL.md": IN_GITLAB("main") + "#folder=pdf",
        "/-/commit/0a1b2c": IN_GITLAB("0a1b2c"),
        "/-/releases/v1": IN_GITLAB("v1"),
        "/-/tags/v1": IN_GITLAB("v1"),
        **dict.fromkeys(
            ("/-/archive/main/repo-main.zip", "/-/raw/main/SKILL.md", "/-/issues", "/-/releases")
        ),
    },
    "https://gitlab.com/group/inner/repo": {
        "": IN_GITLAB("HEAD"),
        "/-/tree/main/a": IN_GITLAB("main") + "#folder=a",
    },
    CODEBERG: {
        **dict.fromkeys(("", "/", ".git"), HEAD),
        "/src/branch/main": "archive/main.zip",
        "/src/branch/main/skills/pdf": "archive/main.zip#folder=skills/pdf",
        "/src/branch/main/skills/pdf/SKILL.md": "archive/main.zip#folder=skills/pdf",
        "/src/tag/v1/skills": "archive/v1.zip#folder=skills",
        "/src/commit/0a1b2c": "archive/0a1b2c.zip",
        "/releases/tag/v1": "archive/v1.zip",
        **dict.fromkeys(
            ("/archive/main.zip", "/raw/branch/main/SKILL.md", "/releases/download/v1/x.zip")
        ),
    },
}


@pytest.mark.parametrize(
    ("page", "rest", "source"),
    [(page, *pair) for page, pairs in FORGE_URLS.items() for pair in pairs.items()],
)
def test_a_url_of_a_forge_means_what_it_shows(page, rest, source):
    wanted = f"{page}/{source}" if source else f"{page}{rest}"
    bare = page.removeprefix("https://")
    host, _, path = bare.partition("/")
    spellings = [page, bare, f"git+{page}", f"git://{bare}"]
    if source:
        spellings += [f"https://www.{bare}", f"www.{bare}", f"https://{host.upper()}/{path}"]
    for spelling in spellings:
        assert added_source(f"{spelling}{rest}") == wanted


@pytest.mark.parametrize(
    "text",
    ["example.com/a/b", "a", "/a/b.zip", "a/b?c", "a/b/../../c#d", "-/-", "a//b", "~nouser/a"],
)
def test_what_is_no_source_is_refused(text):
    with pytest.raises(
        RootError, match="is neither a folder or archive that exists here nor a source"
    ):
        added_source(text)


@pytest.mark.parametrize("roots", ["", ["skills", ""]])
def test_an_empty_root_is_not_the_working_folder(make_skill, tmp_path, monkeypatch, roots):
    make_skill(tmp_path / "skills")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RootError, match=r"empty; name a path, or \. for this folder"):
        SkillIndex.from_roots(roots, model="hashing")


def test_a_folder_that_is_there_is_meant_before_a_repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "repo").mkdir(parents=True)
    assert added_source("owner/repo") == str(tmp_path / "owner" / "repo")
    with pytest.raises(RootError, match="write OWNER/REPO, a URL"):
        added_source("nothing")
