"""Texts that the caches lack, embedded beside whoever reads them."""

import threading
from pathlib import Path

import pytest

from skillsearch.embedders.embedding import HashingEmbedder, text_key
from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.errors import EmbedderError
from skillsearch.index.documents.document import field_texts
from skillsearch.index.indexing import embedding as building
from skillsearch.index.indexing.embedding import CachedEmbedder, EmbeddingQueue, NewVectors
from skillsearch.types.skills import Skill, SkillMetadata

SECONDS = 120
CHUNKED = "Intro.\n<chunk id=a description=A>One.</chunk>"


class Recorder:
    """Embeds as the hashing embedder does and keeps what it was asked for.

    Attributes:
        batches: The texts of each call.
        gate: Waited for before each text.
        fails_at: The text that cannot be embedded.
    """

    name = fingerprint = "recorder"
    dimensions = 32

    def __init__(self):
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()
        self.fails_at = None

    def embed_stream(self, texts):
        self.batches.append(list(texts))
        for position in reversed(range(len(texts))):
            assert self.gate.wait(SECONDS)
            if texts[position] == self.fails_at:
                raise EmbedderError("it cannot be embedded")
            (embedded,) = HashingEmbedder(self.dimensions).embed_stream([texts[position]])
            yield embedded._replace(position=position)


def texts_of(name, body=""):
    skill = Skill(name, SkillMetadata(name, "About."), body, Path(name), Path("/"), "")
    return field_texts(skill)


def keys_of(document):
    return [bytes.fromhex(key) for key in (document.key, *(c[2] for c in document.chunks))]


@pytest.fixture
def embedder():
    return Recorder()


@pytest.fixture
def cached(embedder):
    with EmbeddingCache(embedder.fingerprint, embedder.dimensions) as cache:
        yield CachedEmbedder(embedder, cache)


@pytest.fixture
def steps():
    return []


@pytest.fixture
def start(cached, steps, tmp_path):
    arguments = (lambda *step: steps.append(step)), tmp_path
    return lambda **sizes: EmbeddingQueue(cached, *arguments, **sizes)


def test_every_text_that_is_missing_is_embedded_once(start, cached, embedder, steps):
    texts = [texts_of(name) for name in ("tea", "tea", "pdf")]
    for expected in (2, 0):
        with start() as embedding:
            for number, skill_texts in enumerate(texts, 1):
                embedding.add(skill_texts, number / 3)
            embedding.finish()
            wanted_texts = [skill_texts.metadata for skill_texts in texts]
            matrix = embedding.vectors.matrix(map(text_key, wanted_texts))
            vectors = [
                embedded.vector for embedded in HashingEmbedder(32).embed_stream(wanted_texts)
            ]
            assert matrix.tolist() == [vector.tolist() for vector in vectors]
        assert embedding.embedded == expected
    (batch,) = embedder.batches
    assert sorted(batch) == sorted(set(wanted_texts))
    vectors_by_key = cached.cache.get(map(text_key, wanted_texts))
    for text, vector in zip(wanted_texts, vectors, strict=True):
        assert vectors_by_key[text_key(text)].tolist() == vector.tolist()
    assert steps == [("embed", 1, 2), ("embed", 2, 2)]


def test_chunks_are_embedded_too(start, embedder):
    texts = texts_of("tea", CHUNKED)
    with start() as embedding:
        embedding.add(texts, 1.0)
        embedding.finish()
    (batch,) = embedder.batches
    assert sorted(batch) == sorted([texts.metadata, texts.chunks[0].head])
    assert sorted(map(text_key, batch)) == sorted(keys_of(texts.document))


def test_batches_are_bounded_and_no_text_is_embedded_twice(start, embedder):
    with start(batch=8) as embedding:
        for number in range(50):
            embedding.add(texts_of(f"skill-{number // 2}"), 0.5)
        embedding.finish()
    embedded = [text for batch in embedder.batches for text in batch]
    assert len(embedded) == len(set(embedded)) == embedding.embedded == 25
    assert max(map(len, embedder.batches)) <= 8


def test_texts_are_gathered_while_others_are_embedded(start, embedder):
    embedder.gate.clear()
    with start(batch=4) as embedding:
        for number in range(7):
            embedding.add(texts_of(f"skill-{number}"), 0.1)
        waiting = threading.Thread(target=lambda: embedding.add(texts_of("skill-7"), 0.1))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        assert embedding.embedded == 0
        embedder.gate.set()
        waiting.join(SECONDS)
        embedding.finish()
    assert embedding.embedded == 8


def test_a_killed_run_would_lose_only_the_last_vectors(cached, tmp_path):
    texts = [texts_of(f"skill-{number}") for number in range(3 * building.FLUSHED)]
    keys = [key for skill_texts in texts for key in keys_of(skill_texts.document)]
    unsaved = []

    def count(stage, done, total):
        with EmbeddingCache("recorder", 32) as other:
            unsaved.append(done - len(other.get(keys)))

    with EmbeddingQueue(cached, count, tmp_path) as embedding:
        for number, skill_texts in enumerate(texts, 1):
            embedding.add(skill_texts, number / len(texts))
        embedding.finish()
    assert len(unsaved) == len(texts)
    assert max(unsaved) <= building.FLUSHED


def test_the_total_is_extrapolated_until_all_is_read(start, steps):
    with start(batch=4) as embedding:
        for number in range(4):
            embedding.add(texts_of(f"skill-{number}"), (number + 1) / 20)
        embedding._wait()
        assert steps == [("embed", done, 20) for done in range(1, 5)]
        for number in (4, 5):
            embedding.add(texts_of(f"skill-{number}"), 0.3)
        embedding.finish()
    assert steps[4:] == [("embed", 5, 6), ("embed", 6, 6)]


def test_an_error_of_the_embedder_reaches_the_reader(start, embedder, cached):
    texts = texts_of("tea", CHUNKED)
    embedder.fails_at = texts.metadata
    with start() as embedding:
        embedding.add(texts, 1.0)
        with pytest.raises(EmbedderError, match="cannot be embedded"):
            embedding.finish()
    assert list(cached.cache.get(keys_of(texts.document))) == keys_of(texts.document)[1:]


def test_leaving_stops_what_is_under_way(start, embedder):
    embedder.gate.clear()

    def interrupted(embedding):
        with embedding:
            for number in range(10):
                embedding.add(texts_of(f"skill-{number}"), 1.0)
            threading.Timer(0.1, embedder.gate.set).start()
            raise KeyboardInterrupt

    embedding = start(batch=10)
    with pytest.raises(KeyboardInterrupt):
        interrupted(embedding)
    assert embedding.embedded <= 1


def test_without_a_cache_the_vectors_are_there_all_the_same(start, embedder, home, caplog):
    (home / "cache").write_text("a file", encoding="utf-8")
    texts = texts_of("tea", CHUNKED)
    for _ in range(2):
        with start() as embedding:
            embedding.add(texts, 1.0)
            embedding.finish()
            assert len(embedding.vectors.matrix(keys_of(texts.document))) == 2
        assert embedding.embedded == 2
    assert caplog.text.count("cannot be used") == 1


@pytest.mark.parametrize("in_memory", [1 << 20, 100, 1])
def test_new_vectors_are_read_in_any_order(tmp_path, monkeypatch, in_memory):
    monkeypatch.setattr(building, "_IN_MEMORY", in_memory)
    vectors = NewVectors(tmp_path, 3)
    rows = {text_key(str(number)): [number, 0, -number] for number in range(20)}
    for key, row in rows.items():
        vectors.add(key, row)
    assert text_key("7") in vectors
    assert text_key("70") not in vectors
    keys = [*reversed(rows), *rows]
    assert vectors.matrix(keys).tolist() == [rows[key] for key in keys]
    assert vectors.matrix([]).shape == (0, 3)
    vectors.close()
    assert list(tmp_path.iterdir()) == []
