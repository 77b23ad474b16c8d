"""Texts that the caches lack, embedded beside whoever reads them."""

import threading
from pathlib import Path

import pytest

from skillsearch.embedders.embedding import HashingEmbedder, text_key
from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.errors import EmbedderError
from skillsearch.index.build.embedding import Channel, EmbeddingQueue, keys_of
from skillsearch.index.documents import field_texts
from skillsearch.types import Skill, SkillMetadata

SECONDS = 120
CHUNKED = "Intro.\n<chunk id=a description=A>One.</chunk>"
OTHER = CHUNKED.replace("One", "Two")


class Recorder:
    """Embeds as the hashing embedder does and keeps what it was asked for.

    Attributes:
        asked: The texts of each call.
        gate: Waited for before each text.
        fails_at: The text that cannot be embedded.
    """

    name = fingerprint = "recorder"
    dimensions = 32
    scripts = None

    def __init__(self):
        self.asked = []
        self.gate = threading.Event()
        self.gate.set()
        self.fails_at = None

    def embed_stream(self, texts, *, role="passage"):
        """Embed texts in reverse order."""
        self.asked.append(list(texts))
        for position in reversed(range(len(texts))):
            assert self.gate.wait(SECONDS)
            if texts[position] == self.fails_at:
                raise EmbedderError("it cannot be embedded")
            (embedded,) = HashingEmbedder(self.dimensions).embed_stream([texts[position]])
            yield embedded._replace(position=position)


def texts_of(name, body="", channels=1):
    """Return the texts of a skill."""
    skill = Skill(name, SkillMetadata(name, "About."), body, Path(name), Path("/"), "")
    return field_texts(skill, [None] * channels)


@pytest.fixture
def embedder():
    """An embedder that keeps what it was asked for."""
    return Recorder()


@pytest.fixture
def channel(embedder, tmp_path):
    """A channel of that embedder."""
    with EmbeddingCache(tmp_path, embedder.fingerprint, embedder.dimensions) as cache:
        yield Channel("recorder", embedder, cache)


@pytest.fixture
def steps():
    """Records the progress reported."""
    return []


@pytest.fixture
def start(channel, steps):
    """Begin to embed for the channel."""
    return lambda **sizes: EmbeddingQueue([channel], lambda *step: steps.append(step), **sizes)


def test_every_text_that_is_missing_is_embedded_once(start, channel, embedder, steps):
    """Whichever documents have it, and in a later run not at all."""
    texts = [texts_of(name) for name in ("tea", "tea", "pdf")]
    for expected in (2, 0):
        with start() as embedding:
            for number, one in enumerate(texts, 1):
                embedding.add(one, number / 3)
            embedding.finish()
        assert embedding.embedded == expected
    (asked,) = embedder.asked
    assert sorted(asked) == sorted({one.embedded[0].metadata for one in texts})
    for text in asked:
        (vector,) = HashingEmbedder(32).embed_stream([text])
        assert channel.cache.matrix([text_key(text)])[0].tolist() == vector.vector.tolist()
    assert steps == [("embed", 1, 2), ("embed", 2, 2)]


def test_chunks_are_embedded_too(start, embedder):
    """As their documents name them."""
    texts = texts_of("tea", CHUNKED)
    with start() as embedding:
        embedding.add(texts, 1.0)
        embedding.finish()
    (asked,) = embedder.asked
    assert sorted(asked) == sorted([texts.embedded[0].metadata, texts.chunks[0].head])
    assert sorted(map(text_key, asked)) == sorted(keys_of(texts.document, 0))


def test_bodies_are_embedded_by_the_second_channel_alone(channel, embedder, tmp_path):
    """Each channel has its own texts, and its own keys of them; of a skill in another language."""
    texts = texts_of(
        "tee", f"Grüner Tee wird nicht mit kochendem Wasser gebrüht. {CHUNKED}", channels=2
    )
    other = Recorder()
    with EmbeddingCache(tmp_path, "other", other.dimensions) as cache:
        channels = [channel, Channel("other", other, cache)]
        with EmbeddingQueue(channels, lambda *step: None) as embedding:
            embedding.add(texts, 1.0)
            embedding.finish()
            assert embedding.lacking([texts.document]) == [False]
    metadata = texts.embedded[0].metadata
    assert sorted(embedder.asked[0]) == sorted([metadata, texts.chunks[0].head])
    assert sorted(other.asked[0]) == sorted([metadata, texts.embedded[1].body_head])
    assert texts.embedded[1].body_head.endswith(CHUNKED)


def test_batches_are_bounded_and_no_text_is_embedded_twice(start, embedder):
    """Not even one that is under way in the batch before."""
    with start(batch=8) as embedding:
        for number in range(50):
            embedding.add(texts_of(f"skill-{number // 2}"), 0.5)
        embedding.finish()
    asked = [text for call in embedder.asked for text in call]
    assert len(asked) == len(set(asked)) == embedding.embedded == 25
    assert max(map(len, embedder.asked)) <= 8


def test_texts_are_gathered_while_others_are_embedded(start, embedder):
    """A whole batch of them, and then the reader waits."""
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


def test_the_total_is_extrapolated_until_all_is_read(start, steps):
    """From the share that was read, and exact in the end."""
    with start(batch=4) as embedding:
        for number in range(4):
            embedding.add(texts_of(f"skill-{number}"), (number + 1) / 20)
        embedding._wait()
        assert steps == [("embed", done, 20) for done in range(1, 5)]
        for number in (4, 5):
            embedding.add(texts_of(f"skill-{number}"), 0.3)
        embedding.finish()
    assert steps[4:] == [("embed", 5, 6), ("embed", 6, 6)]


def test_an_error_of_the_embedder_reaches_the_reader(start, embedder, channel):
    """And what was embedded before is kept."""
    texts = texts_of("tea", CHUNKED)
    embedder.fails_at = texts.embedded[0].metadata
    with start() as embedding:
        embedding.add(texts, 1.0)
        with pytest.raises(EmbedderError, match="cannot be embedded"):
            embedding.finish()
    assert channel.cache.has(keys_of(texts.document, 0)).tolist() == [False, True]


def test_leaving_stops_what_is_under_way(start, embedder):
    """After the text that is being embedded."""
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


def test_documents_that_lack_a_vector_are_told(start, channel):
    """In any channel, whichever of their texts it is."""
    texts = [texts_of("tea", CHUNKED), texts_of("pdf"), texts_of("sql", OTHER)]
    for key in (*keys_of(texts[0].document, 0), *keys_of(texts[2].document, 0)[:1]):
        channel.cache.add(key, [0.0] * 32)
    with start() as embedding:
        assert embedding.lacking([one.document for one in texts]) == [False, True, True]
        assert embedding.lacking([]) == []
