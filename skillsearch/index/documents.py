"""A skill as an index keeps it and a hit shows it."""

from __future__ import annotations

from dataclasses import dataclass

from skillsearch.text.safe_text import visible
from skillsearch.text.tokenizer import normalized, term_hash
from skillsearch.types import Skill

KNOWN = 0.5
"""Below this fluency, a skill is in a language that a model for English does not know."""


@dataclass(frozen=True, slots=True)
class Document:
    """One indexed skill; `path` is its SKILL.md, `root` where it was found.

    Attributes:
        doc_id: Stable id, ``alias:folder``.
        content_hash: sha256 of the file, hexadecimal.
        body_hash: Digest of the body, empty if it is too short to tell skills apart.
        hidden: Whether hosts are asked not to offer the skill.
        keys: Of the embedded metadata and head of the body, maybe empty, for each dense channel.
        trust: How well the embedder of the first channel can read this skill, 0 to 1.
        chunks: Id, description and key of the embedded text of each indexed chunk.
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

    def __post_init__(self) -> None:  # JSON gave lists.
        object.__setattr__(self, "keys", tuple(map(tuple, self.keys)))
        object.__setattr__(self, "requires", tuple(self.requires))
        object.__setattr__(self, "chunks", tuple(map(tuple, self.chunks)))

    @classmethod
    def listed(cls, skill: Skill) -> Document:
        """Return the record of a skill without what only a search needs."""
        return cls(
            doc_id=skill.doc_id,
            name=skill.name,
            description=skill.description,
            path=str(skill.path),
            root=str(skill.root),
            content_hash=skill.content_hash,
            body_hash="",
            hidden=skill.metadata.hidden,
            keys=(),
            trust=0.0,
            version=skill.metadata.version,
            requires=skill.metadata.requires,
        )

    @property
    def alias(self) -> str:
        """The short name of its root."""
        return self.doc_id.partition(":")[0]

    @property
    def fluency(self) -> float:
        """How well a model that only knows English can judge this skill, 0 to 1."""
        return self.trust if is_english(self.language) else 0.0


def is_english(language: str) -> bool:
    """Return whether a text is English, or its language is unknown."""
    return language in ("", "en")


def name_hash(name: str) -> int:
    """Return a number equal for names that differ only in case, hyphens and spaces."""
    folded = normalized(visible(name)).casefold().replace("-", " ").replace("_", " ")
    return term_hash(" ".join(folded.split()))
