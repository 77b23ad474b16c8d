"""Example requests in an index: an updated one equals a new one, and answers by them."""

import json
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillsearch.embedders.embedding import HashingEmbedder, embed
from skillsearch.index.documents.hubness import TABLE
from skillsearch.index.freshness import MAX_REFRESHED_FILES, Freshness
from skillsearch.index.indexing.builder import Builder
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.indexing.writers import SegmentLimits
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.skills import example_requests
from skillsearch.skills.example_requests import digest_of_skill, user_file

SMALL = SegmentLimits(least_documents=4, most_flat=6)
"""Takes four skills for many, and searches more than six vectors by codes."""
ASKED = "my scanned receipts must become one table"
KOREAN = "영수증을 표로 정리해 주세요"


class ExampledSkills:
    """A root of eight skills, the user's examples, and an index of both."""

    def __init__(self, tmp_path, add_skill):
        self.tmp_path, self.add_skill = tmp_path, add_skill
        self.root, self.user_examples = tmp_path / "root", {}
        for number in range(8):
            self.write(number)

    def write(self, number, about="Answers about thing", **more):
        self.add_skill(
            self.root / f"s{number:02}",
            f"s{number:02}",
            f"{about} {number}.",
            "# Body\nText.",
            **more,
        )

    def keep(self, number, *texts, about="Answers about thing"):
        """Have examples of a skill in the user's file, or none."""
        self.user_examples[digest_of_skill(f"s{number:02}", f"{about} {number}.")] = texts
        self.save()

    def save(self, *lines):
        """Write the user's file, with more lines if any."""
        records = [
            json.dumps({"digest": digest, "examples": texts})
            for digest, texts in self.user_examples.items()
            if texts
        ]
        user_file().parent.mkdir(parents=True, exist_ok=True)
        new = user_file().with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in (*records, *lines)))
        new.replace(user_file())

    def bring(self, number, *texts):
        """Have a skill bring examples in an eval file, or none."""
        path = self.root / f"s{number:02}" / "evals" / "evals.json"
        if texts:
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps([{"query": text} for text in texts]))
        else:
            path.unlink(missing_ok=True)

    def build(self, index_dir="index", **options):
        request = IndexRequest((self.root,), "hashing", True)
        folder = IndexFolder(self.tmp_path / index_dir)
        self.report = Builder(folder, request, IndexOptions(**options)).run()
        return SkillIndex.open(folder.path)


@pytest.fixture
def skills(tmp_path, add_skill):
    return ExampledSkills(tmp_path, add_skill)


def examples(index, number):
    return [tuple(example) for example in index.find(f"s{number:02}").examples]


def parts(index, files_of):
    return {
        name: data
        for name, data in files_of(index.opened.folder).items()
        if not name.endswith(".json")
    }


def first(index, query=ASKED, system="hybrid"):
    hits = index.search(query, n=1, threshold=0.0, system=system).hits
    return hits[0].name if hits else ""


def answers(index):
    """Return all hits of some queries by each system, but for those by chance alone."""
    return [
        {hit.doc_id: pytest.approx(hit.score, abs=1e-5) for hit in hits if hit.score > 0.01}
        for system, queries in (
            ("bm25", (ASKED, KOREAN, "thing 3")),
            ("dense", (ASKED, "answers about thing")),
            ("hybrid", (ASKED, "answers about thing 3")),
        )
        for query in queries
        for hits in [index.search(query, n=20, threshold=0.0, system=system).hits]
    ]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["user", "eval", "both", "file"]),
        st.integers(0, 3),
        st.lists(
            st.sampled_from([ASKED, KOREAN, "scan it", "is this a thing", "", "x" * 301]),
            max_size=3,
        ),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(data=st.data(), limits=st.sampled_from([SegmentLimits(), SMALL]))
def test_an_updated_index_equals_a_new_one(data, limits, tmp_path_factory, add_skill, files_of):
    skills = ExampledSkills(tmp_path_factory.mktemp("place"), add_skill)
    skills.save()
    skills.build(limits=limits)
    for way, number, texts in data.draw(STEPS):
        if way in ("user", "both"):
            skills.keep(number, *texts)
        if way in ("eval", "both"):
            skills.bring(number, *texts)
        if way == "file":
            skills.write(number, about="Answers about thing" if texts else "Says more about thing")
        index = skills.build(limits=limits)
    new = skills.build("new", limits=limits)
    assert list(index.documents()) == list(new.documents())
    assert answers(index) == answers(new)
    assert skills.build(limits=limits).generation == index.generation
    if limits is not SMALL:
        assert parts(index, files_of) == parts(new, files_of)
        assert index.generation == new.generation


def test_examples_are_a_part_of_the_index_only_if_there_are_any(skills, files_of):
    before = skills.build()
    assert "dense-examples.faiss" not in parts(before, files_of)
    skills.keep(3, ASKED)
    with_one = skills.build()
    assert "dense-examples.faiss" in parts(with_one, files_of)
    skills.keep(3)
    after = skills.build()
    assert parts(after, files_of) == parts(before, files_of)


def test_the_vector_of_examples_is_their_mean(skills):
    embedder = HashingEmbedder()
    skills.keep(3, ASKED, "scan it")
    skills.keep(5, "scan it")
    index = skills.build(embedders={"hashing": embedder})
    metadata, mean = index.opened.corpus.dense.segments[0].fields
    both = embed(embedder, [ASKED, "scan it"])
    total = both.sum(axis=0)
    np.testing.assert_allclose(mean[3], total / np.linalg.norm(total), atol=3e-4)
    np.testing.assert_allclose(mean[5], both[1], atol=3e-4)
    others = [number for number in range(8) if number not in (3, 5)]
    np.testing.assert_allclose(mean[others], metadata[others], atol=3e-4)
    assert [bool(is_exampled) for is_exampled in index.opened.corpus.documents.exampled] == [
        number in (3, 5) for number in range(8)
    ]


@pytest.mark.parametrize("way", ["user", "eval", "frontmatter"])
@pytest.mark.parametrize("system", ["bm25", "dense", "hybrid"])
def test_a_skill_is_found_by_its_examples(skills, way, system):
    skills.build()
    if way == "user":
        skills.keep(7, ASKED)
    elif way == "eval":
        skills.bring(7, ASKED)
    else:
        skills.write(7, representativeQueries=f"[{ASKED}]")
    index = skills.build()
    assert first(index, system=system) == "s07"
    assert examples(index, 7) == [(ASKED, "user" if way == "user" else "skill")]


def test_an_example_in_another_script_counts_too(skills):
    skills.keep(7, KOREAN)
    assert first(skills.build(), KOREAN) == "s07"


def test_a_run_with_the_same_examples_reads_no_skill(skills, disk):
    skills.keep(3, ASKED)
    skills.bring(4, "scan it")
    before = skills.build()
    assert skills.build().is_current()
    skills.save(json.dumps({"digest": "0" * 64, "examples": ["for nobody here"]}))
    assert not before.is_current()
    disk.forget()
    after = skills.build()
    assert after.generation == before.generation
    assert after.is_current()
    assert disk.opened == []


@pytest.mark.parametrize("limits", [SegmentLimits(), SMALL], ids=["one segment", "a delta"])
def test_only_skills_with_other_examples_are_read_again(skills, disk, limits):
    skills.keep(3, ASKED)
    skills.bring(4, "scan it")
    skills.bring(5, "scan them")
    skills.build(limits=limits)
    skills.keep(3, "another")
    skills.keep(4, "one more")
    skills.bring(5, "scan all of them")
    disk.forget()
    index = skills.build(limits=limits)
    assert sorted(set(disk.opened)) == ["s03", "s04", "s05"]
    assert examples(index, 3) == [("another", "user")]
    assert examples(index, 4) == [("one more", "user"), ("scan it", "skill")]
    assert examples(index, 5) == [("scan all of them", "skill")]


@pytest.mark.parametrize("limits", [SegmentLimits(), SMALL], ids=["one segment", "a delta"])
def test_an_eval_file_is_watched_after_runs_that_changed_other_skills(skills, limits):
    skills.bring(4, "scan it")
    skills.build(limits=limits)
    for number in (1, 2):
        skills.write(number, about="Says more about thing")
        skills.build(limits=limits)
    path = skills.root / "s04/evals/evals.json"
    path.write_text(json.dumps([{"query": "scam it"}]))
    assert not SkillIndex.open(skills.tmp_path / "index").is_current()
    assert examples(skills.build(limits=limits), 4) == [("scam it", "skill")]


@pytest.mark.parametrize("name", ["evals.json", "evals/evals.json", "more/triggers.yaml"])
def test_a_new_eval_file_is_found_wherever_it_may_lie(skills, name):
    index = skills.build()
    path = skills.root / "s04" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"should_trigger": ["scan it"]}')
    assert not index.is_current()
    index = skills.build()
    assert examples(index, 4) == [("scan it", "skill")]
    path.unlink()
    assert examples(skills.build(), 4) == []


def test_a_changed_path_alone_does_not_stand_for_all_new_examples(skills):
    """The skill at the path gets its own; the others get theirs in the next full run."""
    skills.build(limits=SMALL)
    skills.keep(3, ASKED)
    skills.keep(4, "scan it")
    index = skills.build(limits=SMALL, only=(skills.root / "s03/SKILL.md",))
    assert (examples(index, 3), examples(index, 4)) == ([(ASKED, "user")], [])
    assert not index.is_current()
    index = skills.build(limits=SMALL)
    assert (examples(index, 3), examples(index, 4)) == ([(ASKED, "user")], [("scan it", "user")])
    assert index.is_current()


def test_the_skills_of_a_root_that_is_gone_keep_their_examples(skills):
    other = skills.tmp_path / "other"
    skills.add_skill(other / "lone", "lone", "Alone.", "Body.")
    request = IndexRequest((skills.root, other), "hashing", True)
    skills.keep(3, ASKED)
    skills.bring(4, "scan it")
    folder = IndexFolder(skills.tmp_path / "index")
    Builder(folder, request).run()
    skills.root.rename(skills.tmp_path / "away")
    skills.keep(3, "another")
    skills.user_examples[digest_of_skill("lone", "Alone.")] = ("on my own",)
    skills.save()
    Builder(folder, RootChange(how="keep"), IndexOptions(missing="keep")).run()
    index = SkillIndex.open(folder.path)
    assert (examples(index, 3), examples(index, 4)) == ([(ASKED, "user")], [("scan it", "skill")])
    assert index.find("lone").examples[0].text == "on my own"
    before = index.generation
    Builder(folder, RootChange(how="keep"), IndexOptions(missing="keep")).run()
    assert SkillIndex.open(folder.path).generation == before
    (skills.tmp_path / "away").rename(skills.root)
    (skills.root / "s04/evals/evals.json").write_text(json.dumps([{"query": "scan more"}]))
    Builder(folder, RootChange(how="keep")).run()
    index = SkillIndex.open(folder.path)
    assert examples(index, 4) == [("scan more", "skill")]
    assert examples(index, 3) == [("another", "user")]


def test_examples_of_the_user_tell_no_copies_apart(skills, add_skill):
    text = " ".join(f"word{number}" for number in range(80))
    for name in ("one", "two"):
        add_skill(skills.root / name, name, "Turns receipts into tables.", text)
    family = skills.build().search("receipts tables", n=3).hits[0].family
    skills.user_examples[digest_of_skill("one", "Turns receipts into tables.")] = (
        ASKED,
        "more of it",
    )
    skills.save()
    index = skills.build()
    assert family
    assert index.search("receipts tables", n=3).hits[0].family == family


def test_nearness_to_everything_counts_what_a_skill_brings_and_not_what_the_user_says(skills):
    """An author may write down whatever people ask; the user's own words are no such trick."""
    words = [line.split()[0] for line in TABLE.read_text().splitlines() if line[-1:].isdigit()]
    everything = [" ".join(words[n : n + 12]) for n in range(0, 96, 12)]
    skills.bring(3, *everything)
    skills.keep(4, *everything)
    index = skills.build()
    hubness = index.opened.corpus.documents.hubness
    assert hubness[3] > hubness[5] == hubness[4]


def test_a_question_after_a_new_example_finds_the_skill_by_it(skills):
    index = skills.build()
    freshness = Freshness(index)
    assert first(index) != "s07"
    skills.keep(7, ASKED)
    assert freshness.look(0) == "index refreshed: 0 added, 1 changed, 0 removed"
    assert first(index) == "s07"
    assert freshness.look(0) == ""
    skills.save("{")
    assert freshness.look(0) == ""
    assert index.is_current()


def test_many_new_examples_are_left_to_the_background(skills):
    for number in range(8, 36):
        skills.write(number)
    index = skills.build()
    jobs = []

    def submit(*job):
        jobs.append(job)
        return Future()

    freshness = Freshness(index, SimpleNamespace(submit=submit))
    for number in range(MAX_REFRESHED_FILES + 1):
        skills.user_examples[digest_of_skill(f"s{number:02}", f"Answers about thing {number}.")] = (
            ASKED,
        )
    skills.save()
    assert "much has changed (0 added, 33 changed, 0 removed)" in freshness.look(0)
    assert len(jobs) == 1
    assert examples(index, 7) == []


def test_packaged_examples_count_until_the_package_has_others(skills, tmp_path, monkeypatch):
    packaged = tmp_path / "packaged.jsonl"
    monkeypatch.setattr(example_requests, "PACKAGED", packaged)
    digest = digest_of_skill("s07", "Answers about thing 7.")
    packaged.write_text(json.dumps({"digest": digest, "examples": ["the first"]}))
    assert examples(skills.build(), 7) == [("the first", "package")]
    packaged.write_text(json.dumps({"digest": digest, "examples": ["the second one"]}))
    assert examples(skills.build(), 7) == [("the second one", "package")]
    skills.keep(7, ASKED)
    assert examples(skills.build(), 7) == [(ASKED, "user")]
