"""The collections of a generation: one of documents, and one of the terms in them.

An alias points to the terms, whose row `HEAD` names the current version: it switches everything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skillsearch.index.dense.channels import ChannelSettings
from skillsearch.index.fields import embeds_body
from skillsearch.index.lexical.okapi import K1, B
from skillsearch.remote.client import Row

COLLECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
"""Names that Milvus accepts, even with our suffixes."""
HEAD = "head"
TERM, RECORD, CLAIM = 0, 1, 2
"""Kinds of rows among the terms: a term, a record of ours, the claim of a writer."""
FOREVER = (1 << 62) - 1  # ``until`` of a row in use
LEXICAL = ("metadata", "full")
PIECE_CHARS = 60_000
"""Length of one text of a packed field; Milvus takes 65,535 bytes, and these are ASCII."""
MAX_PIECES = 128
FREQUENCIES = ("version", "metadata", "full", "metadata_before", "full_before")
"""The fields of the row of a term: document frequencies at its version, and before it."""
_PACKED = ("record", "counts", "chunks", "content")
_NUMBERED = re.compile(r"(.+)_g([0-9]{6})_terms")
_MAX_ID = 64
_MAX_TEXT = 65_535
_ROOT_CHARS = 512  # characters of a root's alias that decide the partition of its rows


@dataclass(frozen=True, slots=True)
class Generation:
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
    def of(cls, terms: str, alias: str) -> Generation | None:
        """Return the generation of a collection of terms; None for any other name."""
        match = _NUMBERED.fullmatch(terms)
        return cls(alias, int(match[2])) if match and match[1] == alias else None


def dense_fields(channels: int, *, with_body: bool) -> tuple[tuple[str, ...], ...]:
    """Return the names of the vector fields of each channel: metadata and maybe body."""
    return tuple(
        (f"dense_{number}_metadata", f"dense_{number}_body")[
            : 1 + embeds_body(number, with_body=with_body)
        ]
        for number in range(channels)
    )


def partition_of(alias: str) -> str:
    """Return the partition key of the root with an alias."""
    return alias[:_ROOT_CHARS].encode("utf-8", "replace").decode("utf-8")


def note_row(key: str, kind: int, version: int, note: list[str]) -> Row:
    """Return a row of the collection of terms that does not stand for a term."""
    return {**term_row(key, version, (0, 0), (0, 0)), "kind": kind, "note": note}


def term_row(key: str, version: int, now: Sequence[int], before: Sequence[int]) -> Row:
    """Return the row of a term: its document frequencies at this version and before it."""
    numbers = dict(zip(FREQUENCIES, (version, *now, *before), strict=True))
    return {"id": key, "kind": TERM, **numbers, "note": [], "nothing": np.zeros(2, np.float32)}


def term_id(term: int) -> str:
    """Return the id of the row of a term, by its hash."""
    return f"{term:016x}"


def frequencies_at(row: Row, version: int) -> tuple[int, int] | None:
    """Return both document frequencies of a term at a version; None if the row forgot it."""
    if row["version"] <= version:
        return int(row["metadata"]), int(row["full"])
    if row["version"] == version + 1:
        return int(row["metadata_before"]), int(row["full_before"])
    return None


def documents_schema(
    library: Any, channels: Sequence[ChannelSettings], *, with_body: bool
) -> tuple[Any, Any]:
    """Return the schema and the indexes of the collection of documents; `library` is pymilvus."""
    kinds = library.DataType
    schema, indexes = _begin(library)
    # Milvus counts bytes, and a character has up to four.
    schema.add_field("root", kinds.VARCHAR, max_length=4 * _ROOT_CHARS, is_partition_key=True)
    for name in ("key", "state"):
        schema.add_field(name, kinds.VARCHAR, max_length=_MAX_ID)
    for name in ("since", "until", "name_key"):
        schema.add_field(name, kinds.INT64)
    for name in ("hidden", "shadowed"):
        schema.add_field(name, kinds.BOOL)
    for name in _PACKED:
        _add_packed(schema, kinds, name)
    for name in LEXICAL[: 1 + with_body]:
        terms, sparse = f"terms_{name}", f"sparse_{name}"
        analyzer = {"enable_analyzer": True, "analyzer_params": {"tokenizer": "standard"}}
        schema.add_field(terms, kinds.VARCHAR, max_length=_MAX_TEXT, mmap_enabled=True, **analyzer)
        schema.add_field(sparse, kinds.SPARSE_FLOAT_VECTOR)
        bm25 = library.FunctionType.BM25
        schema.add_function(library.Function(f"bm25_{name}", bm25, [terms], [sparse]))
        params = {"bm25_k1": K1, "bm25_b": B}
        kind = "SPARSE_INVERTED_INDEX"
        indexes.add_index(sparse, index_type=kind, metric_type="BM25", params=params)
    dense = dense_fields(len(channels), with_body=with_body)
    for channel, names in zip(channels, dense, strict=True):
        for name in names:
            schema.add_field(name, kinds.FLOAT_VECTOR, dim=channel.dimensions)
            indexes.add_index(name, index_type="AUTOINDEX", metric_type="IP")
    for name in ("key", "name_key", "since", "until"):
        indexes.add_index(name, index_type="INVERTED")
    return schema, indexes


def terms_schema(library: Any) -> tuple[Any, Any]:
    """Return the schema and the indexes of the collection of terms; `library` is pymilvus."""
    kinds = library.DataType
    schema, indexes = _begin(library)
    schema.add_field("kind", kinds.INT8)
    for name in FREQUENCIES:
        schema.add_field(name, kinds.INT64)
    _add_packed(schema, kinds, "note")
    # Milvus requires a vector in every collection.
    schema.add_field("nothing", kinds.FLOAT_VECTOR, dim=2)
    indexes.add_index("nothing", index_type="FLAT", metric_type="IP")
    for name in ("kind", "version"):
        indexes.add_index(name, index_type="INVERTED")
    return schema, indexes


def _begin(library: Any) -> tuple[Any, Any]:
    schema = library.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", library.DataType.VARCHAR, is_primary=True, max_length=_MAX_ID)
    return schema, library.MilvusClient.prepare_index_params()


def _add_packed(schema: Any, kinds: Any, name: str) -> None:
    """Add a field of packed bytes; text fields are too small, so it is an array of texts."""
    limits = {"max_capacity": MAX_PIECES, "max_length": _MAX_TEXT}
    schema.add_field(name, kinds.ARRAY, element_type=kinds.VARCHAR, mmap_enabled=True, **limits)
