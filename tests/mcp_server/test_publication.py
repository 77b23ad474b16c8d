"""Which skills a library publishes, under which URIs, and why not the others."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillsearch.errors import SkillError
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.mcp_server.publication import Publisher, describe, read_published

LETTERS = "skill:/%.2eFf\\?#~ aroottea-SKILLmd\0é"


@pytest.fixture
def root(tmp_path, make_skill):
    root = tmp_path / "My Root"
    tea = make_skill(root, "steep-tea", "Steep tea.", license="MIT").parent
    (tea / "notes").mkdir()
    (tea / "notes" / "green tea.md").write_text("80 C")
    (tea / "notes" / "black.md").write_text("96 C")
    make_skill(root / "cups", "warm-cup", "Warm the cup.")
    make_skill(tea, "inner", "A skill inside a skill.")
    renamed = make_skill(root, "pour-water", "Pour water.").parent.rename(root / "Pouring")
    (renamed / "kettle.md").write_text("A kettle.")
    make_skill(root, "for-people", "Hidden.", **{"disable-model-invocation": True})
    make_skill(root, "Bad Name", "A bad name.")
    make_skill(root, "沏茶", "A name that is not ASCII.")
    make_skill(root, "lower", "Lower case.").rename(root / "lower" / "skill.md")
    (root / "broken").mkdir()
    (root / "broken" / "SKILL.md").write_text("---\nname: broken\ndescription: a: b: c\n---\n")
    return root


@pytest.fixture
def publisher(root):
    return Publisher(SkillLibrary.from_roots(root))


PUBLISHED = [
    "skill://my-root/Pouring/pour-water",
    "skill://my-root/cups/warm-cup",
    "skill://my-root/steep-tea",
    "skill://my-root/steep-tea/inner",
]


def uris(publisher, count=100):
    listed, after = [], None
    while True:
        manifests, after = publisher.page(after, count)
        assert len(manifests) <= count
        listed += [manifest.uri for manifest in manifests]
        if after is None:
            return listed


def answer_to(publisher, uri):
    try:
        return publisher.read(uri)
    except SkillError:
        return None


def files_of(publisher):
    manifests, _ = publisher.page(None, 1_000)
    return {file.uri: file for manifest in manifests for file in manifest.resources}


def test_each_skill_that_is_left_out_has_its_reason(publisher, root):
    problems = publisher.problems()
    assert [(Path(p.path).parent.name, p.code, p.severity) for p in problems] == [
        ("Bad Name", "name-characters", "warning"),
        ("broken", "frontmatter-unreadable", "warning"),
        ("for-people", "hidden", "note"),
        ("lower", "file-name-case", "warning"),
        ("沏茶", "name-not-ascii", "note"),
    ]
    assert all(str(root) not in problem.message for problem in problems)


def test_a_skill_that_another_shadows_is_not_published(tmp_path, make_skill):
    first, second = tmp_path / "a" / "skills", tmp_path / "b" / "skills"
    for root in (first, second):
        make_skill(root, "steep-tea", f"Steep tea of {root.parent.name}.")
    make_skill(second, "warm-cup", "Warm the cup.")
    publisher = Publisher(SkillLibrary.from_roots([first, second]))
    assert uris(publisher) == [
        "skill://a-skills/steep-tea/SKILL.md",
        "skill://b-skills/warm-cup/SKILL.md",
    ]
    (problem,) = publisher.problems()
    assert (problem.code, problem.severity) == ("shadowed", "note")
    assert "'a/skills:steep-tea'" in problem.message


def test_a_root_may_be_a_skill_itself(tmp_path, make_skill):
    root = make_skill(tmp_path, "steep-tea", "Steep tea.").parent
    make_skill(root, "inner", "Inside.")
    publisher = Publisher(SkillLibrary.from_roots(root))
    assert uris(publisher) == ["skill://steep-tea/SKILL.md", "skill://steep-tea/inner/SKILL.md"]
    assert publisher.read("skill://steep-tea/SKILL.md") == (root / "SKILL.md").read_bytes()


def test_a_skill_inside_a_renamed_one_keeps_every_file_readable(tmp_path, make_skill):
    outer = make_skill(tmp_path / "root", "outer", "Outer.").parent.rename(tmp_path / "root" / "x")
    inner = make_skill(outer, "inner", "Inner.").parent.rename(outer / "y")
    (inner / "file.md").write_text("text")
    publisher = Publisher(SkillLibrary.from_roots(tmp_path / "root"))
    files = files_of(publisher)
    assert sorted(files) == [
        "skill://root/x/outer/SKILL.md",
        "skill://root/x/outer/y/SKILL.md",
        "skill://root/x/outer/y/file.md",
        "skill://root/x/y/inner/SKILL.md",
        "skill://root/x/y/inner/file.md",
    ]
    for uri, file in files.items():
        assert len(publisher.read(uri)) == file.size


STRANGE = [
    "",
    "steep-tea",
    "skill://my-root",
    "skill://my-root/SKILL.md",
    "skill://my-root/steep-tea//SKILL.md",
    "skill://my-root/steep-tea/../Bad%20Name/SKILL.md",
    "skill://my-root/steep-tea/%2e%2e/Bad%20Name/SKILL.md",
    "skill://my-root/steep-tea/..%2FBad%20Name%2FSKILL.md",
    "skill://my-root/steep-tea/notes%2Fblack.md",
    "skill://my-root/steep-tea/notes/green%2520tea.md",
    "skill://my-root/steep-tea/SKILL.md\0",
    "skill://my-root/steep-tea/SKILL.md?x",
    "skill://my-root/Bad%20Name/SKILL.md",
    "skill://my-root/for-people/SKILL.md",
    "skill://my-root/Pouring/SKILL.md",
    "skill://other/steep-tea/SKILL.md",
    "file:///etc/passwd",
    "skill://my-root/steep-tea/\ud800",
    "skill://my-root/steep-tea/" + "a" * 20_000,
]


@pytest.mark.parametrize("uri", STRANGE, ids=range(len(STRANGE)))
def test_nothing_else_is_served(publisher, root, uri):
    for ask in (publisher.read, publisher.manifest, publisher.children):
        with pytest.raises(SkillError) as caught:
            ask(uri)
        message = str(caught.value)
        assert str(root.parent) not in message
        assert len(message) < 2_000
        assert "\n" not in message
        message.encode()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_uri_leads_out(publisher, root, data):
    start = data.draw(st.sampled_from([*(f"{uri}/" for uri in PUBLISHED), "skill://my-root/", ""]))
    parts = st.sampled_from(["..", ".", "%2e%2e", "%2F", "SKILL.md", "notes", "black.md", "%00"])
    tail = data.draw(st.lists(parts, max_size=6).map("/".join) | st.text(LETTERS, max_size=20))
    served = answer_to(publisher, start + tail)
    if served is not None:
        digests = {file.digest for file in files_of(publisher).values()}
        assert f"sha256:{hashlib.sha256(served).hexdigest()}" in digests


def test_the_folders_of_a_skill_are_listed(publisher, root):
    folder = root / "steep-tea"
    (folder / "empty").mkdir()
    (folder / "link").symlink_to(root)
    (folder / ".git").mkdir()
    (folder / ".git" / "config").touch()
    uri = "skill://my-root/steep-tea"
    size = (folder / "SKILL.md").stat().st_size
    assert publisher.children(uri) == [
        (f"{uri}/SKILL.md", "SKILL.md", size),
        (f"{uri}/inner", "inner", None),
        (f"{uri}/notes", "notes", None),
    ]
    assert publisher.children(f"{uri}/notes") == [
        (f"{uri}/notes/black.md", "black.md", 4),
        (f"{uri}/notes/green%20tea.md", "green tea.md", 4),
    ]
    assert [name for _, name, _ in publisher.children(f"{uri}/inner")] == ["SKILL.md"]


@pytest.mark.parametrize(
    "uri",
    [
        "skill://my-root/cups",
        "skill://my-root/Pouring",
        "skill://my-root/steep-tea/note",
        "skill://my-root/steep-tea/SKILL.md",
        "skill://my-root/steep-tea/empty",
        "skill://my-root/steep-tea/notes/..",
    ],
)
def test_what_is_no_folder_of_a_skill_is_not_listed(publisher, uri):
    with pytest.raises(SkillError, match="is not a directory of a served skill"):
        publisher.children(uri)


def test_a_page_begins_behind_a_skill_that_is_gone(publisher):
    manifests, after = publisher.page("skill://my-root/cups/zzz", 1)
    assert [manifest.uri for manifest in manifests] == [f"{PUBLISHED[2]}/SKILL.md"]
    assert after == f"{PUBLISHED[2]}/SKILL.md"
    assert publisher.page("skill://z", 10) == ((), None)


def test_a_page_of_many_files_ends_early(root):
    publisher = Publisher(SkillLibrary.from_roots(root), max_page_files=3)
    manifests, after = publisher.page(None, 100)
    assert [manifest.uri for manifest in manifests] == [f"{uri}/SKILL.md" for uri in PUBLISHED[:2]]
    assert after == f"{PUBLISHED[1]}/SKILL.md"
    assert uris(publisher) == [f"{uri}/SKILL.md" for uri in PUBLISHED]


def test_a_page_looks_at_its_own_skills_only(tmp_path, make_skill):
    for number in range(30):
        make_skill(tmp_path / "root", f"skill-{number:02}", f"Skill {number}.")
    looked = []

    def read(published, path):
        looked.append(published.folder.name)
        return read_published(published, path)

    library = SkillLibrary.from_roots(tmp_path / "root")
    publisher = Publisher(library, read=read)
    publisher.page("skill://root/skill-09/SKILL.md", 10)
    assert looked == [f"skill-{number:02}" for number in range(10, 20)]


def test_a_refresh_follows_the_library(root, make_skill):
    library = SkillLibrary.from_roots(root)
    publisher = Publisher(library)
    assert not publisher.refresh()
    assert not publisher.refresh()
    make_skill(root, "a-new-one", "New.")
    assert not publisher.refresh()
    library.refresh()
    assert "skill://my-root/a-new-one/SKILL.md" not in uris(publisher)
    assert publisher.refresh()
    assert "skill://my-root/a-new-one/SKILL.md" in uris(publisher)
    assert not publisher.refresh()


def test_a_refresh_that_finds_the_same_skills_tells_of_no_change(root):
    library = SkillLibrary.from_roots(root)
    publisher = Publisher(library)
    publisher.refresh()
    (root / "steep-tea" / "SKILL.md").touch()
    (root / "another-folder").mkdir()
    library.refresh()
    assert not publisher.refresh()


def test_the_summary_counts_by_reason(root):
    summary, unfit = describe(SkillLibrary.from_roots(root))
    assert summary == (
        "published: 4 of 9 skills; not published: name-characters 1, frontmatter-unreadable 1,"
        " hidden 1, file-name-case 1, name-not-ascii 1"
    )
    colon = (
        "The value of 'description' holds an unquoted colon; it was read as text, put it in quotes"
    )
    assert unfit == [
        f"{root / 'Bad Name' / 'SKILL.md'} (The name 'Bad Name' should hold only lowercase letters,"
        " digits and hyphens)",
        f"{root / 'broken' / 'SKILL.md'} ({colon})",
        f"{root / 'lower' / 'skill.md'} (Its file is not named 'SKILL.md'; rename it)",
    ]
