"""Splits a skill into the texts that are counted and embedded; pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from skillsearch.embedders.embedding import text_key
from skillsearch.index.documents import Document, is_english
from skillsearch.text import tokenizer
from skillsearch.text.languages import language_of
from skillsearch.text.scripts import readable, trust
from skillsearch.text.tokenizer import document_terms
from skillsearch.types import Skill

VERSION = 3
"""Bump when the texts of a skill change; an index made of the old ones is rebuilt."""
ANALYSIS = (tokenizer.VERSION, VERSION)
"""An index with other versions than these is not searched, but rebuilt."""

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
"""Only the head of the body is embedded; no embedder reads further than this."""
_MAX_CHUNKS = 200
"""Chunks of one skill that a search can name; a megabyte could hold a hundred thousand."""
_DISTINCT_BODY_CHARS = 200
"""Shorter bodies (a stub, a link) are equal by chance and do not make two skills duplicates."""


class EmbeddedTexts(NamedTuple):
    """The metadata and the head of the body, maybe empty, that one dense channel embeds."""

    metadata: str
    body_head: str


class ChunkTexts(NamedTuple):
    """The texts of one chunk.

    Attributes:
        record: `Document.chunks` of it.
        terms: Terms of its id, its description and its text.
        head: What the first dense channel embeds; empty if nothing is readable.
    """

    record: tuple[str, str, str]
    terms: list[str]
    head: str


@dataclass(frozen=True, slots=True)
class FieldTexts:
    """The texts of one skill.

    Attributes:
        document: What the index keeps of the skill.
        metadata_terms: Terms of the metadata field, repeated by weight.
        full_terms: Terms of metadata and body together, repeated by weight.
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

    Only a channel whose body cosine has a weight does; chunks are another matter.
    """
    return with_body and len(DENSE_CHANNELS[channel]) > 1


def fluency(skill: Skill, scripts: frozenset[str] | None, *, with_body: bool) -> float:
    """Return `Document.fluency` of a skill, given the scripts that the first channel reads."""
    if not is_english(_language(skill, with_body=with_body)):
        return 0.0
    return trust(_metadata_text(skill), scripts)


def field_texts(
    skill: Skill, scripts: Sequence[frozenset[str] | None], *, with_body: bool = True
) -> FieldTexts:
    """Return the texts of a skill, given the scripts that each dense channel reads (None: all)."""
    name, about = skill.name[:METADATA_CHARS], about_text(skill)
    metadata_text = _metadata_text(skill)
    head = skill.body[:_BODY_HEAD_CHARS] if with_body else ""
    language = _language(skill, with_body=with_body)
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
    """Return everything the metadata says besides the name."""
    metadata = skill.metadata
    parts = (metadata.description, metadata.when_to_use, *metadata.triggers, *metadata.tags)
    return "\n".join(part for part in parts if part)[:METADATA_CHARS]


def _metadata_text(skill: Skill) -> str:
    return f"{skill.name[:METADATA_CHARS]}: {about_text(skill)}"


def _language(skill: Skill, *, with_body: bool) -> str:
    """Return the language of the metadata and the head of the body together."""
    head = skill.body[:_BODY_HEAD_CHARS] if with_body else ""
    return language_of(f"{_metadata_text(skill)}\n{head}")


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
    """Digest a body, ignoring white space; empty if it is too short to tell skills apart."""
    text = " ".join(body.split())
    if len(text) < _DISTINCT_BODY_CHARS:
        return ""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
