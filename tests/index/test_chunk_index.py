"""Which chunk of a hit fits the query best."""

import math
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import embed
from skillsearch.errors import CacheError
from skillsearch.index.chunk_index import ChunkIndex, ChunkWriter, term_set, term_shares
from skillsearch.index.lexical.field import LexicalField
from skillsearch.skills.chunks import parse_chunks
from skillsearch.text.tokenizer import term_hash, terms

TOOLS = """# Tools

<chunk id="drill" description="How to drill holes">Clamp the wood and start slowly.</chunk>
<chunk id="saw" description="How to saw planks">Let the blade do the work.</chunk>
<chunk id="glue" description="How to glue joints">Press for an hour.</chunk>
"""
WORDS = (
    "clamp wood blade plank press hour hole joint slow paint brush nail hammer screw oil".split()
)


@pytest.fixture
def workshop(root, add_skill, build):
    add_skill(root / "workshop", "workshop", "Work with wood and tools.", TOOLS)
    return build(root)


def best(index, query):
    return index.search(query, threshold=0.0)[0].chunk


@pytest.mark.parametrize(
    ("query", "chunk"),
    [
        ("saw planks with wood tools", "saw"),
        ("work with wood tools: press the joints", "glue"),
        ("tools: drill", "drill"),
        ("workshop", ""),
    ],
)
def test_a_hit_names_the_chunk_that_fits(workshop, query, chunk):
    hit = workshop.search(query, threshold=0.0)[0]
    assert (hit.name, hit.chunk) == ("workshop", chunk)
    assert hit.to_dict().get("chunk", "") == chunk
    assert ("chunk" in hit.to_dict()) == bool(chunk)


def test_chunks_change_no_ranking(root, add_skill, build):
    add_skill(root / "workshop", "workshop", "Work with wood and tools.", TOOLS)
    with_chunks = build(root)
    corpus = replace(with_chunks.opened.corpus, chunks=(None,))
    with_hits = with_chunks.search("saw wood", 6, 0.0)
    with_chunks.opened = replace(with_chunks.opened, corpus=corpus)
    without_hits = with_chunks.search("saw wood", 6, 0.0)
    assert [replace(hit, chunk="") for hit in with_hits] == list(without_hits)


def random_text(rng, k):
    return " ".join(rng.choices(WORDS, k=k))


def chosen(index, query, document):
    """Choose the chunk of a document by the definition, from the texts alone."""
    embedder = load_embedder("hashing")
    bodies = {d.doc_id: index.get(d.doc_id) for d in index.documents()}
    having = [set(terms(f"{s.name} {s.description} {s.body}")) for s in bodies.values()]
    frequency = {term: sum(term in those for those in having) for term in terms(query)}
    count = len(bodies)
    idf = {t: math.log(1 + (count - f + 0.5) / (f + 0.5)) for t, f in frequency.items()}
    vector = embed(embedder, [query])[0]
    scores = {}
    for chunk in parse_chunks(bodies[document.doc_id].body).chunks:
        text = f"{chunk.id}: {chunk.description}\n{chunk.content}"
        half = embed(embedder, [text])[0].astype(np.float16).astype(np.float32)
        cosine = float(half @ vector)
        shared = set(terms(text)) & idf.keys()
        share = sum(idf[term] for term in shared) / sum(idf.values())
        if shared or cosine >= 0.3:
            scores[chunk.id] = round(cosine + share, 5)
    return max(scores, key=scores.get, default="")


@pytest.mark.parametrize("seed", range(2))
def test_the_chunk_is_the_one_of_the_definition(tmp_path, add_skill, build, seed):
    rng = random.Random(seed)
    for number in range(8):
        chunks = [
            f'<chunk id="c{n}" description="{random_text(rng, 2)}">{random_text(rng, 5)}</chunk>'
            for n in range(rng.randrange(5))
        ]
        body = "\n".join(["Intro.", *chunks])
        add_skill(tmp_path / "s" / f"k{number}", f"k{number}", random_text(rng, 3), body)
    index = build(tmp_path / "s")
    by_id = {document.doc_id: document for document in index.documents()}
    seen = Counter()
    for _ in range(12):
        query = random_text(rng, rng.randrange(1, 5)) + rng.choice(["", " unknown"])
        for hit in index.search(query, n=8, threshold=0.0):
            assert hit.chunk == chosen(index, query, by_id[hit.doc_id])
            seen[hit.chunk] += 1
    assert len(seen) >= 4


def shares_of(*names):
    hashes = np.array(sorted(map(term_hash, names)), np.uint64)
    return hashes, np.full(len(names), 1 / len(names))


def query(*vector):
    return np.array(vector, np.float32)


@pytest.fixture
def index_of(tmp_path):
    """Index documents given as lists of pairs: the terms of a chunk and its vector."""

    def build(*documents):
        folder = tmp_path / "chunks"
        folder.mkdir()
        writer = ChunkWriter(folder, 2)
        for number, document in enumerate(documents):
            writer.add(number, [term_set(terms.split()) for terms, _ in document])
        for document in documents:
            vectors = np.array([vector for _, vector in document], np.float32)
            writer.add_vectors(vectors.reshape(-1, 2))
        writer.finish(len(documents))
        return ChunkIndex.find(folder)

    return build


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([("a", [0, 1]), ("b", [0, 1])], 0),
        ([("c", [0, 1]), ("b", [0, 1])], 1),
        ([("a", [0, 1]), ("a b", [0, 1])], 1),
        ([("a", [0, 1]), ("c", [1, 0])], 1),
        ([("a", [0, 1]), ("c", [0.4, 0])], 0),
        ([("c", [0.3125, 0])], 0),
        ([("c", [0.25, 0])], None),
        ([("a", [-1, 0])], 0),
        ([("", [0, 0])], None),
        ([], None),
    ],
)
def test_the_best_chunk_shares_terms_or_is_similar(index_of, chunks, expected):
    """A tie goes to the first; without a term of the query only what is similar counts."""
    index = index_of([("a b", [1, 0])], chunks, [("a b", [1, 0])])
    assert index.best(query(1, 0), shares_of("a", "b"), 1) == expected


def test_terms_share_the_weight_by_their_idf(segment_of):
    """Lucene's; the rarest weighs the most, and a term that all documents have still something."""
    field = LexicalField.of(segment_of([["a", "b"], ["a"], ["a"]]))
    shares = term_shares(field, field.weigh(Counter("abz")))
    weights = [math.log(1 + 0.5 / 3.5), math.log(1 + 2.5 / 1.5), math.log(1 + 3.5 / 0.5)]
    expected = {term_hash(t): w / sum(weights) for t, w in zip("abz", weights, strict=True)}
    assert shares[0].tolist() == sorted(expected)
    assert dict(zip(*map(np.ndarray.tolist, shares), strict=True)) == pytest.approx(expected)


def test_an_index_of_chunks_is_mapped(index_of):
    index = index_of([], [("a b", [1, 0]), ("", [0, 0])], [], [("c", [0, 1])])
    assert index.size == 4
    assert index.vectors.dtype == np.float16
    assert index.vectors.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert index.starts.tolist() == [0, 0, 2, 2, 3]
    assert index.best(query(0, 1), shares_of("c"), 3) == 0


def test_without_chunks_there_is_no_part(index, tmp_path):
    folder = tmp_path / "chunks"
    folder.mkdir()
    writer = ChunkWriter(folder, 2)
    writer.add(0, [])
    writer.finish(3)
    assert list(folder.iterdir()) == []
    assert index.opened.corpus.chunks == (None,)
    assert not list(index.opened.folder.glob("chunks-*"))
    assert ChunkIndex.find(folder) is None


def test_an_index_of_metadata_alone_has_no_chunks(workshop, root, build):
    assert workshop.opened.corpus.chunks != (None,)
    index = build(root, index_dir="metadata", with_body=False)
    assert index.opened.corpus.chunks == (None,)
    assert [document.chunks for document in index.documents()] == [()] * 6
    assert best(index, "work with wood") == ""


@pytest.mark.parametrize("name", ["starts", "vectors", "term_starts", "terms"])
@pytest.mark.parametrize(
    "damage",
    [
        None,
        np.zeros(0, np.int64),
        np.zeros((2, 2, 2), np.float16),
        np.zeros(9, np.float64),
        np.zeros(9, np.uint64),
        np.full(9, 7),
    ],
    ids=["missing", "empty", "deep", "float", "long", "other"],
)
def test_arrays_that_do_not_fit_are_a_cache_error(tmp_path, index_of, name, damage):
    index_of([], [("a b", [1, 0])])
    path = tmp_path / "chunks" / f"chunks-{name}.npy"
    path.unlink()
    if damage is not None:
        np.save(path, damage)
    with pytest.raises(CacheError):
        ChunkIndex.load(tmp_path / "chunks")


def test_chunks_of_unchanged_skills_are_taken_over_unread(workshop, root, build, add_skill, disk):
    build(root)
    add_skill(root / "attic", "attic", "Tidy up.", "<chunk id=box description=Boxes>Fold.</chunk>")
    disk.forget()
    index = build(root)
    assert disk.opened == ["attic"]
    assert best(index, "saw planks with wood tools") == "saw"
    assert index.opened.corpus.chunks[0].starts.tolist() == [0, 1, 1, 1, 1, 1, 1, 4]
    assert index.generation == build(root, index_dir="fresh").generation


def test_a_hostile_number_of_chunks_is_cut(tmp_path, add_skill, build):
    body = "".join(f"<chunk id=c{n} description=d>word{n}</chunk>\n" for n in range(300))
    add_skill(tmp_path / "s" / "many", "many", "Many chunks.", body)
    index = build(tmp_path / "s")
    (document,) = index.documents()
    assert [chunk[0] for chunk in document.chunks] == [f"c{n}" for n in range(200)]
    assert best(index, "word199") == "c199"
    assert index.search("many word299", threshold=0.0)[0].name == "many"
