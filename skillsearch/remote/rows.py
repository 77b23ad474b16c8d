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
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.index.chunk_index import term_set
from skillsearch.index.documents import Document, name_hash
from skillsearch.index.fields import FieldTexts
from skillsearch.remote import schema
from skillsearch.remote.client import Row
from skillsearch.text.tokenizer import term_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

Vectors = Sequence[Mapping[bytes, "NDArray[np.float32]"]]
"""For each dense channel, the vectors by the key of the text that they embed."""
_MAX_BYTES = 16 << 20  # more than any of our rows unpacks to: a SKILL.md has at most 1 MiB
_KEY_BYTES = 16
_CHUNKS = struct.Struct("<II")
_COUNTS = struct.Struct("<III")
_MAX_FREQUENCY = np.iinfo(np.uint16).max
_TOKEN_BYTES = 5  # bytes of a term's hash that its token keeps; Milvus itself keeps four
_TOKEN_CHARS = 8
MAX_TOKENS = 65_535 // (_TOKEN_CHARS + 1)  # tokens that fit a text field of Milvus
_DAMAGE = (AttributeError, KeyError, RecursionError, TypeError, ValueError)


@contextmanager
def checked(what: str) -> Iterator[None]:
    """Raise `CacheError` for any error that damaged data causes inside."""
    try:
        yield
    except (*_DAMAGE, struct.error, zlib.error) as exc:
        raise CacheError(f"{what} is damaged: {exc}") from exc


def pack(data: bytes) -> list[str]:
    """Compress bytes into ASCII texts that fit an array field."""
    if not data:
        return []
    text = base64.b64encode(zlib.compress(data, 6)).decode("ascii")
    size = schema.PIECE_CHARS
    return [text[begin : begin + size] for begin in range(0, len(text), size)]


def unpack(pieces: Sequence[str]) -> bytes:
    """Return the bytes that were packed; raise `CacheError` if they are damaged or too large."""
    with checked("a row of the collection"):
        if len(pieces) > schema.MAX_PIECES:
            raise ValueError("it has too many pieces")
        packed = base64.b64decode("".join(pieces), validate=True)
        if not packed:
            return b""
        inflater = zlib.decompressobj()
        data = inflater.decompress(packed, _MAX_BYTES)
        if not inflater.eof:
            raise ValueError("it is truncated or too large")
    return data


class CountedTerms(NamedTuple):
    """The distinct terms of a document: their hashes, uint64, ascending, and how often each occurs.

    The `frequencies`, uint16, have a row for each field of `LEXICAL`, the `lengths` their sums.
    """

    hashes: NDArray[np.uint64]
    frequencies: NDArray[np.uint16]
    lengths: tuple[int, int]

    @classmethod
    def of(cls, metadata_terms: Sequence[str], full_terms: Sequence[str]) -> CountedTerms:
        """Count terms; a frequency above 65,535 is cut to that."""
        counters = Counter(metadata_terms), Counter(full_terms)
        terms = {term_hash(term): term for counter in counters for term in counter}
        hashes = sorted(terms)
        counts = [[min(one[terms[key]], _MAX_FREQUENCY) for key in hashes] for one in counters]
        lengths = (sum(counts[0]), sum(counts[1]))
        return cls(np.array(hashes, np.uint64), np.array(counts, np.uint16), lengths)

    def to_bytes(self) -> bytes:
        """Return the form that a row holds."""
        parts = (self.hashes.astype("<u8"), self.frequencies.astype("<u2"))
        head = _COUNTS.pack(len(self.hashes), *self.lengths)
        return head + b"".join(part.tobytes() for part in parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> CountedTerms:
        """Read the result of `to_bytes`; raise `CacheError` if it is damaged."""
        with checked("the list of terms of a row"):
            size, metadata_length, full_length = _COUNTS.unpack_from(data)
            hashes = np.frombuffer(data, "<u8", size, _COUNTS.size).astype(np.uint64)
            numbers = np.frombuffer(data, "<u2", 2 * size, _COUNTS.size + 8 * size)
            frequencies = numbers.astype(np.uint16).reshape(2, size)
        return cls(hashes, frequencies, (metadata_length, full_length))

    def text(self, field: str) -> str:
        """Return a field as tokens, one an occurrence; repeats that do not fit are dropped."""
        counts = self.frequencies[schema.LEXICAL.index(field)]
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
    """Return a term's token: letters and digits, which no analyzer splits, and valid UTF-8."""
    head = (term >> (64 - 8 * _TOKEN_BYTES)).to_bytes(_TOKEN_BYTES, "big")
    return base64.b32encode(head).decode("ascii").lower()


def query_text(hashes: Iterable[int], limit: int) -> str:
    """Return the search text of a lexical field: the tokens of the first `limit` terms."""
    return " ".join(map(token, list(hashes)[:limit]))


def key_of(doc_id: str) -> str:
    """Return the key of a document in Milvus; its id may be long, and not valid UTF-8."""
    data = doc_id.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).digest()[:_KEY_BYTES].hex()


def name_key(name: str) -> int:
    """Return `name_hash` as a signed integer, the only kind that Milvus has."""
    value = name_hash(name)
    return value - (1 << 64) if value >> 63 else value


def state_of(content_hash: str, path: Path, root: Path) -> str:
    """Return a digest of all that determines a row besides the settings of the index."""
    return key_of(f"{content_hash}\0{path}\0{root}")


class Addition(NamedTuple):
    """A skill to add, whether its name means another, and the id of the row that it replaces."""

    texts: FieldTexts
    data: bytes
    shadowed: bool = False
    replaces: str = ""


def row_of(addition: Addition, vectors: Vectors, *, since: int, with_body: bool) -> Row:
    """Make the row of a document, seen from version `since` on; the vectors hold all its texts."""
    texts, document = addition.texts, addition.texts.document
    key = key_of(document.doc_id)
    counted = CountedTerms.of(texts.metadata_terms, texts.full_terms if with_body else ())
    dense = schema.dense_fields(len(document.keys), with_body=with_body)
    embedded = {
        name: known[bytes.fromhex(text_key)]
        for known, names, keys in zip(vectors, dense, document.keys, strict=True)
        for name, text_key in zip(names, keys, strict=False)
    }
    chunks = b""
    if texts.chunks:
        rows = np.stack([vectors[0][bytes.fromhex(chunk.record[2])] for chunk in texts.chunks])
        sets = [term_set(chunk.terms) for chunk in texts.chunks]
        lengths = np.array([len(terms) for terms in sets], "<u4")
        parts = (lengths, rows.astype("<f2"), *(terms.astype("<u8") for terms in sets))
        chunks = _CHUNKS.pack(*rows.shape) + b"".join(part.tobytes() for part in parts)
    return {
        "id": f"{key}-{since}",
        "root": schema.partition_of(document.alias),
        "key": key,
        "state": state_of(document.content_hash, Path(document.path), Path(document.root)),
        "since": since,
        "until": schema.FOREVER,
        "name_key": name_key(document.name),
        "hidden": document.hidden,
        "shadowed": addition.shadowed,
        "record": pack(json.dumps(astuple(document)).encode()),
        "counts": pack(counted.to_bytes()),
        "chunks": pack(chunks),
        "content": pack(addition.data),
        **{f"terms_{name}": counted.text(name) for name in schema.LEXICAL[: 1 + with_body]},
        **embedded,
    }


def document_of(row: Row) -> Document:
    """Read the document of a row with ``record``; raise `CacheError` if it is damaged."""
    with checked("the record of a row"):
        document = Document(*json.loads(unpack(row["record"])))
        for name in ("doc_id", "name", "description", "path", "root"):
            if not isinstance(getattr(document, name), str):
                raise TypeError(f"its {name} is not a text")
    return document


def counts_of(row: Row) -> CountedTerms:
    """Read the terms of a row with ``counts``; raise `CacheError` if they are damaged."""
    return CountedTerms.from_bytes(unpack(row["counts"]))


def chunks_of(row: Row) -> tuple[NDArray[np.float16], list[NDArray[np.uint64]]]:
    """Read vectors and `term_set` of the chunks of a row, or raise `CacheError`."""
    data = unpack(row["chunks"])
    if not data:
        return np.zeros((0, 0), np.float16), []
    with checked("the list of chunks of a row"):
        size, dimensions = _CHUNKS.unpack_from(data)
        lengths = np.frombuffer(data, "<u4", size, _CHUNKS.size).astype(np.int64)
        begin = _CHUNKS.size + 4 * size
        vectors = np.frombuffer(data, "<f2", size * dimensions, begin).astype(np.float16)
        terms = np.frombuffer(data, "<u8", int(lengths.sum()), begin + 2 * len(vectors))
        sets = np.split(terms.astype(np.uint64), np.cumsum(lengths)[:-1])
        return vectors.reshape(size, dimensions), sets
