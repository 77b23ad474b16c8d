"""Collections as skills on disk, indexes that answer by their ids, and queries embedded once."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from skillsearch.embedders.embedding import HashingEmbedder, embed
from skillsearch.errors import EmbedderError, StorageError
from skillsearch.evaluation.collection import digest
from skillsearch.evaluation.judged_index import (
    Embedders,
    JudgedIndex,
    RememberingEmbedder,
    use_skills,
    write_skills,
)
from skillsearch.evaluation.systems import parse_systems
from skillsearch.evaluation.types import Collection, JudgedDocument, SystemSpec
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.skills.example_requests import digest_of_skill, user_file
from skillsearch.skills.parser import parse_skill
from skillsearch.skills.resources import MAX_SKILL_MD_BYTES

DOCUMENTS = (
    JudgedDocument("tea", "steep-tea", "Steep green tea at the right temperature.", "Use 80 C."),
    JudgedDocument("coffee", "brew-coffee", "Brew filter coffee with a scale."),
    JudgedDocument("lemon", "squeeze-lemons", "Squeeze lemons for lemonade."),
    JudgedDocument("tea/2", "steep-tea", "Steep green tea at the right temperature.", "Use 80 C."),
    JudgedDocument("forms", "fill-forms", "Fill in PDF forms and flatten them."),
    JudgedDocument("video", "trim-video", "Cut and join video clips."),
    JudgedDocument("keys", "rotate-keys", "Rotate API keys that leaked."),
)
HOSTILE = (
    '"quoted": yes\n---\nname: other',
    "{{ [ & * ! | > % @ ` # \\ \\u0041 '",
    "C1 \x80\x85\x9f, marks \u2028\u2029\ufeff\ufffe\uffff, astral \U0001f98a\U0010ffff",
    "控制 контроль 제어 \u202e",
)


def collect(*documents, name="drinks"):
    return Collection(name, documents or DOCUMENTS, (), {})


def read(folders, number):
    path = folders.roots[0] / f"{number:05}" / "SKILL.md"
    return parse_skill(path.read_bytes(), doc_id="x", path=path, root=folders.roots[0])[0]


@pytest.fixture
def open_index(tmp_path):
    """Open the index of a collection without a model."""

    def run(collection=None, *, system="hybrid", folders=None, **settings):
        folders = folders or write_skills(collection or collect(), tmp_path / "work")
        spec = parse_systems([system], SystemSpec("", model="hashing"))[0]
        return JudgedIndex.open(folders, replace(spec, **settings), Embedders())

    return run


@pytest.mark.parametrize("description", ["  Steep\ngreen tea. ", ""])
def test_a_system_has_the_examples_of_its_collection_if_it_says_so(
    open_index, description, tmp_path
):
    request = "my leaves turned bitter"
    tea = JudgedDocument(
        "tea", "steep-tea", description, "Use 80 C.", examples=(request, " ", request)
    )
    collection = collect(tea, *DOCUMENTS[1:3])
    digest_now = digest_of_skill("brew-coffee", "Brew filter coffee with a scale.")
    user_file().parent.mkdir(parents=True)
    user_file().write_text(json.dumps({"digest": digest_now, "examples": [request]}))
    for examples in ("none", "packaged", "given", "all"):
        before = set(tmp_path.rglob("CURRENT"))
        open_index(collection, examples=examples)
        (new,) = set(tmp_path.rglob("CURRENT")) - before
        documents = SkillIndex.open(new.parent).documents()
        texts = {
            document.name: [example.text for example in document.examples] for document in documents
        }
        expected = [request] if examples in ("given", "all") else []
        assert texts == {"steep-tea": expected, "brew-coffee": [], "squeeze-lemons": []}


def test_documents_become_skills_in_a_folder_named_by_their_content(tmp_path):
    folders = write_skills(collect(), tmp_path)
    assert folders.work == tmp_path / f"drinks-{digest(DOCUMENTS)}"
    assert folders.ids["documents:00003"] == "tea/2"
    assert list(folders.ids.values()) == [document.doc_id for document in DOCUMENTS]
    skill = read(folders, 0)
    actual = (skill.name, skill.description, skill.body)
    assert actual == ("steep-tea", "Steep green tea at the right temperature.", "Use 80 C.")
    assert write_skills(collect(*DOCUMENTS[:1]), tmp_path).work != folders.work


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_comes_back_from_the_written_skill(tmp_path, text):
    plain = JudgedDocument("plain", "name", "description")
    bare = JudgedDocument("bare", text, " ")
    folders = write_skills(collect(plain, JudgedDocument("odd", text, text, text), bare), tmp_path)
    assert read(folders, 2).metadata.frontmatter["description"] == text, "its name describes it"
    skill = read(folders, 1)
    frontmatter = skill.metadata.frontmatter
    assert (frontmatter["name"], frontmatter["description"]) == (text, text)
    assert skill.body == text.strip()


def test_what_no_skill_can_hold_is_cut(tmp_path):
    body = JudgedDocument("a", "name", "description", "é" * MAX_SKILL_MD_BYTES)
    description = JudgedDocument("b", "name", "\U0001f98a" * 40_000)
    folders = write_skills(collect(body, description, *DOCUMENTS), tmp_path)
    path = folders.roots[0] / "00000" / "SKILL.md"
    assert MAX_SKILL_MD_BYTES - 1 <= path.stat().st_size <= MAX_SKILL_MD_BYTES
    assert set(read(folders, 0).body) == {"é"}
    assert 5_000 < len(read(folders, 1).description) < 10_000


def test_skills_are_written_once_unless_that_was_interrupted(tmp_path):
    """Nothing is half there: the skills come to their place all at once."""
    first = write_skills(collect(), tmp_path)
    stamps = {path: path.stat() for path in first.roots[0].rglob("SKILL.md")}
    assert write_skills(collect(), tmp_path) == first
    assert {path: path.stat() for path in first.roots[0].rglob("SKILL.md")} == stamps
    (first.roots[0] / "00002" / "SKILL.md").unlink()
    (first.roots[0] / "00001" / "SKILL.md").write_text("cut off")
    write_skills(collect(), tmp_path)
    assert [read(first, number).name for number in range(7)] == [
        document.name for document in DOCUMENTS
    ]
    assert sorted(path.name for path in first.work.iterdir()) == ["documents", "lock"]


def test_several_at_once_write_the_same(tmp_path):
    collection = collect(*(JudgedDocument(f"{n}", f"skill {n}", "text") for n in range(30)))

    def write_and_count(_):
        folders = write_skills(collection, tmp_path)
        return len(list(folders.roots[0].glob("*/SKILL.md")))

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(write_and_count, range(16))) == {30}


def test_a_work_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"drinks cannot be written .*file/drinks-.*--work"):
        write_skills(collect(), tmp_path / "file")


def test_hidden_documents_are_not_in_an_answer(open_index):
    judged = open_index()
    alone = judged.hidden(["tea", "unknown"])
    everything = judged.hidden(["tea"], with_copies=True)
    assert (len(alone), len(everything), len(judged)) == (1, 2, 7)
    text = "steep green tea"
    assert "tea" not in dict(judged.rank(text, SearchOptions(9, system="dense", exclude=alone))[0])
    assert "tea/2" in dict(judged.rank(text, SearchOptions(9, system="dense", exclude=alone))[0])
    left = dict(judged.rank(text, SearchOptions(9, system="dense", exclude=everything))[0])
    assert not {"tea", "tea/2"} & left.keys()


def test_an_index_is_used_again_and_others_share_its_vectors(open_index, tmp_path, embedded_texts):
    open_index()
    (folder,) = (tmp_path / "work").glob("*/index-*")
    first = SkillIndex.open(folder)
    open_index()
    assert SkillIndex.open(folder).generation == first.generation
    embedded_texts.clear()
    open_index(system="exampled=examples:given")
    (second,) = {*(tmp_path / "work").glob("*/index-*")} - {folder}
    assert embedded_texts == []
    assert len(SkillIndex.open(second)) == len(first)
    open_index(system="lean=fields:metadata")
    assert len(list((tmp_path / "work").glob("*/index-*"))) == 3


def test_documents_that_cannot_be_indexed_are_told(open_index):
    blank = JudgedDocument("blank", "\x01", "\x01")
    judged = open_index(collect(*DOCUMENTS, blank))
    (note,) = judged.notes
    assert note.startswith(
        "Documents that could not be indexed and count as never found: 1, such as 'blank': "
        "The frontmatter has no description; say what the skill does and when to use it."
    )
    assert len(judged) == 7


def test_own_skills_are_indexed_where_they_are(open_index, make_skill, tmp_path):
    root = tmp_path / "mine"
    make_skill(root, "brew-coffee", "Brew filter coffee.")
    collection = collect(JudgedDocument("mine:brew-coffee", "brew-coffee", "Brew filter coffee."))
    folders = use_skills(collection, [root], tmp_path / "work")
    assert folders.roots == (root,)
    make_skill(root, "brew-more-coffee", "Brew filter coffee again.")
    ranking, _ = open_index(folders=folders).rank(
        "brew filter coffee", SearchOptions(5, system="bm25")
    )
    assert [doc_id for doc_id, _ in ranking] == ["mine:brew-coffee"]
    assert sorted(path.name for path in root.iterdir()) == ["brew-coffee", "brew-more-coffee"]


class Counting:
    """A hashing embedder that keeps what it was asked."""

    def __init__(self):
        self.embedded = []
        self._inner = HashingEmbedder()

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def embed_stream(self, texts):
        self.embedded += texts
        return self._inner.embed_stream(texts)


def test_it_is_the_embedder_that_it_wraps():
    inner = HashingEmbedder()
    wrapped = RememberingEmbedder(inner)
    for name in ("fingerprint", "name", "dimensions"):
        assert getattr(wrapped, name) == getattr(inner, name)
    texts = ["brew coffee", "", "steep tea", "brew coffee"]
    np.testing.assert_array_equal(embed(wrapped, texts), embed(inner, texts))


def test_a_text_is_embedded_once():
    counting = Counting()
    wrapped = RememberingEmbedder(counting)
    first = list(wrapped.embed_stream(["a", "b", "a"]))
    second = list(wrapped.embed_stream(["b", "c"]))
    assert counting.embedded == ["a", "b", "c"]
    assert [embedded_text.position for embedded_text in (*first, *second)] == [0, 1, 2, 0, 1]
    assert second[0].vector is first[1].vector


def test_what_was_saved_adds_up():
    wrapped = RememberingEmbedder(Counting())
    list(wrapped.embed_stream(["a"]))
    assert wrapped.saved_seconds == 0
    list(wrapped.embed_stream(["a"]))
    once = wrapped.saved_seconds
    list(wrapped.embed_stream(["a", "a"]))
    assert 0 < once < 1
    assert wrapped.saved_seconds == pytest.approx(3 * once)


def test_each_model_is_loaded_once():
    embedders = Embedders()
    assert embedders["hashing"] is embedders["hashing"]
    with pytest.raises(EmbedderError, match="No embedder is called 'nothing'"):
        embedders["nothing"]
