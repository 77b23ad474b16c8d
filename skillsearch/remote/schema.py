"""What a generation is in Milvus: a collection of documents, and one of the terms in them.

Both are named after the alias that readers ask for, with a number. The alias stands for the
collection of terms, whose row `HEAD` names the other and says which version of the rows holds: to
switch it is to switch everything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skillsearch.index.dense.channels import ChannelSettings
from skillsearch.index.fields import embeds_body
from skillsearch.index.lexical.okapi import K1, B
from skillsearch.remote.packing import MAX_PIECES

HEAD = "head"
TERM, RECORD, CLAIM = 0, 1, 2
"""Kinds of rows among the terms: a term, something that we keep there, the claim of a writer."""
FOREVER = (1 << 62) - 1
"""``until`` of a row that is in use."""
PACKED = ("record", "counts", "chunks", "content")
_NUMBERED = re.compile(r"(.+)_g([0-9]{6})_terms")
_MAX_ID = 64
_MAX_TEXT = 65_535
_ROOT_CHARS = 512
"""Characters of a root's alias by which rows are partitioned."""


@dataclass(frozen=True, slots=True)
class Generation:
    """The collections of one generation.

    Attributes:
        alias: What readers ask for.
        number: Counted from 1.
    """

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
        """Return the generation that a collection of terms belongs to, None for any other name."""
        match = _NUMBERED.fullmatch(terms)
        return cls(alias, int(match[2])) if match and match[1] == alias else None


def dense_fields(channels: int, *, with_body: bool) -> tuple[tuple[str, ...], ...]:
    """Return the names of the fields of vectors: for each channel metadata and, maybe, body."""
    return tuple(
        (f"dense_{number}_metadata", f"dense_{number}_body")[
            : 1 + embeds_body(number, with_body=with_body)
        ]
        for number in range(channels)
    )


def lexical_fields(*, with_body: bool) -> tuple[str, ...]:
    """Return the names of the lexical fields, which have a ``terms_`` and a ``sparse_`` each."""
    return ("metadata", "full") if with_body else ("metadata",)


def partition_of(alias: str) -> str:
    """Return the partition key of a root."""
    return alias[:_ROOT_CHARS].encode("utf-8", "replace").decode("utf-8")


def documents_schema(
    library: Any, channels: Sequence[ChannelSettings], *, with_body: bool
) -> tuple[Any, Any]:
    """Describe the collection of documents.

    Args:
        library: The module pymilvus.
        channels: The dense channels.
        with_body: False for an index of metadata alone.

    Returns:
        Its schema, and its indexes.
    """
    kinds = library.DataType
    schema = library.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    indexes = library.MilvusClient.prepare_index_params()
    schema.add_field("id", kinds.VARCHAR, is_primary=True, max_length=_MAX_ID)
    # Milvus counts bytes, and a character has up to four.
    schema.add_field("root", kinds.VARCHAR, max_length=4 * _ROOT_CHARS, is_partition_key=True)
    for name in ("key", "state"):
        schema.add_field(name, kinds.VARCHAR, max_length=_MAX_ID)
    for name in ("since", "until", "name_key"):
        schema.add_field(name, kinds.INT64)
    for name in ("hidden", "shadowed"):
        schema.add_field(name, kinds.BOOL)
    for name in PACKED:
        _add_packed(schema, kinds, name)
    for name in lexical_fields(with_body=with_body):
        _add_lexical(library, schema, name)
        indexes.add_index(
            f"sparse_{name}",
            index_type="SPARSE_INVERTED_INDEX",
            metric_type="BM25",
            params={"bm25_k1": K1, "bm25_b": B},
        )
    dense = dense_fields(len(channels), with_body=with_body)
    for channel, names in zip(channels, dense, strict=True):
        for name in names:
            schema.add_field(name, kinds.FLOAT_VECTOR, dim=channel.dimensions)
            indexes.add_index(name, index_type="AUTOINDEX", metric_type="IP")
    for name in ("key", "name_key", "since", "until"):
        indexes.add_index(name, index_type="INVERTED")
    return schema, indexes


def terms_schema(library: Any) -> tuple[Any, Any]:
    """Describe the collection of terms.

    Args:
        library: The module pymilvus.

    Returns:
        Its schema, and its indexes.
    """
    kinds = library.DataType
    schema = library.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", kinds.VARCHAR, is_primary=True, max_length=_MAX_ID)
    schema.add_field("kind", kinds.INT8)
    for name in ("version", "metadata", "full", "metadata_before", "full_before"):
        schema.add_field(name, kinds.INT64)
    _add_packed(schema, kinds, "note")
    # Milvus takes no collection without a vector.
    schema.add_field("nothing", kinds.FLOAT_VECTOR, dim=2)
    indexes = library.MilvusClient.prepare_index_params()
    indexes.add_index("nothing", index_type="FLAT", metric_type="IP")
    for name in ("kind", "version"):
        indexes.add_index(name, index_type="INVERTED")
    return schema, indexes


def _add_packed(schema: Any, kinds: Any, name: str) -> None:
    """Add a field of packed bytes, which a server need not hold in memory."""
    schema.add_field(
        name,
        kinds.ARRAY,
        element_type=kinds.VARCHAR,
        max_capacity=MAX_PIECES,
        max_length=_MAX_TEXT,
        mmap_enabled=True,
    )


def _add_lexical(library: Any, schema: Any, name: str) -> None:
    """Add a field of terms, and the one that Milvus makes of it for BM25."""
    kinds = library.DataType
    schema.add_field(
        f"terms_{name}",
        kinds.VARCHAR,
        max_length=_MAX_TEXT,
        enable_analyzer=True,
        analyzer_params={"tokenizer": "standard"},
        mmap_enabled=True,
    )
    schema.add_field(f"sparse_{name}", kinds.SPARSE_FLOAT_VECTOR)
    schema.add_function(
        library.Function(
            name=f"bm25_{name}",
            function_type=library.FunctionType.BM25,
            input_field_names=[f"terms_{name}"],
            output_field_names=[f"sparse_{name}"],
        )
    )
