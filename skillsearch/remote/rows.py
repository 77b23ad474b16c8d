"""Convert skills to rows of Milvus and back, and check every row that is read.

A generation has a collection of documents, and one of the terms in them. An alias points to the
terms, whose row `HEAD` names the current version: it switches everything.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import CacheError, UnusableError
from skillsearch.index.chunk_index import term_set
from skillsearch.index.dense.vectors import mean_vector
from skillsearch.index.documents.document import Document, FieldTexts, name_hash
from skillsearch.remote.client import Field, MilvusRow
from skillsearch.skills.example_requests import beside_hash, digest_of_skill
from skillsearch.text.tokenizer import term_hash
from skillsearch.types.json_values import Json
from skillsearch.types.skills import Example

Vectors = Mapping[bytes, NDArray[np.float32]]
"""Vectors by the key of the text that they embed."""
COLLECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
"""Names that Milvus accepts, even with our suffixes."""
HEAD = "head"
TERM, RECORD, CLAIM = 0, 1, 2
"""Kinds of rows among the terms: a term, a record of ours, the claim of a writer."""
FOREVER = (1 << 62) - 1  # ``until`` of a row in use
LEXICAL = ("metadata", "full")
TERMS: Mapping[str, Field] = {"metadata": "terms_metadata", "full": "terms_full"}
"""Text fields that Milvus searches by words, by the lexical field that each holds."""
DENSE: tuple[Field, Field] = ("dense_metadata", "dense_examples")
"""Vector fields: of the metadata, and the mean of the examples, which the metadata stands for."""
PIECE_CHARS = 60_000
"""Length of one text of a packed field; Milvus takes 65,535 bytes, and these are ASCII."""
MAX_PIECES = 128
FREQUENCIES: tuple[Field, ...] = ("version", "metadata", "full", "metadata_before", "full_before")
"""The fields of the row of a term: document frequencies at its version, and before it."""
_NUMBERED = re.compile(r"(.+)_g([0-9]{6})_terms")
ROOT_CHARS = 512  # characters of a root's alias that decide the partition of its rows
_MAX_BYTES = 16 << 20  # more than any of our rows unpacks to: a SKILL.md has at most 1 MiB
_KEY_BYTES = 16
_CHUNKS = struct.Struct("<II")
_COUNTS = struct.Struct("<III")
_MAX_FREQUENCY = np.iinfo(np.uint16).max
_TOKEN_BYTES = 5  # bytes of a term's hash that its token keeps; Milvus itself keeps four
_TOKEN_CHARS = 8
MAX_TOKENS = 65_535 // (_TOKEN_CHARS + 1)  # tokens that fit a text field of Milvus
_DAMAGE = (AttributeError, KeyError, RecursionError, TypeError, ValueError)


class RemoteGeneration(NamedTuple):
    """The collections of one generation, numbered from 1, of the index named `alias`."""

    alias: str
    number: int

    @property
    def documents(self) -> str:
        """The collection of documents."""
        return f"{self.alias}_g{self.number:06d}"

    @property
    def terms(self) -> str:
        """The collection of terms."""
        return f"{self.documents}_terms"

    @classmethod
    def of(cls, terms: str, alias: str) -> RemoteGeneration | None:
        """Return the generation of a collection of terms; None for any other name."""
        match = _NUMBERED.fullmatch(terms)
        return cls(alias, int(match[2])) if match and match[1] == alias else None


def note_row(key: str, kind: int, version: int, record: Json = None) -> MilvusRow:
    """Return a row of the collection of terms that holds a record, if any, instead of a term."""
    note = [] if record is None else pack(json.dumps(record).encode())
    return {**term_row(key, version, (0, 0), (0, 0)), "kind": kind, "note": note}


def term_row(key: str, version: int, now: Sequence[int], before: Sequence[int]) -> MilvusRow:
    """Return the row of a term: its document frequencies at this version and before it."""
    numbers = dict(zip(FREQUENCIES, (version, *now, *before), strict=True))
    return {"id": key, "kind": TERM, **numbers, "note": [], "nothing": np.zeros(2, np.float32)}


def term_id(term: int) -> str:
    """Return the id of the row of a term, by its hash."""
    return f"{term:016x}"


def frequencies_at(row: MilvusRow | None, version: int) -> tuple[int, int] | None:
    """Return both document frequencies of a term at a version; None if its row forgot them."""
    if row is None:
        return 0, 0
    if row["version"] <= version:
        return int(row["metadata"]), int(row["full"])
    if row["version"] == version + 1:
        return int(row["metadata_before"]), int(row["full_before"])
    return None


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
    return [text[begin : begin + PIECE_CHARS] for begin in range(0, len(text), PIECE_CHARS)]


def unpack(pieces: Sequence[str]) -> bytes:
    """Return the bytes that were packed; raise `CacheError` if they are damaged or too large."""
    with checked("a row of the collection"):
        if len(pieces) > MAX_PIECES:
            raise UnusableError("it has too many pieces")
        packed = base64.b64decode("".join(pieces), validate=True)
        if not packed:
            return b""
        inflater = zlib.decompressobj()
        data = inflater.decompress(packed, _MAX_BYTES)
        if not inflater.eof:
            raise UnusableError("it is truncated or too large")
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
        counts = [[min(tally[terms[key]], _MAX_FREQUENCY) for key in hashes] for tally in counters]
        lengths = (sum(counts[0]), sum(counts[1]))
        return cls(np.array(hashes, np.uint64), np.array(counts, np.uint16), lengths)

    def to_bytes(self) -> bytes:
        """Return the form that a row holds."""
        parts = (self.hashes.astype("<u8"), self.frequencies.astype("<u2"))
        head = _COUNTS.pack(len(self.hashes), *self.lengths)
        return head + b"".join(part.tobytes() for part in parts)

    def text(self, field: str) -> str:
        """Return a field as tokens, one an occurrence; repeats that do not fit are dropped."""
        counts = self.frequencies[LEXICAL.index(field)]
        occurring = np.flatnonzero(counts)
        tokens = list(map(token, self.hashes[occurring].tolist()))
        remaining = counts[occurring].astype(np.int64)
        most = int(remaining.max(initial=0))
        while most > 1 and int(np.minimum(remaining, most).sum()) > MAX_TOKENS:
            most -= max(1, most // 8)
        return " ".join(np.repeat(tokens, np.minimum(remaining, most))[:MAX_TOKENS].tolist())


def token(term: int) -> str:
    """Return a term's token: letters and digits, which no analyzer splits, and valid UTF-8."""
    head = (term >> (64 - 8 * _TOKEN_BYTES)).to_bytes(_TOKEN_BYTES, "big")
    return base64.b32encode(head).decode("ascii").lower()


def key_of(doc_id: str) -> str:
    """Return the key of a document in Milvus; its id may be long, and not valid UTF-8."""
    data = doc_id.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).digest()[:_KEY_BYTES].hex()


def name_key(name: str) -> int:
    """Return `name_hash` as a signed integer, the only kind that Milvus has."""
    value = name_hash(name)
    return value - (1 << 64) if value >> 63 else value


def state_of(content_hash: str, path: str, root: str, beside: str = "") -> str:
    """Return a digest of all files that determine a row; `beside` is as in `SeenFile`."""
    return key_of(f"{content_hash}{beside}\0{path}\0{root}")


def kept_key(examples: Iterable[Example]) -> str:
    """Return a digest of those examples that a skill does not bring itself."""
    return key_of(json.dumps([example for example in examples if example.source != "skill"]))


class Addition(NamedTuple):
    """A skill to add, whether its name means another, and the id of the row that it replaces."""

    texts: FieldTexts
    data: bytes
    shadowed: bool = False
    replaces: str = ""


def row_of(addition: Addition, vectors: Vectors, *, since: int, with_body: bool) -> MilvusRow:
    """Make the row of a document, seen from version `since` on; the vectors hold all its texts."""
    texts, document = addition.texts, addition.texts.document
    key = key_of(document.doc_id)
    counted = CountedTerms.of(texts.metadata_terms, texts.full_terms if with_body else ())
    metadata = vectors[bytes.fromhex(document.key)]
    mean = [vectors[key] for key in texts.example_keys]
    examples = mean_vector(np.stack(mean)) if mean else metadata
    chunks = b""
    if texts.chunks:
        rows = np.stack([vectors[bytes.fromhex(chunk.record[2])] for chunk in texts.chunks])
        sets = [term_set(chunk.terms) for chunk in texts.chunks]
        lengths = np.array([len(terms) for terms in sets], "<u4")
        parts = (lengths, rows.astype("<f2"), *(terms.astype("<u8") for terms in sets))
        chunks = _CHUNKS.pack(*rows.shape) + b"".join(part.tobytes() for part in parts)
    return {
        "id": f"{key}-{since}",
        "root": document.alias[:ROOT_CHARS].encode("utf-8", "replace").decode("utf-8"),
        "key": key,
        "state": state_of(
            document.content_hash,
            document.path,
            document.root,
            beside_hash(document.continuation_hash, document.evals_hash),
        ),
        "skill": digest_of_skill(document.name, document.description),
        "examples": kept_key(document.examples),
        "since": since,
        "until": FOREVER,
        "name_key": name_key(document.name),
        "hidden": document.hidden,
        "shadowed": addition.shadowed,
        "record": pack(json.dumps(astuple(document)).encode()),
        "counts": pack(counted.to_bytes()),
        "chunks": pack(chunks),
        "content": pack(addition.data),
        **{TERMS[name]: counted.text(name) for name in LEXICAL[: 1 + with_body]},
        **dict(zip(DENSE, (metadata, examples), strict=True)),
    }


def document_of(row: MilvusRow) -> Document:
    """Read the document of a row with ``record``; raise `CacheError` if it is damaged."""
    with checked("the record of a row"):
        document = Document.from_json(json.loads(unpack(row["record"])))
        for name in ("doc_id", "name", "description", "path", "root"):
            if not isinstance(getattr(document, name), str):
                raise TypeError(f"its {name} is not a text")
    return document


def counts_of(row: MilvusRow) -> CountedTerms:
    """Read the terms of a row with ``counts``; raise `CacheError` if they are damaged."""
    data = unpack(row["counts"])
    with checked("the list of terms of a row"):
        size, metadata_length, full_length = _COUNTS.unpack_from(data)
        hashes = np.frombuffer(data, "<u8", size, _COUNTS.size).astype(np.uint64)
        numbers = np.frombuffer(data, "<u2", 2 * size, _COUNTS.size + 8 * size)
        frequencies = numbers.astype(np.uint16).reshape(2, size)
    return CountedTerms(hashes, frequencies, (metadata_length, full_length))


def chunks_of(row: MilvusRow) -> tuple[NDArray[np.float16], list[NDArray[np.uint64]]]:
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
