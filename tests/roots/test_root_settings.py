"""Archives and URLs as roots in the settings, and ``SKILLS_ROOT``."""

from pathlib import Path

import pytest

from skillsearch.errors import ConfigError
from skillsearch.settings.config import load_settings
from skillsearch.settings.user_folders import user_file


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "roots"),
    [
        ("https://x.org/a.zip", ["https://x.org/a.zip"]),
        ("https://x.org:8080/a.zip:/srv/b.zip", ["https://x.org:8080/a.zip", "/srv/b.zip"]),
        ("http://[::1]:80/a:http://[::1]/b", ["http://[::1]:80/a", "http://[::1]/b"]),
        ("https://user:secret@x.org/a:/srv", ["https://user:secret@x.org/a", "/srv"]),
        ("file:///srv/a.zip:/opt", ["file:///srv/a.zip", "/opt"]),
        ("/a::/b:", ["/a", "/b"]),
        ("/with https://in", ["/with https", "//in"]),
    ],
)
def test_the_colons_of_a_url_part_no_roots(here, monkeypatch, text, roots):
    monkeypatch.setenv("SKILLSEARCH_ROOTS", text)
    assert [str(root) for root in load_settings().roots] == [
        str(Path(r)) if "://" not in r else r for r in roots
    ]


def test_the_user_s_own_file_may_name_anything(here):
    file = user_file()
    file.parent.mkdir(parents=True)
    file.write_text('roots = ["drinks.zip", "https://x.org/a.zip", "/srv"]\n')
    expected = (file.parent / "drinks.zip", "https://x.org/a.zip", Path("/srv"))
    assert load_settings().roots == expected


@pytest.mark.parametrize(
    "root", ["https://x.org/a.zip", "file:///etc", "../up.zip", "/srv/a.zip", "link.zip"]
)
def test_a_project_file_names_no_url_and_no_archive_outside(here, root):
    """A checkout makes nobody download or unpack what lies elsewhere."""
    (here / "link.zip").symlink_to("/srv/a.zip")
    (here / "skillsearch.toml").write_text(f'roots = ["{root}"]\n')
    with pytest.raises(ConfigError, match="a project file may"):
        load_settings()


def test_a_project_file_may_name_an_archive_of_its_own(here):
    (here / "skillsearch.toml").write_text('roots = ["packs/a.zip"]\n')
    assert load_settings().roots == (here / "packs" / "a.zip",)


@pytest.mark.usefixtures("default_reader")
@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("https://x.org:80/a.zip", "https://x.org:80/a.zip"),
        ("/srv/a:b", Path("/srv/a:b")),
        ("~/skills", Path("~/skills").expanduser),
    ],
)
def test_skills_root_names_one_root(here, monkeypatch, text, root):
    monkeypatch.setenv("SKILLS_ROOT", text)
    settings = load_settings()
    assert settings.roots == (root() if callable(root) else root,)
    assert settings.sources == {"roots": "SKILLS_ROOT"}


def test_skills_root_counts_only_where_no_setting_names_roots(here, monkeypatch):
    monkeypatch.setenv("SKILLS_ROOT", "/seed")
    (here / "skillsearch.toml").write_text('roots = ["mine"]\n')
    assert load_settings().roots == (here / "mine",)
    monkeypatch.setenv("SKILLSEARCH_ROOTS", "/variable")
    assert load_settings().roots == (Path("/variable"),)


def test_skills_root_is_read_from_the_variables_that_are_given(here, monkeypatch):
    """The variables of another process, if it asks."""
    monkeypatch.setenv("SKILLS_ROOT", "/mine")
    assert load_settings(variables={}).roots == ()
    assert load_settings(variables={"SKILLS_ROOT": "/theirs"}).roots == (Path("/theirs"),)
