"""The terms of one document, counted: as they are kept in a row, and as Milvus sees them."""

from __future__ import annotations

import base64
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.text.tokenizer import term_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER = struct.Struct("<III")
_MAX_FREQUENCY = np.iinfo(np.uint16).max
_TOKEN_BYTES = 5
"""Bytes of a term's hash that its token has: Milvus itself keeps four of it."""
_TOKEN_CHARS = 8
MAX_TOKENS = 65_535 // (_TOKEN_CHARS + 1)
"""Tokens that fit a text field of Milvus."""


@dataclass(frozen=True, slots=True)
class CountedTerms:
    """The distinct terms of a document, and how often each occurs in both lexical fields.

    Attributes:
        hashes: Hash of each term, uint64, ascending.
        metadata: Occurrences in the metadata, uint16.
        full: Occurrences in metadata and body, uint16; all 0 in an index of metadata alone.
        lengths: Terms of the two fields.
    """

    hashes: NDArray[np.uint64]
    metadata: NDArray[np.uint16]
    full: NDArray[np.uint16]
    lengths: tuple[int, int]

    @classmethod
    def of(cls, metadata_terms: Sequence[str], full_terms: Sequence[str]) -> CountedTerms:
        """Count terms; a frequency above 65,535 is cut to it."""
        counters = Counter(metadata_terms), Counter(full_terms)
        terms = {term_hash(term): term for counter in counters for term in counter}
        hashes = np.array(sorted(terms), np.uint64)
        columns = []
        for counter in counters:
            counts = [min(counter[terms[key]], _MAX_FREQUENCY) for key in hashes.tolist()]
            columns.append(np.array(counts, np.uint16))
        lengths = (int(columns[0].sum(dtype=np.int64)), int(columns[1].sum(dtype=np.int64)))
        return cls(hashes, columns[0], columns[1], lengths)

    def to_bytes(self) -> bytes:
        """Return the form that is kept in a row."""
        parts = (self.hashes.astype("<u8"), self.metadata.astype("<u2"), self.full.astype("<u2"))
        head = _HEADER.pack(len(self.hashes), *self.lengths)
        return head + b"".join(part.tobytes() for part in parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> CountedTerms:
        """Read what `to_bytes` gave.

        Args:
            data: The bytes.

        Returns:
            The counted terms.

        Raises:
            CacheError: When they are damaged.
        """
        try:
            size, metadata_length, full_length = _HEADER.unpack_from(data)
            hashes = np.frombuffer(data, "<u8", size, _HEADER.size).astype(np.uint64)
            metadata, full = (
                np.frombuffer(data, "<u2", size, _HEADER.size + (8 + 2 * place) * size)
                for place in (0, 1)
            )
        except (struct.error, ValueError) as exc:
            raise CacheError(f"the terms of a row are damaged: {exc}") from exc
        return cls(hashes, metadata, full, (metadata_length, full_length))

    def text(self, field: str) -> str:
        """Return a lexical field as Milvus counts it: a token for each occurrence of a term.

        Where not all fit, repeats are left out, the most frequent terms' first.

        Args:
            field: ``metadata`` or ``full``.

        Returns:
            Tokens with blanks between them.
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
    """Return what Milvus knows a term by: eight letters and digits that every analyzer keeps.

    Terms such as ``c++`` would be taken apart, and not all are UTF-8.

    Args:
        term: Its hash.

    Returns:
        The token.
    """
    head = (term >> (64 - 8 * _TOKEN_BYTES)).to_bytes(_TOKEN_BYTES, "big")
    return base64.b32encode(head).decode("ascii").lower()


def query_text(hashes: Iterable[int], limit: int) -> str:
    """Return the text that a lexical field is searched for.

    Args:
        hashes: The terms of the query, the most telling first.
        limit: Terms that Milvus is asked for at most.

    Returns:
        Their tokens.
    """
    return " ".join(map(token, list(hashes)[:limit]))
