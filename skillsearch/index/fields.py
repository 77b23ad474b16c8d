"""A skill → the texts of its fields: what is counted and what is embedded; pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from skillsearch.embedders.embedding_keys import text_key
from skillsearch.index.documents import Document
from skillsearch.text.languages import language_of
from skillsearch.text.scripts import readable, trust
from skillsearch.text.tokenizer import document_terms
from skillsearch.types import Skill

VERSION = 3
"""Bump when a skill would give other texts; an index made of the old ones is rebuilt."""

DENSE_CHANNELS = (
    ("cosine_metadata",),
    ("cosine_metadata_multilingual", "cosine_body_multilingual"),
)
"""Features of each dense channel: the cosine of the metadata and, if it embeds them, of bodies."""

NAME_WEIGHT = 3
"""Repeats of the name in the metadata field; nDCG@10 grows up to three and then no more."""
METADATA_WEIGHT = 3
"""Repeats of description, tags and triggers in the full field, so that a long body does not
drown them. The name has `NAME_WEIGHT` repeats in both fields."""

METADATA_CHARS = 8_192
_BODY_CHARS = 200_000
_BODY_HEAD_CHARS = 4_096
"""Of the body only the head is embedded, and no embedder reads further than this."""
_MAX_CHUNKS = 200
"""Chunks of one skill that a search can name; a megabyte could hold a hundred thousand."""
_DISTINCT_BODY_CHARS = 200
"""Shorter bodies (a stub, a link) are equal by chance and do not make two skills duplicates."""


class EmbeddedTexts(NamedTuple):
    """What one dense channel embeds of a skill.

    Attributes:
        metadata: Its metadata.
        body_head: The head of its body; empty where nothing is readable, or none is embedded.
    """

    metadata: str
    body_head: str


class ChunkTexts(NamedTuple):
    """The texts of one chunk.

    Attributes:
        record: What the document keeps of it.
        terms: Terms of its id, its description and its text.
        head: What the first dense channel embeds; empty where there is nothing readable.
    """

    record: tuple[str, str, str]
    terms: list[str]
    head: str


@dataclass(frozen=True, slots=True)
class FieldTexts:
    """The texts of one skill.

    Attributes:
        document: What the index keeps of the skill.
        metadata_terms: Terms of the metadata field, repeats by weight.
        full_terms: Terms of metadata and body together, repeats by weight.
        embedded: What is embedded, for each dense channel.
        chunks: The texts of each of the document's chunks.
    """

    document: Document
    metadata_terms: list[str]
    full_terms: list[str]
    embedded: tuple[EmbeddedTexts, ...]
    chunks: tuple[ChunkTexts, ...]


def embeds_body(channel: int, *, with_body: bool) -> bool:
    """Return whether the dense channel of this number embeds the heads of bodies.

    Only a channel whose body cosine is weighed does; chunks are embedded apart from this.
    """
    return with_body and len(DENSE_CHANNELS[channel]) > 1


def field_texts(
    skill: Skill, scripts: Sequence[frozenset[str] | None], *, with_body: bool = True
) -> FieldTexts:
    """Split a skill into the texts of its fields.

    Args:
        skill: The skill.
        scripts: Scripts that the embedder of each dense channel reads, None for all.
        with_body: False to index the metadata alone.

    Returns:
        The texts, and the record that the index keeps.
    """
    name, about = skill.name[:METADATA_CHARS], about_text(skill)
    metadata_text = f"{name}: {about}"
    head = skill.body[:_BODY_HEAD_CHARS] if with_body else ""
    language = language_of(f"{metadata_text}\n{head}")
    name_terms, about_terms = document_terms(name, language), document_terms(about, language)
    body_terms = document_terms(skill.body[:_BODY_CHARS], language) if with_body else []
    has_body = [embeds_body(channel, with_body=with_body) for channel in range(len(scripts))]
    embedded = tuple(
        EmbeddedTexts(readable(metadata_text, known), readable(head, known) if has else "")
        for known, has in zip(scripts, has_body, strict=True)
    )
    chunks = _chunk_texts(skill.body, scripts[0], language) if with_body else ()
    document = Document(
        doc_id=skill.doc_id,
        name=skill.name,
        description=skill.description,
        path=str(skill.path),
        root=str(skill.root),
        content_hash=skill.content_hash,
        body_hash=_body_hash(skill.body),
        hidden=skill.metadata.hidden,
        keys=tuple(
            (text_key(texts.metadata).hex(), text_key(texts.body_head).hex() if has else "")
            for texts, has in zip(embedded, has_body, strict=True)
        ),
        trust=trust(metadata_text, scripts[0]),
        language=language,
        version=skill.metadata.version,
        requires=skill.metadata.requires,
        chunks=tuple(chunk.record for chunk in chunks),
    )
    return FieldTexts(
        document,
        metadata_terms=name_terms * NAME_WEIGHT + about_terms,
        full_terms=name_terms * NAME_WEIGHT + about_terms * METADATA_WEIGHT + body_terms,
        embedded=embedded,
        chunks=chunks,
    )


def about_text(skill: Skill) -> str:
    """Return all that the metadata says beside the name."""
    metadata = skill.metadata
    parts = (metadata.description, metadata.when_to_use, *metadata.triggers, *metadata.tags)
    return "\n".join(part for part in parts if part)[:METADATA_CHARS]


def _chunk_texts(
    body: str, scripts: frozenset[str] | None, language: str
) -> tuple[ChunkTexts, ...]:
    """Return the texts of the chunks of a body."""
    # As with the parser: a run that reads no skill does without it.
    from skillsearch.skills.chunks import parse_chunks

    found = []
    for chunk in parse_chunks(body).chunks[:_MAX_CHUNKS]:
        text = f"{chunk.id}: {chunk.description}\n{chunk.content}"
        head = readable(text[:_BODY_HEAD_CHARS], scripts)
        record = (chunk.id, chunk.description, text_key(head).hex())
        found.append(ChunkTexts(record, document_terms(text[:_BODY_CHARS], language), head))
    return tuple(found)


def _body_hash(body: str) -> str:
    """Digest a body, white space aside; empty where it is too short to tell skills apart."""
    text = " ".join(body.split())
    if len(text) < _DISTINCT_BODY_CHARS:
        return ""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
