"""Asks a writer for example requests, and checks the answer.

What writes may be a model that was shown skills of strangers, so nothing it says is taken on trust:
each request is checked by itself, against the skill that it is for, and against all others.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import skillsearch
from skillsearch.errors import SkillError
from skillsearch.index.documents.document import NAME_WEIGHT
from skillsearch.index.documents.hubness import hubness
from skillsearch.skills.example_requests import MAX_CHARS, MAX_EXAMPLES, digest_of_skill
from skillsearch.skills.parser import read_skill
from skillsearch.text.instructions import find_commands
from skillsearch.text.languages import language_name, language_of
from skillsearch.text.safe_text import all_visible, counted, one_line, visible
from skillsearch.text.tables import filled
from skillsearch.text.tokenizer import document_terms, terms
from skillsearch.types.json_values import Json
from skillsearch.types.skills import SKILL_MD

if TYPE_CHECKING:
    from skillsearch.index.documents.document import Document
    from skillsearch.index.skill_index import SkillIndex

BATCH = 8
"""Skills that are asked about at once."""
MIN_EXAMPLES, MIN_CHARS = 3, 8
ANSWER_TOKENS = 140
"""About what four requests and their digest take."""
_BODY_CHARS = 2_000
_DIGEST_CHARS = 16  # enough to tell skills apart, and few tokens to repeat
_ALIKE = 0.75
"""Share of the terms of two texts together that both have, from which one is a copy."""
_MOST_OTHERS, _SHARE_OF_OTHERS, _LEAST_OTHERS = 10, 0.02, 2
_MORE_HUBNESS = 0.3
"""What requests may add to the hubness of a skill; one in 200 honest sets adds more."""
_TELLING_TERMS = 8
"""Fewer do not tell English from other languages in Latin letters; all requests together do."""
_QUOTED, _NAME_CHARS = 60, 400
_SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+|[\n。\uff01\uff1f]")
_NO_REQUEST = re.compile(r"\w+://|\bwww\.|[`{}]|</?\w+[^<>]*>|\$\(|=>|\b\w+\(\)|&&|\|\|")
"""Addresses, code and markup."""
_OURS = re.compile(r"\bskillsearch (enrich|index)\b")
_HIDDEN = "it has hidden or control characters"

ASK = filled(Path(__file__).with_name("example_ask.txt"), {"least": MIN_CHARS, "most": MAX_CHARS})


class Refusal(NamedTuple):
    """What was refused: of which skill, the text, and why."""

    name: str
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExampleEntry:
    """The example requests of a skill that can be kept."""

    digest: str
    name: str
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SkillToEnrich:
    """A skill that examples are to be written for; `body` is the head of it."""

    handle: str
    digest: str
    name: str
    description: str
    body: str

    @classmethod
    def of(cls, document: Document, index: SkillIndex) -> SkillToEnrich:
        """Read a skill; a ParseError if its file can no longer be read as one."""
        body = index.read(document).body[:_BODY_CHARS]
        return cls(index.handle(document), key_of(document), *_about(document), body)


def ask_for(wanted: Iterable[SkillToEnrich]) -> str:
    """Return the request to a writer: skills as JSON, in which no text can pass for ours."""
    keys = ("name", "description", "body")
    records = (
        {"digest": skill.digest[:_DIGEST_CHARS]} | {key: getattr(skill, key) for key in keys}
        for skill in wanted
    )
    lines = (json.dumps(all_visible(record), ensure_ascii=False) for record in records)
    return "\n".join((ASK, *lines)) + "\n"


def instructions(command: Sequence[str], options: Sequence[str] = ()) -> str:
    """Return what our skill for agents says, with what starts skillsearch here, and its options."""
    path = Path(skillsearch.__file__).parent / "plugin" / "skills" / "enrich-skills" / SKILL_MD
    body = read_skill(path, doc_id="", root=path.parent).body
    return _OURS.sub(lambda match: shlex.join([*command, match[1], *options]), body)


def key_of(document: Document) -> str:
    """Return the digest by which examples know the skill of a document."""
    return digest_of_skill(*_about(document))


def _about(document: Document) -> tuple[str, str]:
    return document.name, document.description


def without_examples(documents: Iterable[Document], keys: Collection[str]) -> list[Document]:
    """Return the first document of each digest that has no examples and is not among some keys."""
    bare = _by_key(document for document in documents if not document.examples)
    return [document for key, document in reversed(bare.items()) if key not in keys]


def _by_key(documents: Iterable[Document]) -> dict[str, Document]:
    """Return the first document of each digest, by digest, the last digest first."""
    return {key_of(document): document for document in reversed([*documents])}


class WrittenExamples(NamedTuple):
    """What was written for a skill, named by its digest or else its name."""

    named: str
    examples: Sequence[object]


def read_answers(text: str) -> tuple[list[WrittenExamples], list[Refusal]]:
    """Read JSON lines, or one JSON array or object, maybe fenced; and refuse what is neither."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("```")]
    try:
        values = [(1, json.loads("\n".join(lines)))]
    except (ValueError, RecursionError):
        values = []
    answers, refused = [], []
    for number, line in enumerate(() if values else lines, start=1):
        try:
            values.append((number, json.loads(line)))
        except (ValueError, RecursionError) as exc:
            refused.append(Refusal(f"line {number}", one_line(line, _QUOTED), f"no JSON: {exc}"))
    for number, value in values:
        for record in value if isinstance(value, list) else [value]:
            if answer := _answer(record):
                answers.append(answer)
            else:
                reason = 'it is not {"digest": …, "examples": […]}'
                refused.append(Refusal(f"line {number}", one_line(str(record), _QUOTED), reason))
    return answers, refused


def _answer(record: Json) -> WrittenExamples | None:
    if not isinstance(record, dict) or not isinstance(record.get("examples"), list):
        return None
    named = record.get("digest") or record.get("name")
    return WrittenExamples(named, record["examples"]) if isinstance(named, str) else None


@dataclass(frozen=True)
class Review:
    """Checks answers against the skills of an index.

    A request is for many skills if all its terms occur in what more than ten others, or a fiftieth
    of a small index, say of themselves; copies of the skill do not count.
    """

    index: SkillIndex

    @cached_property
    def skills(self) -> Mapping[str, Document]:
        """The skills of the index by what an answer may name."""
        return _by_key(self.index.documents())

    def check(
        self, answers: Iterable[WrittenExamples], digests: Collection[str] | None = None
    ) -> tuple[list[ExampleEntry], list[Refusal]]:
        """Return what can be kept of answers, the last one of each skill, and what cannot.

        Only skills of the `digests` that were asked for count: what a skill says may make a model
        write for others.
        """
        accepted: dict[str, ExampleEntry] = {}
        refused = []
        for answer in answers:
            try:
                digest = self._digest_of(answer.named)
            except SkillError as exc:
                refused.append(Refusal(one_line(answer.named, _QUOTED), "", str(exc)))
                continue
            document = self.skills[digest]
            if digests is not None and digest not in digests:
                refused.append(Refusal(document.name, "", "it was not asked for"))
                continue
            texts = list(self._reasons(document, answer.examples))
            refused += [Refusal(document.name, text, reason) for text, reason in texts if reason]
            good = tuple(text for text, reason in texts if not reason)
            if reason := _reason_for_all(document, good):
                refused.append(Refusal(document.name, "", reason))
            else:
                accepted[digest] = ExampleEntry(digest, document.name, good)
        return list(accepted.values()), refused

    def _digest_of(self, named: str) -> str:
        digests = self.skills if len(named) >= _DIGEST_CHARS else ()
        same = next((digest for digest in digests if digest.startswith(named)), "")
        return same or key_of(self.index.find(named[:_NAME_CHARS]))

    def _reasons(self, document: Document, examples: Iterable[object]) -> Iterator[tuple[str, str]]:
        """Yield each text, blanks folded, and why it is refused; empty if it is not."""
        parts = [document.name, *_SENTENCE_END.split(document.description), document.description]
        there = [set(terms(text, document.language)) for text in parts]
        language = _language(document)
        taken: list[set[str]] = []
        for example in examples:
            raw = example if isinstance(example, str) else ""
            text = " ".join(raw.split())
            own = set(terms(text, document.language))
            reason = _reason(text, language, len(own)) if visible(raw) == raw else _HIDDEN
            reason = reason or _repetition(own, there, taken)
            reason = reason or self._reason_for_others(document, own)
            if not reason:
                taken.append(own)
            yield one_line(text or str(example), MAX_CHARS), reason

    def _reason_for_others(self, document: Document, own: Collection[str]) -> str:
        if not own:
            return "no word of it tells what it is about"
        others = self.index.count_holding(own, besides=document)
        most = max(_LEAST_OTHERS, min(_MOST_OTHERS, int(_SHARE_OF_OTHERS * len(self.index))))
        return f"it fits {counted(others, 'other skill')} as well" if others > most else ""


def _repetition(own: Set[str], there: Iterable[Set[str]], taken: Sequence[Set[str]]) -> str:
    """Return why the terms of an example say no more than those of others; empty if they do."""
    if any(_are_alike(own, other) for other in there):
        return "it repeats the name or the description"
    if any(_are_alike(own, other) for other in taken):
        return "it is like another one before it"
    return f"{MAX_EXAMPLES} are enough" if len(taken) == MAX_EXAMPLES else ""


def _language(document: Document) -> str:
    return language_of(document.description) or document.language


def _differ(written: str, expected: str) -> bool:
    return "" not in (written, expected) and written != expected


def _reason(text: str, language: str, words: int) -> str:
    """Return why a request is refused whatever it is for; empty if it is not."""
    written = language_of(text)
    if not text:
        return "it is not text"
    if not MIN_CHARS <= len(text) <= MAX_CHARS:
        return f"it has {counted(len(text), 'character')}, not {MIN_CHARS} to {MAX_CHARS}"
    if _NO_REQUEST.search(text):
        return "it has an address, code or markup"
    if command := next(find_commands(text), None):
        return f"it reads as an order to an agent: {command.phrase!r}"
    if words >= _TELLING_TERMS and _differ(written, language):
        return f"it is {language_name(written)}, the description {language_name(language)}"
    return ""


def _reason_for_all(document: Document, texts: Sequence[str]) -> str:
    """Return why nothing is kept for a skill; empty if it is."""
    if len(texts) < MIN_EXAMPLES:
        return f"{len(texts)} of its requests can be kept; at least {MIN_EXAMPLES} must be"
    named = document_terms(document.name, document.language) * NAME_WEIGHT
    stated = named + document_terms(document.description, document.language)
    requested = [term for text in texts for term in document_terms(text, document.language)]
    written, language = language_of("\n".join(texts)), _language(document)
    if _differ(written, language):
        expected = language_name(language)
        return f"its requests are {language_name(written)}, its description {expected}"
    if hubness(stated + requested, ()) > hubness(stated, ()) + _MORE_HUBNESS:
        return "its requests together have the words of whatever is asked"
    return ""


def _are_alike(some: Collection[str], others: Collection[str]) -> bool:
    both = len({*some} & {*others})
    return both > 0 and both >= _ALIKE * len({*some} | {*others})
