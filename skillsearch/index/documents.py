"""The documents of an index: what a hit shows of a skill, read one record at a time."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.errors import CacheError
from skillsearch.index.arrays import map_array, save_array
from skillsearch.index.lexical import term_hash
from skillsearch.index.tokenizer import normalized

if TYPE_CHECKING:
    from numpy.typing import NDArray


KNOWN = 0.5
"""A skill of less fluency is in a language that a model for English does not know."""


@dataclass(frozen=True, slots=True)
class Document:
    """One indexed skill.

    Attributes:
        doc_id: Stable id, ``alias:folder``.
        name: The skill's name.
        description: The skill's description.
        path: The SKILL.md file.
        root: The root it was found under.
        content_hash: sha256 of the file, hexadecimal.
        body_hash: Digest of the body alone, empty for a body too short to tell skills apart.
        hidden: True where hosts are asked not to offer the skill.
        keys: Keys of the embedded texts, hexadecimal, a pair for each dense channel: metadata and
            head of the body, the latter empty where none is embedded.
        trust: How far the embedder of the first channel can judge this skill, 0 to 1.
        language: What it is written in, as `skillsearch.languages.language_of` tells it.
        version: Version as written, or empty.
        requires: Skills that this one needs, as in `SkillMetadata.requires`.
        chunks: Id, description and key of the embedded text, hexadecimal, of each indexed chunk.
    """

    doc_id: str
    name: str
    description: str
    path: str
    root: str
    content_hash: str
    body_hash: str
    hidden: bool
    keys: tuple[tuple[str, str], ...]
    trust: float
    language: str = ""
    version: str = ""
    requires: tuple[str, ...] = ()
    chunks: tuple[tuple[str, str, str], ...] = ()

    def __post_init__(self) -> None:
        """Make tuples of the lists that JSON gave."""
        object.__setattr__(self, "keys", tuple(map(tuple, self.keys)))
        object.__setattr__(self, "requires", tuple(self.requires))
        object.__setattr__(self, "chunks", tuple(map(tuple, self.chunks)))

    @property
    def alias(self) -> str:
        """The short name of its root."""
        return self.doc_id.partition(":")[0]

    @property
    def fluency(self) -> float:
        """How well a model that knows English alone can judge this skill, 0 to 1."""
        return self.trust if is_english(self.language) else 0.0


class DocumentStore(Sequence[Document]):
    """All documents in order of their ids; a record is parsed only when it is asked for.

    Attributes:
        trust: `Document.trust` of all documents, float32.
        fluency: `Document.fluency` of all documents, float32.
        hidden: `Document.hidden` of all documents, bool.
        names: `name_hash` of all documents, uint64.
    """

    def __init__(
        self,
        records: NDArray[np.uint8],
        starts: NDArray[np.int64],
        *,
        trust: NDArray[np.float32],
        fluency: NDArray[np.float32],
        hidden: NDArray[np.bool_],
        names: NDArray[np.uint64],
    ) -> None:
        """Take the arrays that `build` made or `load` mapped."""
        self._records = records
        self._starts = starts
        self.trust = trust
        self.fluency = fluency
        self.hidden = hidden
        self.names = names

    @classmethod
    def build(cls, documents: Sequence[Document]) -> DocumentStore:
        """Store documents that are sorted by id."""
        lines = [json.dumps(astuple(document)).encode() for document in documents]
        starts = np.zeros(len(lines) + 1, np.int64)
        np.cumsum([len(line) for line in lines], out=starts[1:])
        return cls(
            np.frombuffer(b"".join(lines), np.uint8),
            starts,
            trust=np.array([document.trust for document in documents], np.float32),
            fluency=np.array([document.fluency for document in documents], np.float32),
            hidden=np.array([document.hidden for document in documents], np.bool_),
            names=np.array([name_hash(document.name) for document in documents], np.uint64),
        )

    def __len__(self) -> int:
        return len(self._starts) - 1

    @cached_property
    def other_share(self) -> float:
        """Share of the documents in languages that a model for English does not know."""
        return float(np.mean(self.fluency < KNOWN)) if len(self) else 0.0

    def __getitem__(self, number: int) -> Document:  # type: ignore[override]
        """Read one document.

        Args:
            number: Its place in the order of ids, from 0.

        Returns:
            The document.

        Raises:
            IndexError: When there is no such document.
            CacheError: When its record has an unknown form.
        """
        if not 0 <= number < len(self):
            raise IndexError(number)
        record = self._records[self._starts[number] : self._starts[number + 1]].tobytes()
        try:
            return Document(*json.loads(record))
        except (TypeError, ValueError) as exc:
            raise CacheError(f"document {number} has an unknown form") from exc

    def __iter__(self) -> Iterator[Document]:
        return (self[number] for number in range(len(self)))

    def named(self, name: str) -> list[int]:
        """Return the documents that have a name, in any spelling of case, hyphens and spaces."""
        return np.flatnonzero(self.names == np.uint64(name_hash(name))).tolist()

    def number_of(self, doc_id: str) -> int | None:
        """Return the number of the document with an id, or None where there is none."""
        place = bisect_left(range(len(self)), doc_id, key=lambda number: self[number].doc_id)
        return place if place < len(self) and self[place].doc_id == doc_id else None

    def save(self, folder: Path) -> None:
        """Write the ``documents-*.npy`` files.

        Args:
            folder: Where to write.

        Raises:
            OSError: When one cannot be written whole.
        """
        for name, array in self._arrays().items():
            save_array(folder / f"documents-{name}.npy", array)

    @classmethod
    def load(cls, folder: Path) -> DocumentStore:
        """Map what `save` wrote.

        Args:
            folder: Where it was written.

        Returns:
            The documents.

        Raises:
            CacheError: When a file is missing or does not fit the others.
        """
        names = ("records", "starts", "trust", "fluency", "hidden", "names")
        arrays = [map_array(folder / f"documents-{name}.npy") for name in names]
        records, starts, trust, fluency, hidden, hashes = arrays
        types = (np.uint8, np.int64, np.float32, np.float32, np.bool_, np.uint64)
        are_right = (a.dtype == t and a.ndim == 1 for a, t in zip(arrays, types, strict=True))
        if not all(are_right) or {len(one) for one in arrays[2:]} != {len(starts) - 1}:
            raise CacheError("the arrays of the documents do not fit each other")
        return cls(records, starts, trust=trust, fluency=fluency, hidden=hidden, names=hashes)

    def _arrays(self) -> dict[str, NDArray[np.generic]]:
        """Name the arrays as their files are named."""
        return {
            "records": self._records,
            "starts": self._starts,
            "trust": self.trust,
            "fluency": self.fluency,
            "hidden": self.hidden,
            "names": self.names,
        }


def is_english(language: str) -> bool:
    """Tell whether a text may be English: it was told to be, or its language cannot be told."""
    return language in ("", "en")


def name_hash(name: str) -> int:
    """Return a number equal for names that differ only in case, hyphens, underscores or spaces."""
    folded = normalized(name).casefold().replace("-", " ").replace("_", " ")
    return term_hash(" ".join(folded.split()))
