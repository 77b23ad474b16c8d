"""All skills of an environment: found by name, loaded on demand, kept up to date."""

import gc
from pathlib import Path

import pytest

from skillsearch.errors import (
    AmbiguousNameError,
    ParseError,
    QueryError,
    SkillError,
    SkillNotFoundError,
)
from skillsearch.index.indexing.changes import Changes
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.load_order import Missing
from skillsearch.library.skill_library import SkillLibrary


@pytest.fixture
def project(tmp_path, make_skill):
    root = tmp_path / "project"
    folder = make_skill(
        root, "fill-pdf", "Fill in PDF forms.", body="# Fill\n\nList fields."
    ).parent
    for path, text in {
        "references/fields.md": "all fields",
        "notes.TXT": "a note",
        "scripts/fill.py": "print('fill')",
        "assets/logo.bin": "\0\1",
    }.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    make_skill(root, "steep-tea", "Steep green tea.", body="Use 80 C.")
    make_skill(root, "old-way", "Not for models.", **{"disable-model-invocation": True})
    return root


@pytest.fixture
def user(tmp_path, make_skill):
    root = tmp_path / "user"
    make_skill(root, "steep-tea", "Steep black tea.", body="Use 96 C.")
    make_skill(root, "rotate-keys", "Rotate API keys that leaked.")
    return root


@pytest.fixture
def checks_disk():
    return True


@pytest.fixture
def library(project, user, tmp_path, checks_disk):
    return SkillLibrary.from_roots(
        [project, user], index_dir=tmp_path / "index", model="hashing", checks_disk=checks_disk
    )


@pytest.fixture
def saved(project, user, tmp_path, checks_disk):
    SkillIndex.from_roots([project, user], index_dir=tmp_path / "saved", model="hashing")
    return SkillLibrary.open(tmp_path / "saved", checks_disk=checks_disk)


@pytest.fixture(params=["library", "saved"])
def either(request):
    return request.getfixturevalue(request.param)


def names(documents):
    return [document.name for document in documents]


def test_the_list_is_sorted_without_shadowed_skills_and_without_hidden_ones_by_default(
    either,
):
    assert names(either.list()) == ["fill-pdf", "rotate-keys", "steep-tea"]
    assert either.list()[2].description == "Steep green tea."
    listed = names(either.list(include_hidden=True))
    assert listed == ["fill-pdf", "old-way", "rotate-keys", "steep-tea"]


def test_the_first_root_wins_and_the_other_skill_is_reported(either):
    assert either.get("steep-tea").body == "Use 80 C."
    (shadowed,) = either.shadowed()
    assert shadowed.document.doc_id == "user:steep-tea"
    assert shadowed.by.doc_id == "project:steep-tea"


def test_a_miss_names_the_nearest(either):
    with pytest.raises(SkillNotFoundError) as caught:
        either.find("fil-pdf")
    assert caught.value.nearest[0] == "fill-pdf"


def test_the_nearest_names_are_at_most_five(tmp_path, make_skill):
    for number in range(9):
        make_skill(tmp_path / "r", f"report-{number}")
    with pytest.raises(SkillNotFoundError) as caught:
        SkillLibrary.from_roots(tmp_path / "r").find("report")
    assert len(caught.value.nearest) == 5


def test_skills_that_nothing_tells_apart_are_ambiguous(tmp_path, make_skill):
    """Two of one name in one root do not shadow each other; each is found by its id."""
    for category in ("a", "b"):
        make_skill(tmp_path / "r" / category, "twin")
    library = SkillLibrary.from_roots(tmp_path / "r")
    with pytest.raises(AmbiguousNameError):
        library.find("twin")
    assert library.shadowed() == ()
    assert [library.handle(document) for document in library.list()] == ["r:a/twin", "r:b/twin"]


def test_a_handle_is_the_name_where_that_is_enough(either):
    assert either.handle(either.find("rotate-keys")) == "rotate-keys"
    assert either.handle(either.find("user:steep-tea")) == "user:steep-tea"


def test_the_newest_version_of_a_root_is_meant(tmp_path, make_skill):
    for folder, version in (("one", "1.2.0"), ("ten", "1.10.0"), ("two", "2.0.0rc1")):
        make_skill(tmp_path / "r" / folder, "pdf", version=version)
    library = SkillLibrary.from_roots(tmp_path / "r")
    assert library.find("pdf").version == "1.10.0"
    assert library.find("pdf@<1.10").version == "1.2.0"
    assert names(library.list()) == ["pdf"]
    assert {shadowed.document.version for shadowed in library.shadowed()} == {"1.2.0", "2.0.0rc1"}


def test_a_skill_is_found_by_its_folder(tmp_path, make_skill):
    make_skill(tmp_path / "r" / "x", "pdf").parent.rename(tmp_path / "r" / "Folder")
    library = SkillLibrary.from_roots(tmp_path / "r")
    document = library.in_folder("folder")
    assert document is not None
    assert document.name == "pdf"
    assert library.in_folder("pdf") is None


def test_loading_gives_body_files_and_frontmatter(either):
    loaded = either.load("fill-pdf")
    assert loaded.skill.body == "# Fill\n\nList fields."
    assert loaded.files == (
        "assets/logo.bin",
        "notes.TXT",
        "references/fields.md",
        "scripts/fill.py",
    )
    assert (loaded.stale, loaded.files_truncated) == (False, False)
    assert loaded.folder.name == "fill-pdf"


@pytest.mark.parametrize("checks_disk", [True, False])
def test_a_changed_skill_is_served_and_flagged_if_it_is_not_indexed(either, project, checks_disk):
    path = project / "fill-pdf" / "SKILL.md"
    assert not either.load("fill-pdf").stale
    path.write_text(path.read_text() + "\nMore.\n")
    loaded = either.load("fill-pdf")
    assert loaded.stale is not checks_disk
    assert loaded.skill.body.endswith("More.")


def test_a_refresh_tells_what_came_changed_and_went(either, project, make_skill):
    make_skill(project, "new-one")
    (project / "old-way" / "SKILL.md").unlink()
    assert either.refresh() == Changes(added=("project:new-one",), removed=("project:old-way",))
    assert "new-one" in names(either.list())


def test_nothing_changed_is_nothing_reported(library, project, user):
    assert library.refresh() == Changes()
    (project / "fill-pdf" / "SKILL.md").touch()
    assert library.refresh() == Changes()


def test_an_unchanged_disk_is_not_read_again(project, user):
    library = SkillLibrary.from_roots([project, user])
    assert library.is_current()
    before = library.list()
    for path in (project / "fill-pdf" / "SKILL.md", project / "steep-tea" / "SKILL.md"):
        path.chmod(0)
    assert library.refresh() == Changes()
    assert library.list() == before


def test_preloaded_skills_are_kept(tmp_path, make_skill):
    for number in range(40):
        make_skill(tmp_path / "r", f"s{number}")
    library = SkillLibrary.from_roots(tmp_path / "r")
    assert len(library.preload()) == 40
    before = [library.get(f"s{number}") for number in range(40)]
    assert all(library.get(f"s{number}") is before[number] for number in range(40))


def test_preloading_passes_over_what_cannot_be_read(library, project):
    (project / "steep-tea" / "SKILL.md").write_text("# No frontmatter")
    assert library.preload(["fill-pdf", "steep-tea"]) == ("project:fill-pdf",)


def test_a_file_is_read_in_pages(either):
    page = either.read("fill-pdf", "references/fields.md", offset=4, limit=3)
    assert (page.content, page.offset, page.next_offset, page.size) == ("fie", 4, 7, 10)
    first = either.read("fill-pdf", "references/fields.md", content_hash=page.content_hash)
    assert (first.content, first.stale) == ("all fields", False)


def test_a_file_that_changed_between_pages_is_flagged(library, project):
    page = library.read("fill-pdf", "notes.TXT")
    (project / "fill-pdf" / "notes.TXT").write_text("another")
    assert library.read("fill-pdf", "notes.TXT", content_hash=page.content_hash).stale


def test_search_leaves_out_shadowed_and_hidden_skills(either):
    """Loading a hit by its name must give that hit."""
    ids = {hit.doc_id for hit in either.search("steep tea old way models", 50, 0.0)}
    assert "project:steep-tea" in ids
    assert not ids & {"user:steep-tea", "project:old-way"}
    both = either.search("steep tea old way models", 50, 0.0, include_hidden=True)
    assert "project:old-way" in {hit.doc_id for hit in both}


def test_shadowed_skills_do_not_take_the_place_of_hits(tmp_path, make_skill):
    for root, count in (("first", 3), ("second", 3)):
        for number in range(count):
            make_skill(tmp_path / root, f"tea-{number}", f"Steep tea {number} {root}.")
    make_skill(tmp_path / "second", "tea-9", "Steep tea of the last kind.")
    library = SkillLibrary.from_roots(
        [tmp_path / "first", tmp_path / "second"], index_dir=tmp_path / "i", model="hashing"
    )
    hits = library.search("steep tea second", 4, 0.0)
    assert sorted(hit.name for hit in hits) == ["tea-0", "tea-1", "tea-2", "tea-9"]


def test_search_follows_a_refresh(library, project, make_skill):
    assert not [hit for hit in library.search("translate latin", 9, 0.0) if hit.name == "latin"]
    make_skill(project, "latin", "Translate Latin verse.")
    library.refresh()
    assert library.search("translate latin", threshold=0.0)[0].name == "latin"


def test_a_missing_root_is_reported_and_comes_later(tmp_path, make_skill):
    """An environment may start before its folder is there."""
    library = SkillLibrary.from_roots(tmp_path / "later")
    assert library.list() == ()
    assert [(d.code, d.severity) for d in library.diagnostics] == [("root-missing", "warning")]
    result = library.search("anything")
    assert (result.hits, result.abstained) == ((), True)
    with pytest.raises(QueryError):
        library.search("")
    make_skill(tmp_path / "later", "first-one")
    assert not library.is_current()
    assert len(library.refresh()) == 1
    assert names(library.list()) == ["first-one"]
    assert library.diagnostics == ()


def test_a_root_that_no_system_can_name_is_reported(tmp_path):
    library = SkillLibrary.from_roots(tmp_path / "a\0b")
    assert [d.code for d in library.diagnostics] == ["root-unreadable"]
    assert library.refresh() == Changes()


def test_no_skill_takes_the_id_of_another_as_its_name(library, project, make_skill):
    make_skill(project / "x", "decoy", "Not tea.").parent.joinpath("SKILL.md").write_text(
        "---\nname: user:steep-tea\ndescription: Not tea.\n---\n"
    )
    library.refresh()
    assert library.get("user:steep-tea").body == "Use 96 C."
    (decoy,) = [d for d in library.list() if d.description == "Not tea."]
    assert library.handle(decoy) == "project:user:steep-tea"
    assert library.find("project:user:steep-tea") == decoy


def test_a_broken_skill_stops_no_other(library, project):
    (project / "broken").mkdir()
    (project / "broken" / "SKILL.md").write_text("# No frontmatter")
    library.refresh()
    assert names(library.list()) == ["fill-pdf", "rotate-keys", "steep-tea"]
    (diagnostic,) = [d for d in library.diagnostics if d.severity == "error"]
    assert diagnostic.path.endswith("broken/SKILL.md")
    assert library.refresh() == Changes()
    assert diagnostic in library.diagnostics


def test_a_registered_skill_is_listed_found_and_read(library):
    document = library.register("---\nname: knit\ndescription: Knit socks.\n---\nPurl two.")
    assert document.doc_id == "registered:knit"
    assert library.get("knit").body == "Purl two."
    assert library.search("knit some socks", threshold=0.0)[0].name == "knit"


def test_a_registered_skill_comes_before_all_roots(library):
    library.register("---\nname: steep-tea\ndescription: Steep mate.\n---\nUse 70 C.")
    assert library.get("steep-tea").body == "Use 70 C."


def test_registering_again_replaces(library):
    library.register("---\nname: knit!\ndescription: Knit socks.\n---\nPurl two.")
    library.register("---\nname: knit?\ndescription: Knit hats.\n---\nPurl one.")
    library.register("---\nname: knit!\ndescription: Knit scarves.\n---\nPurl three.")
    assert library.get("knit!").body == "Purl three."
    assert library.get("knit?").body == "Purl one."


def test_registering_what_is_no_skill_changes_nothing(library):
    before = library.list()
    with pytest.raises(ParseError, match="frontmatter"):
        library.register("# Just a title")
    assert library.list() == before


@pytest.mark.parametrize("name", ["../../up", "/abs", "..", "a/b", "\u202e", "x" * 500])
def test_no_name_leads_a_registered_skill_out_of_its_root(library, name):
    document = library.register(f"---\nname: {name!r}\ndescription: Hostile.\n---\nBody.")
    folder = Path(document.path).parent
    assert folder.parent == Path(document.root)
    assert library.load(document.doc_id).skill.body == "Body."


def test_registered_skills_leave_nothing_behind(project):
    library = SkillLibrary.from_roots(project, model="hashing")
    document = library.register("---\nname: knit\ndescription: Knit socks.\n---\n")
    library.search("knit", threshold=0.0)
    base = Path(document.root).parent
    assert base.is_dir()
    del library
    gc.collect()
    assert not base.exists()


def test_a_saved_index_takes_no_further_skills(saved, tmp_path):
    with pytest.raises(SkillError, match="from_roots"):
        saved.register("---\nname: knit\ndescription: Knit socks.\n---\n")
    with pytest.raises(SkillError, match="from_roots"):
        saved.add_root(tmp_path)


def test_a_root_can_be_added(library, tmp_path, make_skill):
    make_skill(tmp_path / "more", "steep-tea", "Steep rooibos.")
    make_skill(tmp_path / "more", "knit", "Knit socks.")
    library.add_root(tmp_path / "more")
    assert library.find("knit").root == str(tmp_path / "more")
    assert library.get("steep-tea").body == "Use 80 C."


def test_skills_are_ordered_by_what_they_need(tmp_path, make_skill):
    root = tmp_path / "r"
    make_skill(root, "report", requires_skills=["chart", "sql@>=2"])
    make_skill(root, "chart", requires_skills=["csv"])
    make_skill(root, "csv", version="1.0")
    make_skill(root, "sql", version="1.5")
    order = SkillLibrary.from_roots(root).load_order(["report"])
    assert [document.name for document in order.order] == ["csv", "chart", "report"]
    assert order.missing == (Missing("sql@>=2", "report"),)
