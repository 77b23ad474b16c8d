"""Convert skills to rows of Milvus and back, and check every row that is read."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.index.chunk_index import term_set
from skillsearch.index.documents import Document, name_hash
from skillsearch.index.fields import FieldTexts
from skillsearch.remote.client import Row
from skillsearch.remote.schema import (
    FOREVER,
    MAX_PIECES,
    PIECE_CHARS,
    dense_fields,
    lexical_fields,
    partition_of,
)
from skillsearch.text.tokenizer import term_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

Vectors = Sequence[Mapping[bytes, "NDArray[np.float32]"]]
"""For each dense channel, the vectors by the key of the text that they embed."""
_MAX_BYTES = 16 << 20
"""More than any of our rows unpacks to: a SKILL.md has at most 1 MiB."""
_KEY_BYTES = 16
_CHUNKS = struct.Struct("<II")
_COUNTS = struct.Struct("<III")
_MAX_FREQUENCY = np.iinfo(np.uint16).max
_TOKEN_BYTES = 5
"""Bytes of a term's hash that its token keeps; Milvus itself keeps four."""
_TOKEN_CHARS = 8
MAX_TOKENS = 65_535 // (_TOKEN_CHARS + 1)
"""Tokens that fit a text field of Milvus."""


@contextmanager
def checked(what: str) -> Iterator[None]:
    """Raise `CacheError` for any error that damaged data causes inside."""
    try:
        yield
    except (
        AttributeError,
        KeyError,
        RecursionError,
        TypeError,
        ValueError,
        struct.error,
        zlib.error,
    ) as exc:
        raise CacheError(f"{what} is damaged: {exc}") from exc


def pack(data: bytes) -> list[str]:
    """Compress bytes into ASCII texts that fit an array field."""
    if not data:
        return []
    text = base64.b64encode(zlib.compress(data, 6)).decode("ascii")
    return [text[begin : begin + PIECE_CHARS] for begin in range(0, len(text), PIECE_CHARS)]


def unpack(pieces: Sequence[str]) -> bytes:
    """Return the bytes that were packed; raise `CacheError` if they are damaged or too large."""
    with checked("a row of the collection"):
        if len(pieces) > MAX_PIECES:
            raise ValueError("it has too many pieces")
        packed = base64.b64decode("".join(pieces), validate=True)
        if not packed:
            return b""
        inflater = zlib.decompressobj()
        data = inflater.decompress(packed, _MAX_BYTES)
        if not inflater.eof:
            raise ValueError("it is truncated or too large")
    return data


@dataclass(frozen=True, slots=True)
class CountedTerms:
    """The distinct terms of a document with their frequencies in both lexical fields.

    Attributes:
        hashes: Hash of each term, uint64, ascending.
        metadata: Frequencies in the metadata, uint16.
        full: Frequencies in metadata and body, uint16; all 0 in an index of metadata alone.
        lengths: Terms of the two fields.
    """

    hashes: NDArray[np.uint64]
    metadata: NDArray[np.uint16]
    full: NDArray[np.uint16]
    lengths: tuple[int, int]

    @classmethod
    def of(cls, metadata_terms: Sequence[str], full_terms: Sequence[str]) -> CountedTerms:
        """Count terms; a frequency above 65,535 is cut to that."""
        counters = Counter(metadata_terms), Counter(full_terms)
        terms = {term_hash(term): term for counter in counters for term in counter}
        hashes = np.array(sorted(terms), np.uint64)
        ordered = [terms[key] for key in hashes.tolist()]
        metadata, full = (
            np.array([min(counter[term], _MAX_FREQUENCY) for term in ordered], np.uint16)
            for counter in counters
        )
        lengths = (int(metadata.sum(dtype=np.int64)), int(full.sum(dtype=np.int64)))
        return cls(hashes, metadata, full, lengths)

    def to_bytes(self) -> bytes:
        """Return the form that a row holds."""
        parts = (self.hashes.astype("<u8"), self.metadata.astype("<u2"), self.full.astype("<u2"))
        head = _COUNTS.pack(len(self.hashes), *self.lengths)
        return head + b"".join(part.tobytes() for part in parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> CountedTerms:
        """Read the result of `to_bytes`; raise `CacheError` if it is damaged."""
        with checked("the list of terms of a row"):
            size, metadata_length, full_length = _COUNTS.unpack_from(data)
            hashes = np.frombuffer(data, "<u8", size, _COUNTS.size).astype(np.uint64)
            metadata, full = (
                np.frombuffer(data, "<u2", size, _COUNTS.size + (8 + 2 * place) * size)
                for place in (0, 1)
            )
        return cls(hashes, metadata, full, (metadata_length, full_length))

    def text(self, field: str) -> str:
        """Return a lexical field as Milvus counts it: one token for each occurrence of a term.

        If not all fit, repeats are dropped, those of the most frequent terms first.
        """
        counts = self.metadata if field == "metadata" else self.full
        occurring = np.flatnonzero(counts)
        tokens = list(map(token, self.hashes[occurring].tolist()))
        left = counts[occurring].astype(np.int64)
        most = int(left.max(initial=0))
        while most > 1 and int(np.minimum(left, most).sum()) > MAX_TOKENS:
            most -= max(1, most // 8)
        kept = np.minimum(left, most).tolist()
        repeated = [one for one, count in zip(tokens, kept, strict=True) for _ in range(count)]
        return " ".join(repeated[:MAX_TOKENS])


def token(term: int) -> str:
    """Return the token of a term's hash: eight letters and digits that every analyzer keeps.

    Milvus would split terms such as ``c++``, and not all terms are valid UTF-8.
    """
    head = (term >> (64 - 8 * _TOKEN_BYTES)).to_bytes(_TOKEN_BYTES, "big")
    return base64.b32encode(head).decode("ascii").lower()


def query_text(hashes: Iterable[int], limit: int) -> str:
    """Return the search text of a lexical field: the tokens of the first `limit` terms."""
    return " ".join(map(token, list(hashes)[:limit]))


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks of one document: a float16 vector and a `term_set` for each."""

    vectors: NDArray[np.float16]
    terms: tuple[NDArray[np.uint64], ...]


def _digest(text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).digest()[:_KEY_BYTES].hex()


def key_of(doc_id: str) -> str:
    """Return the key of a document in Milvus; its id may be long, and not valid UTF-8."""
    return _digest(doc_id)


def name_key(name: str) -> int:
    """Return `name_hash` as a signed integer, the only kind that Milvus has."""
    value = name_hash(name)
    return value - (1 << 64) if value >> 63 else value


def state_of(content_hash: str, path: Path, root: Path) -> str:
    """Return a digest of all that determines a row besides the settings of the index."""
    return _digest(f"{content_hash}\0{path}\0{root}")


def row_of(
    texts: FieldTexts,
    data: bytes,
    vectors: Vectors,
    *,
    since: int,
    with_body: bool,
    shadowed: bool = False,
) -> Row:
    """Make the row of a document.

    Args:
        texts: The texts of the skill.
        data: Its SKILL.md.
        vectors: Contain the vector of every text that is embedded.
        since: The first version in which readers see the row.
        with_body: False for an index of metadata alone.
        shadowed: Whether its name means another skill, so that no search finds it.

    Returns:
        The row.
    """
    document = texts.document
    key = key_of(document.doc_id)
    counted = CountedTerms.of(texts.metadata_terms, texts.full_terms if with_body else ())
    dense = dense_fields(len(document.keys), with_body=with_body)
    embedded = {
        name: known[bytes.fromhex(text_key)]
        for known, names, keys in zip(vectors, dense, document.keys, strict=True)
        for name, text_key in zip(names, keys, strict=False)
    }
    return {
        "id": f"{key}-{since}",
        "root": partition_of(document.alias),
        "key": key,
        "state": state_of(document.content_hash, Path(document.path), Path(document.root)),
        "since": since,
        "until": FOREVER,
        "name_key": name_key(document.name),
        "hidden": document.hidden,
        "shadowed": shadowed,
        "record": pack(json.dumps(astuple(document)).encode()),
        "counts": pack(counted.to_bytes()),
        "chunks": pack(_pack_chunks(texts, vectors[0])),
        "content": pack(data),
        **{f"terms_{name}": counted.text(name) for name in lexical_fields(with_body=with_body)},
        **embedded,
    }


def document_of(row: Row) -> Document:
    """Read the document of a row with ``record``; raise `CacheError` if it is damaged."""
    with checked("the record of a row"):
        document = Document(*json.loads(unpack(row["record"])))
        texts = (
            document.doc_id,
            document.name,
            document.description,
            document.path,
            document.root,
        )
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("it lacks a text")
    return document


def counts_of(row: Row) -> CountedTerms:
    """Read the terms of a row with ``counts``; raise `CacheError` if they are damaged."""
    return CountedTerms.from_bytes(unpack(row["counts"]))


def chunks_of(row: Row) -> Chunks | None:
    """Read the chunks, if any, of a row with ``chunks``; raise `CacheError` if damaged."""
    data = unpack(row["chunks"])
    if not data:
        return None
    with checked("the list of chunks of a row"):
        size, dimensions = _CHUNKS.unpack_from(data)
        lengths = np.frombuffer(data, "<u4", size, _CHUNKS.size).astype(np.int64)
        begin = _CHUNKS.size + 4 * size
        vectors = np.frombuffer(data, "<f2", size * dimensions, begin).astype(np.float16)
        terms = np.frombuffer(data, "<u8", int(lengths.sum()), begin + 2 * len(vectors))
        sets = np.split(terms.astype(np.uint64), np.cumsum(lengths)[:-1])
        return Chunks(vectors.reshape(size, dimensions), tuple(sets))


def _pack_chunks(texts: FieldTexts, vectors: Mapping[bytes, NDArray[np.float32]]) -> bytes:
    """Return the chunks of a skill as bytes; none if it has none."""
    if not texts.chunks:
        return b""
    rows = np.stack([vectors[bytes.fromhex(chunk.record[2])] for chunk in texts.chunks])
    sets = [term_set(chunk.terms) for chunk in texts.chunks]
    lengths = np.array([len(terms) for terms in sets], "<u4")
    parts = (lengths, rows.astype("<f2"), *(terms.astype("<u8") for terms in sets))
    return _CHUNKS.pack(*rows.shape) + b"".join(part.tobytes() for part in parts)
