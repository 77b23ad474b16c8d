"""Which document a name means: precedence of roots, versions and constraints."""

from dataclasses import replace
from pathlib import Path

import pytest

from skillsearch.errors import (
    AmbiguousNameError,
    SkillNotFoundError,
    VersionConstraintError,
    VersionNotFoundError,
)
from skillsearch.index.documents import names
from skillsearch.index.documents.document import Document
from skillsearch.index.documents.names import find_by_name, near_to, preferred
from skillsearch.index.documents.shadowing import find_shadowed, name_problems
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.types.skills import Root

ROOTS = ("/mine", "/theirs")
USERS = tuple(Root(Path(root), root[1:]) for root in ROOTS)
DOCUMENT = Document(
    doc_id="",
    name="",
    description="Fill in forms.",
    path="/mine/pdf/SKILL.md",
    root="/mine",
    content_hash="",
    body_hash="",
    hidden=False,
)


def made(doc_id, name="pdf", version="", **more):
    """Return a skill whose SKILL.md lies in the folder below its root that its id names."""
    root, _, folder = doc_id.partition(":")
    paths = {"root": f"/{root}", "path": f"/{root}/{folder}/SKILL.md"}
    return replace(DOCUMENT, doc_id=doc_id, name=name, version=version, **paths, **more)


def stored(*documents):
    return DocumentStore.build(sorted(documents, key=lambda document: document.doc_id))


def make_store(*skills):
    return stored(*(made(*skill.split(" ")) for skill in skills))


def find(store, name, roots=ROOTS):
    return find_by_name(name, store, roots).doc_id


@pytest.fixture
def pdfs():
    """Four versions of a skill in two roots, and one that has none."""
    return make_store(
        "mine:a pdf 1.9",
        "mine:b pdf 1.10",
        "mine:c pdf 2.0-beta",
        "theirs:a PDF 3.0",
        "theirs:b ocr 1.0",
    )


def test_the_newest_release_of_the_first_root_is_meant(pdfs):
    assert find(pdfs, "pdf") == "mine:b"
    assert find(pdfs, "pdf", ROOTS[::-1]) == "theirs:a"
    assert find(pdfs, "mine:pdf") == "mine:b"


@pytest.mark.parametrize(
    ("name", "doc_id"),
    [
        ("pdf@1.9", "mine:a"),
        ("PDF@<1.10", "mine:a"),
        ("pdf@>=1", "mine:b"),
        ("pdf@^1.9", "mine:b"),
        ("pdf@2.0-beta", "mine:c"),
        ("pdf@>=2.0b0", "mine:c"),
        ("pdf@>=2", "theirs:a"),
        ("pdf@", "mine:b"),
        ("pdf@*", "mine:b"),
        ("mine:pdf@<1.10", "mine:a"),
        ("theirs:pdf@>=1", "theirs:a"),
        ("mine:a@1.9", "mine:a"),
        (" pdf @ 1.9 ", "mine:a"),
    ],
)
def test_a_constraint_chooses_among_the_versions(pdfs, name, doc_id):
    assert find(pdfs, name) == doc_id


SKILLS = make_store(
    "mine:c c ",
    "mine:plugins/docs/skills/pdf-fill pdf-fill ",
    "mine:plugins/docs/skills/read read ",
    "mine:plugins/mail/skills/read read ",
)
WRAPS = ["{}", "/{}", "@{}", "${}", "{}/", "{}/SKILL.md", "./{}/skill.md", "`{}`", " '{}' "]
WRAPS += ["docs:{}", "/docs:{}", "mine:{}", "skill://{}/SKILL.md", "skills/{}", "{}\\SKILL.md"]
WRAPS += ["~/docs/skills/{}/SKILL.md", "C:\\docs\\skills\\{}", "/mine/plugins/docs/skills/{}"]


SPELLINGS = ["pdf-fill", "PDF-Fill", "pdf_fill", "Pdf Fill", "pdf-fill@*"]


@pytest.mark.parametrize(
    ("wrap", "name"),
    [
        *((wrap, "PDF_Fill") for wrap in WRAPS),
        *((wrap, name) for wrap in ("{}", "docs:{}", "skills/{}") for name in SPELLINGS),
    ],
)
def test_a_name_as_hosts_and_people_write_it_means_the_one_skill(wrap, name):
    assert find(SKILLS, wrap.format(name)) == "mine:plugins/docs/skills/pdf-fill"


def test_a_plugin_or_a_folder_tells_namesakes_apart():
    with pytest.raises(AmbiguousNameError):
        find(SKILLS, "/read")
    assert find(SKILLS, "mail:read") == "mine:plugins/mail/skills/read"
    assert find(SKILLS, "docs/skills/read/SKILL.md") == "mine:plugins/docs/skills/read"


@pytest.mark.parametrize(
    "name",
    [
        *("other:read", "c#", "other/pdf-fill", "../pdf-fill", "/tmp/skills/pdf-fill/SKILL.md"),
        *("pdf-fill/references", "pdffill", "docs:", "SKILL.md", "@", "docs", "", "/"),
    ],
)
def test_what_may_mean_another_skill_is_not_guessed(name):
    with pytest.raises(SkillNotFoundError):
        find(SKILLS, name)


def test_a_root_that_is_named_is_the_one_that_is_meant():
    """A plugin's name may be free, a root's is not."""
    store = make_store("mine:a tea 1", "theirs:b pot 1")
    assert find(store, "plugin:tea") == "mine:a"
    with pytest.raises(SkillNotFoundError):
        find(store, "theirs:tea")


def test_a_version_that_is_not_there_is_named_with_those_that_are(pdfs):
    with pytest.raises(
        VersionNotFoundError, match=r"'pdf@>=4'.*1\.9, 1\.10, 2\.0-beta, 3\.0"
    ) as caught:
        find(pdfs, "pdf@>=4")
    assert isinstance(caught.value, SkillNotFoundError)
    assert (caught.value.name, caught.value.nearest) == ("pdf@>=4", ())
    assert caught.value.versions == ("1.9", "1.10", "2.0-beta", "3.0")


def test_a_skill_without_a_version_satisfies_no_constraint():
    odd = make_store("mine:a tea ", "mine:b tea \x1b[31m" + "9" * 500, "mine:c pot ")
    with pytest.raises(VersionNotFoundError, match=r"one without a version, .31m9+…") as caught:
        find(odd, "tea@>=0")
    assert "\x1b" not in str(caught.value)
    many = make_store(*(f"mine:{number:03} tea {number}.0" for number in range(100)))
    with pytest.raises(VersionNotFoundError) as caught:
        find(many, "tea@>=100")
    assert caught.value.versions == tuple(f"{number}.0" for number in range(10))


@pytest.mark.parametrize("versions", [("", ""), ("1.0", ""), ("1.0", "v1"), ("1.0", "one")])
def test_a_name_stays_ambiguous_where_versions_do_not_tell(versions):
    store = make_store(*(f"mine:{number} tea {text}" for number, text in enumerate(versions)))
    with pytest.raises(AmbiguousNameError) as caught:
        find(store, "tea")
    assert caught.value.candidates == ("mine:0", "mine:1")
    assert find(store, "mine:1") == "mine:1"


def test_a_constraint_can_settle_an_ambiguous_name():
    store = make_store("mine:a tea 1.0", "mine:b tea one")
    assert find(store, "tea@>=1") == "mine:a"


def test_a_name_that_holds_an_at_sign_is_found_first():
    """The part after the sign is a constraint only if no skill has the whole name."""
    store = make_store("mine:a tea 1.0", "mine:b tea@2 5.0", "mine:c@d @org/tea 2.0")
    assert find(store, "tea@2") == "mine:b"
    assert find(store, "tea@2@5.0") == "mine:b"
    assert find(store, "mine:c@d") == "mine:c@d"
    assert find(store, "@org/tea") == "mine:c@d"
    assert find(store, "@org/tea@2") == "mine:c@d"


def test_a_broken_constraint_is_an_error_only_on_a_name_that_is_there(pdfs):
    with pytest.raises(VersionConstraintError, match="'new'"):
        find(pdfs, "pdf@new")
    with pytest.raises(SkillNotFoundError, match="Did you mean: PDF") as caught:
        find(pdfs, "pdff@new")
    assert not isinstance(caught.value, VersionNotFoundError)
    assert caught.value.name == "pdff@new"


def test_names_are_suggested_only_where_that_is_wanted(pdfs):
    with pytest.raises(SkillNotFoundError) as caught:
        find_by_name("pdff", pdfs, ROOTS, suggest=False)
    assert caught.value.nearest == ()


def test_an_unknown_name_is_looked_up_among_all_documents_once(pdfs, monkeypatch):
    looks, every = [], DocumentStore.__iter__
    monkeypatch.setattr(DocumentStore, "__iter__", lambda self: looks.append(1) or every(self))
    with pytest.raises(SkillNotFoundError, match="Did you mean: PDF"):
        find(pdfs, "pdff")
    assert len(looks) == 1


def test_the_names_in_a_folder_of_that_name_come_first():
    """It is what a user sees on the disk, in upper or lower case."""
    oolong = made("mine:teas/Oolong", "brew")
    documents = [made("mine:a", "oolong-1"), oolong, made("mine:oolong-2", "tea")]
    assert near_to("oolong", documents) == ([oolong], ("brew", "oolong-1"))
    assert near_to("", documents) == ([], ())


@pytest.mark.parametrize("name", ["@", "@@", "pdf@@", "@>=1", "pdf@\0", "pdf@" + "9" * 9999, ":@1"])
def test_odd_names_are_errors_of_ours(pdfs, name):
    with pytest.raises((SkillNotFoundError, VersionConstraintError)):
        find(pdfs, name)


def test_the_preferred_documents_are_several_only_where_nothing_decides(pdfs):
    named = [document for document in pdfs if document.name.casefold() == "pdf"]
    assert [document.doc_id for document in preferred(named, ROOTS)] == ["mine:b"]
    alike = [replace(document, version="1.0") for document in named]
    assert preferred(alike, ROOTS) == alike[:3]
    assert preferred(alike, ROOTS[1:]) == alike[3:]


STRANGE = {"content_hash": "x", "description": "Generic helper.", "sketch": "01000000" * 4}


@pytest.mark.parametrize("folder", ["zz", "a", "pdf-99", "pdf/99", "b/pdf"])
@pytest.mark.parametrize("version", ["99.0.0", "1.2.0", "", "0.1"])
def test_a_version_that_a_stranger_writes_hides_nothing(folder, version):
    victim = made("mine:pdf", version="1.2.0")
    store = stored(victim, made(f"mine:{folder}", version=version, **STRANGE))
    assert find_shadowed(store, USERS) == ()
    with pytest.raises(AmbiguousNameError) as caught:
        find(store, "pdf")
    assert set(caught.value.candidates) == {"mine:pdf", f"mine:{folder}"}
    for doc_id in caught.value.candidates:
        assert find(store, doc_id) == doc_id


def test_versions_order_what_lies_in_one_folder_of_the_name():
    old, new = made("mine:pdf/1.0", version="1.0"), made("mine:pdf/2.0", version="2.0", **STRANGE)
    assert find(stored(old, new), "pdf") == "mine:pdf/2.0"


def test_kin_is_not_told_through_a_third():
    """A bridge of half of each, in the middle, makes no versions of one skill of both."""
    hashes = [f"{n:02x}000000" for n in range(1, 33)]
    first_half, last_half = "".join(hashes[:16]), "".join(hashes[16:])
    bridge = "".join(sorted(hashes[:8] + hashes[16:24]))
    documents = [
        made("mine:a", version="1.0", sketch=first_half, content_hash="a", body_hash="a"),
        made("mine:b", version="2.0", sketch=bridge, content_hash="b", body_hash="b"),
        made("mine:c", version="3.0", sketch=last_half, content_hash="c", body_hash="c"),
    ]
    assert {document.doc_id for document in preferred(documents, ROOTS)} == {"mine:a", "mine:c"}


@pytest.mark.parametrize(
    "aside",
    [
        ".worktrees/x/pdf",
        ".claude/worktrees/fix-1/pdf",
        ".cache/pdf",
        "archive/pdf",
        "old/2024/pdf",
    ],
)
def test_the_live_skill_is_meant_before_copies_that_lie_aside(aside):
    live, copy = made("mine:pdf", version="1.0"), made(f"mine:{aside}", version="9.0")
    store = stored(live, copy)
    assert find(store, "pdf") == "mine:pdf"
    (shadowed,) = find_shadowed(store, USERS)
    assert (shadowed.document.doc_id, shadowed.by.doc_id) == (copy.doc_id, "mine:pdf")
    assert find(store, copy.doc_id) == copy.doc_id


def test_another_checkout_is_kin_by_its_folder_alone():
    """The texts of a branch may differ; so may those of a stranger elsewhere, who is none."""
    store = stored(made("mine:a/pdf"), made("mine:.worktrees/x/a/pdf", **STRANGE))
    assert find(store, "pdf") == "mine:a/pdf"
    store = stored(made("mine:a/pdf"), made("mine:.worktrees/x/b/pdf", **STRANGE))
    with pytest.raises(AmbiguousNameError):
        find(store, "pdf")


def test_a_name_that_stands_twice_in_a_root_is_told_once():
    store = stored(
        made("mine:a"), made("mine:b", **STRANGE), made("theirs:a"),
        made("mine:tea/1", "tea", "1.0"), made("mine:tea/2", "tea", "2.0"), made("mine:c", "one"),
        made("theirs:one", "one"),
    )  # fmt: skip
    problems = sorted(name_problems(store, USERS), key=lambda problem: problem.code)
    assert [(problem.code, problem.severity) for problem in problems] == [
        ("name-ambiguous", "warning"),
        ("name-twice", "note"),
    ]
    assert "mine:a, mine:b" in problems[0].message
    assert "the name means mine:tea/2" in problems[1].message


def test_a_name_of_the_user_and_of_a_project_is_told_and_both_are_found():
    """Unless one is a copy; of the same name in two roots of the user the first is meant alone."""
    scopes = (USERS[0], replace(USERS[1], projects=("/work",)))
    store = stored(made("mine:a"), made("theirs:a", **STRANGE))
    assert find_shadowed(store, scopes) == ()
    (problem,) = name_problems(store, scopes)
    assert (problem.code, problem.severity) == ("name-of-project", "note")
    assert problem.path == store[1].path
    assert "means mine:a" in problem.message
    assert "loaded as theirs:pdf" in problem.message
    assert find(store, "pdf") == "mine:a"
    assert find(store, "theirs:pdf") == "theirs:a"
    assert [shadowed.document.doc_id for shadowed in find_shadowed(store, USERS)] == ["theirs:a"]
    kin = stored(made("mine:a"), made("theirs:a"))
    assert [shadowed.document.doc_id for shadowed in find_shadowed(kin, scopes)] == ["theirs:a"]
    assert list(name_problems(kin, scopes)) == []


def test_each_of_many_namesakes_is_compared_with_a_few(monkeypatch):
    compared, are_kin = [], names.are_kin
    monkeypatch.setattr(names, "are_kin", lambda *pair: compared.append(pair) or are_kin(*pair))
    documents = [
        made(f"mine:n{n:05}", version=f"{n}.0", description=f"Of {n}.", content_hash=str(n))
        for n in range(1_000)
    ]
    assert len(preferred(documents, ROOTS)) == 1_000
    assert len(compared) <= 1_000 * names.MOST_COMPARED


def test_a_name_of_many_skills_is_looked_up_once_for_an_answer(monkeypatch):
    documents = [made(f"mine:{n:05}") for n in range(300)]
    store = DocumentStore.build(documents)
    looked_up, look_up = [], names.preferred
    monkeypatch.setattr(names, "preferred", lambda *a: looked_up.append(a) or look_up(*a))
    assert [names.handle_of(document, store, ROOTS) for document in documents] == [
        document.doc_id for document in documents
    ]
    assert len(looked_up) == 2  # by name, and by name and root
