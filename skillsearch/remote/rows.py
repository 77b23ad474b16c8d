"""A skill → the row of its document in Milvus, and back."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.index.chunk_index import term_set
from skillsearch.index.documents import Document, name_hash
from skillsearch.index.fields import FieldTexts
from skillsearch.remote.client import Row
from skillsearch.remote.counted import CountedTerms
from skillsearch.remote.packing import pack, unpack
from skillsearch.remote.schema import FOREVER, dense_fields, lexical_fields, partition_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEY_BYTES = 16
_HEADER = struct.Struct("<II")
Vectors = Sequence[Mapping[bytes, "NDArray[np.float32]"]]
"""Of each dense channel the vectors by the key of the text that they embed."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks of one document.

    Attributes:
        vectors: One row a chunk, float16.
        terms: The `term_set` of each.
    """

    vectors: NDArray[np.float16]
    terms: tuple[NDArray[np.uint64], ...]


def key_of(doc_id: str) -> str:
    """Return what a document is known by in Milvus: an id may be long, and no UTF-8."""
    data = doc_id.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).digest()[:_KEY_BYTES].hex()


def name_key(name: str) -> int:
    """Return `name_hash` as a signed number, as Milvus has them."""
    value = name_hash(name)
    return value - (1 << 64) if value >> 63 else value


def state_of(content_hash: str, path: Path, root: Path) -> str:
    """Return a digest of all that a row is made of beside the settings of the index."""
    data = f"{content_hash}\0{path}\0{root}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).digest()[:_KEY_BYTES].hex()


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
        vectors: Has the vector of every text that is embedded.
        since: The version from which on readers see the row.
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
    """Read the document of a row.

    Args:
        row: A row with ``record``.

    Returns:
        The document.

    Raises:
        CacheError: When it is damaged.
    """
    try:
        document = Document(*json.loads(unpack(row["record"])))
    except (TypeError, ValueError, RecursionError) as exc:
        raise CacheError(f"the record of a row is damaged: {exc}") from exc
    texts = (document.doc_id, document.name, document.description, document.path, document.root)
    if not all(isinstance(text, str) for text in texts):
        raise CacheError("the record of a row is damaged: no text where one is due")
    return document


def counts_of(row: Row) -> CountedTerms:
    """Read the terms of a row with ``counts``; raise CacheError where they are damaged."""
    return CountedTerms.from_bytes(unpack(row["counts"]))


def chunks_of(row: Row) -> Chunks | None:
    """Read the chunks of a row.

    Args:
        row: A row with ``chunks``.

    Returns:
        The chunks; None where there are none.

    Raises:
        CacheError: When they are damaged.
    """
    data = unpack(row["chunks"])
    if not data:
        return None
    try:
        size, dimensions = _HEADER.unpack_from(data)
        lengths = np.frombuffer(data, "<u4", size, _HEADER.size).astype(np.int64)
        begin = _HEADER.size + 4 * size
        vectors = np.frombuffer(data, "<f2", size * dimensions, begin).astype(np.float16)
        terms = np.frombuffer(data, "<u8", int(lengths.sum()), begin + 2 * len(vectors))
    except (struct.error, ValueError) as exc:
        raise CacheError(f"the chunks of a row are damaged: {exc}") from exc
    ends = np.cumsum(lengths)[:-1]
    sets = tuple(part.astype(np.uint64) for part in np.split(terms, ends))
    return Chunks(vectors.reshape(size, dimensions), sets)


def _pack_chunks(texts: FieldTexts, vectors: Mapping[bytes, NDArray[np.float32]]) -> bytes:
    """Return the chunks of a skill as bytes; none where it has none."""
    if not texts.chunks:
        return b""
    rows = np.stack([vectors[bytes.fromhex(chunk.record[2])] for chunk in texts.chunks])
    sets = [term_set(chunk.terms) for chunk in texts.chunks]
    lengths = np.array([len(terms) for terms in sets], "<u4")
    return b"".join(
        [
            _HEADER.pack(len(rows), rows.shape[1]),
            lengths.tobytes(),
            rows.astype("<f2").tobytes(),
            *(terms.astype("<u8").tobytes() for terms in sets),
        ]
    )
