"""A skill that its name does not mean, or a near-copy in a later root, counts for nothing."""

import itertools
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillsearch.errors import CacheError
from skillsearch.index.corpus import Corpus
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.types.answers import SYSTEMS

WORDS = "pdf form field video clip cut key secret rotate tea kettle steep query table plan".split()
QUERIES = ("fill the pdf form", "rotate the secret key", "steep tea", "pdf-0", "unknown matters")
LONG = "A body that is long enough to tell it from others. " * 8


def padded(name, description, body, version):
    """Return a copy whose body says the rest of the skill over and over."""
    return name, description, body + f"\n## {name}\n{description}\n" * 30, version


COPIES = {
    "identical": lambda *skill: skill,
    "padded": padded,
    "other case": lambda name, *rest: (name.upper().replace("-", "_"), *rest),
    "newer": lambda name, description, body, _: (name, description, body, "99.0"),
    "longer": lambda name, description, *rest: (name, f"{description} {description} tea", *rest),
    "renamed": lambda name, *rest: (f"the-{name}", *rest),
    "other": lambda name, *_: (name, "Steep a pdf form in tea.", LONG, ""),
}

skills = st.lists(
    st.tuples(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join),
        st.lists(st.sampled_from(WORDS), max_size=20).map(" ".join),
        st.sampled_from(["", "1.0", "2.0"]),
    ),
    min_size=1,
    max_size=8,
)
copies = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from(sorted(COPIES)), st.sampled_from("abz")),
    min_size=1,
    max_size=12,
)


def hits_of(index, **options):
    """Return the paths, scores and chunks of what an index or a library finds."""
    return [
        [(hit.path, hit.score, hit.chunk) for hit in index.search(query, n, cut, **options)]
        for query, n, cut in itertools.product(QUERIES, (1, 3, 30), (0.0, None))
    ]


@pytest.fixture
def roots(tmp_path, add_skill):
    """Make two roots; the alias of the second sorts first, and its copy of a skill fits better."""
    first, second = tmp_path / "z-mine", tmp_path / "a-theirs"
    add_skill(first / "forms", "pdf-forms", "Fill in PDF forms.", LONG)
    add_skill(first / "tea", "tea-timer", "Remind somebody when the tea is ready.", "# Tea")
    add_skill(second / "forms", "PDF Forms", "Fill in PDF forms.", LONG + "fill pdf forms " * 9)
    add_skill(second / "video", "video-trim", "Cut and join video clips.", "# Cutting")
    return first, second


def assert_copies_change_nothing(add_skill, skills, copies):
    """Search one root, and with it three others that hold copies of its skills."""
    with tempfile.TemporaryDirectory() as folder:
        first, others = Path(folder, "m-mine"), [Path(folder, name) for name in "abz"]
        named = [
            (f"{'pdf' if n % 2 else 'tea'}-{n // 2}", about, f"{LONG}{n}\n{body}", version)
            for n, (about, body, version) in enumerate(skills)
        ]
        for number in range(16):  # from so many on, the size of a corpus counts as evidence
            add_skill(first / f"other-{number}", f"other-{number}", "A plan.", f"# Plan {number}")
        for number, skill in enumerate(named):
            add_skill(first / str(number), *skill[:3], version=f'"{skill[3]}"')
        for root in others:
            root.mkdir()
        for number, (number_copied, change, root) in enumerate(copies):
            *copy, version = COPIES[change](*named[number_copied % len(named)])
            add_skill(Path(folder, root, str(number)), *copy, version=f'"{version}"')
        options = {"model": "hashing"}
        alone = SkillIndex.from_roots(first, index_dir=Path(folder, "alone"), **options)
        together = SkillIndex.from_roots(
            [first, *others], index_dir=Path(folder, "together"), **options
        )
        assert len(together) == 16 + len(skills) + len(copies)
        sizes = [index.opened.corpus.documents.counted_size for index in (alone, together)]
        assert sizes[0] == sizes[1]
        for system in SYSTEMS:
            assert hits_of(together, system=system) == hits_of(alone, system=system)
        libraries = SkillLibrary.of_index(together), SkillLibrary.of_index(alone)
        assert hits_of(libraries[0]) == hits_of(libraries[1])


@pytest.mark.slow
@settings(max_examples=3)
@given(skills=skills, copies=copies)
def test_copies_in_later_roots_change_nothing_about_an_answer(add_skill, skills, copies):
    assert_copies_change_nothing(add_skill, skills, copies)


@pytest.mark.night
@settings(max_examples=40)
@given(skills=skills, copies=copies)
def test_whatever_the_copies_are_they_change_nothing(add_skill, skills, copies):
    assert_copies_change_nothing(add_skill, skills, copies)


def test_more_copies_than_candidates_change_nothing_about_an_answer(build, roots, add_skill):
    texts = {"pdf-forms": "Fill in PDF forms.", "tea-timer": "Steep tea.", "plan": "Tune a query."}
    mine, theirs = roots[0].parent / "mine", roots[0].parent / "copies"
    for number, (name, text) in enumerate(texts.items()):
        add_skill(mine / name, name, text, "# Steps")
        for copy in range(20):
            add_skill(theirs / f"{number}-{copy}", name, text, "# Steps")
    alone, together = build(mine, index_dir="alone"), build(mine, theirs)
    assert len(together.opened.corpus.documents.shadowed) == 60
    for system in SYSTEMS:
        assert hits_of(together, system=system) == hits_of(alone, system=system)


def test_what_is_found_is_the_skill_that_its_name_means(build, roots):
    index = build(*roots)
    (hit,) = index.search("fill in pdf forms", threshold=0.3)
    assert hit.doc_id == "z-mine:forms"
    assert hit.duplicates == (str(roots[1] / "forms" / "SKILL.md"),)
    for name in ("a-theirs:forms", "a-theirs:pdf-forms"):
        assert index.find(name).path == hit.duplicates[0]


def test_the_order_of_the_roots_decides(build, roots):
    build(*roots)
    (hit,) = build(*reversed(roots)).search("fill in pdf forms", threshold=0.3)
    assert hit.doc_id == "a-theirs:forms"


def test_another_skill_of_the_name_is_no_copy(build, roots, add_skill):
    add_skill(roots[1] / "forms", "pdf-forms", "Trim video clips with care.", "# Other")
    (hit,) = build(*roots).search("fill in pdf forms", threshold=0.3)
    assert hit.duplicates == ()


def test_a_copy_under_another_name_stands_behind_the_first_root(build, roots, add_skill):
    text = "Fill in the fields of a PDF form, flatten it, sign it and send it off. " * 4
    add_skill(roots[0] / "forms", "pdf-forms", text, LONG)
    alone = build(roots[0], index_dir="alone").search("fill in form-filler pdf", threshold=0.0)
    add_skill(roots[1] / "forms", "form-filler", text, LONG)
    hits = build(*roots).search("fill in form-filler pdf", threshold=0.0)
    assert alone[0].doc_id == "z-mine:forms"
    assert hits[0].doc_id == "z-mine:forms"
    assert hits[0].duplicates == (str(roots[1] / "forms" / "SKILL.md"),)


def test_the_newest_version_of_a_root_is_found(build, tmp_path, add_skill):
    for version in ("1.0", "2.0", "10.0"):
        add_skill(tmp_path / "s" / version, "pdf", "Fill in PDF forms.", "# Fill", version=version)
    index = build(tmp_path / "s")
    (hit,) = index.search("fill in pdf forms", threshold=0.0)
    assert index.find(hit.doc_id).version == "10.0"
    assert index.find("pdf@<10").version == "2.0"


def test_skills_that_nothing_tells_apart_are_all_searched(build, tmp_path, add_skill):
    for number, description in enumerate(("Fill in PDF forms.", "Cut video clips with care.")):
        add_skill(tmp_path / "s" / str(number), "both", description, f"# {number}")
    hits = build(tmp_path / "s").search("both", threshold=0.0)
    assert sorted(hit.doc_id for hit in hits) == ["s:0", "s:1"]


def test_an_index_without_shadowed_skills_keeps_no_record_of_them(build, root):
    opened = build(root).opened
    assert not [part for part in opened.generation.parts if part.startswith("delta-")]
    assert not len(opened.corpus.documents.left_out)


@pytest.mark.parametrize("numbers", [[9], [-1]])
def test_a_record_of_skills_that_are_not_there_is_refused(build, roots, tmp_path, numbers):
    shutil.copytree(build(*roots).opened.folder, tmp_path / "copy")
    np.save(tmp_path / "copy" / "delta-shadowed.npy", np.array(numbers))
    with pytest.raises(CacheError, match="do not fit its documents"):
        Corpus.load(tmp_path / "copy", with_body=True)
