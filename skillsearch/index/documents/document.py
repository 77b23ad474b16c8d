"""A skill as an index keeps it and a hit shows it, and its texts that are counted and embedded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedding import text_key
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.index.documents.hubness import hubness
from skillsearch.skills.stubs import digest_of
from skillsearch.text import tokenizer
from skillsearch.text.exclusions import split_description
from skillsearch.text.languages import language_of
from skillsearch.text.lookalikes import look
from skillsearch.text.safe_text import visible
from skillsearch.text.tokenizer import document_terms, term_hash
from skillsearch.types.skills import Example, Skill

# Bump when the texts of a skill change; an index made of the old ones is rebuilt.
VERSION = 15
# An index with other versions than these is not searched, but rebuilt.
ANALYSIS = (tokenizer.VERSION, VERSION)
# Repeats of the name in both lexical fields; nDCG@10 grows up to three and then no more.
NAME_WEIGHT = 3
# Repeats of description, tags and triggers in the full field, so that no long body drowns them.
METADATA_WEIGHT = 3
METADATA_CHARS = 8_192
_BODY_CHARS = 200_000
# Of the head of a body so much tells its language; of a chunk no embedder reads further.
_HEAD_CHARS = 4_096
# Chunks of one skill that a search can name; a megabyte could hold a hundred thousand.
_MAX_CHUNKS = 200
# Shorter bodies (a stub, a link) are equal by chance and do not make two skills duplicates.
_DISTINCT_BODY_CHARS = 200
# Hashes that tell how much of a body another has.
SKETCH_SIZE = 16
# Terms that are hashed together.
_SHINGLE = 3
# An odd number that spreads the bits of a product (the golden ratio: Knuth, volume 3, 6.4).
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_COMMENT = lazy_pattern(r"<!--.*?(?:-->|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Document:
    """One indexed skill; `path` is its SKILL.md, `root` where it was found.

    Attributes:
        doc_id: Stable id, ``alias:folder``.
        body_hash: Digest of the body, empty if it is too short to tell skills apart.
        key: Of the embedded metadata.
        chunks: Id, description and key of the embedded text, empty if it has no vector yet, of each
            indexed chunk.
        excluded: What the metadata says that it is not for.
        sketch: The `SKETCH_SIZE` lowest hashes of runs of terms of the body, as hexadecimal digits.
        outline: The same of the description.
        hubness: How far it is near whatever is asked, mostly 0.
        continuation_hash: Digest of the text that its body, a stub, points to; empty if not a stub.
        examples: Requests that it is for: text and source of each.
        evals_hash: Digest of the eval files that some examples may come from; empty without any.
        tags: Those of its metadata, by which a `Selection` may ask for it.
        lapses: Those of the skill, for which one may leave it out.
        paths: Patterns of the files of a project that it is for; none for all.
    """

    doc_id: str
    name: str
    description: str
    path: str
    root: str
    content_hash: str  # sha256 of the file
    body_hash: str = ""
    hidden: bool = False  # Hosts are asked not to offer it.
    key: str = ""
    language: str = ""
    version: str = ""
    requires: tuple[str, ...] = ()
    chunks: tuple[tuple[str, str, str], ...] = ()
    excluded: str = ""
    sketch: str = ""
    hubness: float = 0.0
    continuation_hash: str = ""
    outline: str = ""
    examples: tuple[Example, ...] = ()
    evals_hash: str = ""
    tags: tuple[str, ...] = ()
    lapses: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> Document:
        """Read the values of the fields in order, as JSON has them: with lists.

        Raises TypeError or ValueError for what is no such record.
        """
        given = (tuple(value) if isinstance(value, list) else value for value in values)
        record: dict[str, Any] = dict(zip(cls.__slots__[: len(values)], given, strict=True))
        record["chunks"] = tuple(map(tuple, record.get("chunks", ())))
        record["examples"] = tuple(map(Example._make, record.get("examples", ())))
        return cls(**record)

    @classmethod
    def listed(cls, skill: Skill) -> Document:
        """Return the record of a skill without what only a search needs.

        If it has a version, its sketch tells of which namesakes that is one.
        """
        version = skill.metadata.version
        terms = document_terms(skill.text[:_BODY_CHARS], "en") if version else []
        return cls(
            doc_id=skill.doc_id,
            name=skill.name,
            description=skill.description,
            path=str(skill.path),
            root=str(skill.root),
            content_hash=skill.content_hash,
            hidden=skill.metadata.hidden,
            version=version,
            sketch=_sketch(terms),
            requires=skill.metadata.requires,
            continuation_hash=digest_of(skill.continuation),
            tags=skill.metadata.tags,
            lapses=skill.lapses,
            paths=skill.metadata.paths,
            examples=skill.examples,
            evals_hash=skill.evals_hash,
        )

    @property
    def alias(self) -> str:
        """The short name of its root."""
        return self.doc_id.partition(":")[0]

    @property
    def folder(self) -> str:
        """Its folder below the root, with ``/``."""
        return self.doc_id.partition(":")[2]

    @property
    def sketched(self) -> NDArray[np.uint32]:
        """The hashes of its `sketch` and its `outline`, each filled up with 0."""
        filled = (sketch.ljust(8 * SKETCH_SIZE, "0") for sketch in (self.sketch, self.outline))
        return np.frombuffer(bytes.fromhex("".join(filled)), "<u4")


class ChunkTexts(NamedTuple):
    """A chunk: its entry in `Document.chunks`, its terms, and what is embedded of it."""

    record: tuple[str, str, str]
    terms: Sequence[str]
    head: str


@dataclass(frozen=True, slots=True)
class FieldTexts:
    """The texts of one skill: repeated terms of the lexical fields, and what is embedded.

    Those are the `metadata`, the `examples` and the heads of the `chunks`.
    """

    document: Document
    metadata_terms: Sequence[str]
    full_terms: Sequence[str]
    metadata: str
    examples: tuple[str, ...]
    chunks: tuple[ChunkTexts, ...]

    def by_key(self) -> dict[bytes, str]:
        """Return the texts that are embedded, by their keys."""
        texts = {text_key(text): text for text in (self.metadata, *self.examples)}
        chunks = ((chunk.record[2], chunk.head) for chunk in self.chunks)
        return texts | {bytes.fromhex(key): text for key, text in chunks if key}

    @property
    def example_keys(self) -> list[bytes]:
        """The keys of the texts of examples that are embedded."""
        return list(map(text_key, self.examples))


def field_texts(skill: Skill, *, with_body: bool = True, metadata_only: bool = False) -> FieldTexts:
    """Return the texts of a skill.

    With `metadata_only`, chunks and examples have words and are not embedded.
    """
    metadata = f"{skill.name[:METADATA_CHARS]}: {about_text(skill)}"
    head = skill.text[:_HEAD_CHARS] if with_body else ""
    language = language_of(f"{metadata}\n{head}")
    name_terms = document_terms(skill.name[:METADATA_CHARS], language) * NAME_WEIGHT
    about_terms = document_terms(about_text(skill), language)
    body_terms = document_terms(skill.text[:_BODY_CHARS], language)
    stated = name_terms + about_terms
    body = body_terms if with_body else []
    examples, own = example_terms(skill, language), example_terms(skill, language, "skill")

    def full_terms(examples: list[str]) -> list[str]:
        return stated + about_terms * (METADATA_WEIGHT - 1) + examples * METADATA_WEIGHT + body

    embedded = () if metadata_only else tuple(example.text for example in skill.examples)
    chunks = _chunk_texts(skill.body, language) if with_body else ()
    if metadata_only:
        chunks = tuple(chunk._replace(record=(*chunk.record[:2], "")) for chunk in chunks)
    document = replace(
        Document.listed(skill),
        body_hash=body_hash(skill.text),
        key=text_key(metadata).hex(),
        language=language,
        chunks=tuple(chunk.record for chunk in chunks),
        excluded=excluded_text(skill),
        sketch=_sketch(body_terms),
        outline=_sketch(about_terms),
        hubness=round(hubness(stated + own, full_terms(own)), 4),
    )
    return FieldTexts(document, stated + examples, full_terms(examples), metadata, embedded, chunks)


def body_hash(text: str) -> str:
    """Return `Document.body_hash` of a text, in which white space does not count."""
    plain = " ".join(text.split())
    return digest_of(plain) if len(plain) >= _DISTINCT_BODY_CHARS else ""


def _sketch(terms: Sequence[str]) -> str:
    """Return `Document.sketch` of a body."""
    hashes = np.array([term_hash(term) for term in terms], np.uint64)
    if (count := len(hashes) - _SHINGLE + 1) < 1:
        return ""
    mixed = np.zeros(count, np.uint64)
    for shift in range(_SHINGLE):
        mixed = (mixed ^ hashes[shift : shift + count]) * _MIXER
    lowest = np.unique((mixed >> np.uint64(32)).astype("<u4"))
    return lowest[lowest > 0][:SKETCH_SIZE].tobytes().hex()


def example_terms(skill: Skill, language: str, source: str = "") -> list[str]:
    """Return the terms of the examples of a skill, all or from one source."""
    texts = (example.text for example in skill.examples if source in ("", example.source))
    return [term for text in texts for term in document_terms(text, language)]


def about_text(skill: Skill) -> str:
    """Return everything the metadata says besides the name and what it is not for."""
    sentences = [split_description(part)[0] for part in _sentences(skill)]
    parts = (*sentences, *skill.metadata.triggers, *skill.metadata.tags)
    return "\n".join(part for part in parts if part)[:METADATA_CHARS]


def excluded_text(skill: Skill) -> str:
    """Return the tasks that a skill is not for, by its metadata."""
    return "\n".join(filter(None, (split_description(part)[1] for part in _sentences(skill))))


def _sentences(skill: Skill) -> list[str]:
    texts = (skill.metadata.description, skill.metadata.when_to_use)
    # Nobody sees a comment, so it does not speak for the skill.
    return [_COMMENT.sub(" ", text[:METADATA_CHARS]) for text in texts]


def _chunk_texts(body: str, language: str) -> tuple[ChunkTexts, ...]:
    # As with the parser: a run that reads no skill does without it.
    from skillsearch.skills.chunks import parse_chunks

    chunks = []
    for chunk in parse_chunks(body).chunks[:_MAX_CHUNKS]:
        text = f"{chunk.id}: {chunk.description}\n{chunk.content}"
        head = text[:_HEAD_CHARS]
        record = (chunk.id, chunk.description, text_key(head).hex())
        chunks.append(ChunkTexts(record, document_terms(text[:_BODY_CHARS], language), head))
    return tuple(chunks)


def name_hash(name: str) -> int:
    """Return a number equal for names that look alike but for case, hyphens and spaces."""
    return term_hash(" ".join(look(visible(name)).replace("-", " ").replace("_", " ").split()))
