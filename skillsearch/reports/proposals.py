"""New descriptions for a skill: the old one, and words from texts that exist already; pure.

Nothing is invented. Additions come from requests for the skill or from its body; a "not for" clause
comes from the description of a rival. Text that commands an agent is never taken, nor code,
addresses, or anything that a reader would not see.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.skills.metadata import MAX_DESCRIPTION_CHARS
from skillsearch.text.exclusions import split_description
from skillsearch.text.instructions import find_commands
from skillsearch.text.languages import FUNCTION_WORDS, language_of
from skillsearch.text.requests import blocks, plain
from skillsearch.text.safe_text import one_line, visible
from skillsearch.text.tokenizer import document_terms

Weigh = Callable[[Collection[str]], Mapping[str, float]]
"""Terms → their weights in the index."""

_REQUEST_CHARS = 160
_MOST_REQUESTS, _MOST_PHRASES, _MOST_OF_BODY, _MOST_OF_RIVAL = 6, 10, 8, 4
_MOST_CHARS = MAX_DESCRIPTION_CHARS // 2
"""Of all that is added."""
_MOST_WORDS = 4
_BODY_BLOCKS = 400
_LEAST_TIMES = 2
"""A phrase counts if the body has it at least so often; a single mention is a detail."""
_WORD = lazy_pattern(r"[^\W_](?:[\w+#'\u2019-]{0,40}[\w+#])?")
_SENTENCE_END = lazy_pattern(r"(?<=[.!?;])\s+|(?<=[。\uff01\uff1f])|\n+")
_CLOSED = (".", "!", "?", "。", "\uff01", "\uff1f")
_SENTENCE_START = lazy_pattern(
    r"(?<=[.!?])(?<!\b[eE]\.g\.)(?<!\b[iI]\.e\.)\s+(?=\S)|(?<=[。\uff01\uff1f])\s*(?=\S)"
)
_NO_PROSE = lazy_pattern(r"\w+://|\bwww\.|[`{}<>|\\]|\$\(|=>|\w\(\)|&&")
_SLUG = lazy_pattern(r"[a-z0-9]+(?:-[a-z0-9]+){0,7}")
KINDS = (
    (),
    ("requests",),
    ("words",),
    ("body",),
    ("requests", "words"),
    ("requests", "body"),
)
"""What is added: requests as they are, phrases of them, phrases of the body; nothing if the
description is only to be shorter."""
_LEADS = {
    "en": ("Use for requests such as", "Use for"),
    "de": ("Für Anfragen wie", "Für"),
    "es": ("Para peticiones como", "Para"),
    "fr": ("Pour des demandes comme", "Pour"),
    "it": ("Per richieste come", "Per"),
    "ja": ("次のような依頼に使う", "対象"),
    "ko": ("다음과 같은 요청에 사용", "대상"),
    "pt": ("Para pedidos como", "Para"),
    "ru": ("Для запросов вроде", "Для"),
    "zh": ("适用于这样的请求", "适用于"),
}
"""The beginnings of a sentence that lists requests, and of one that lists subjects."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A skill that takes requests of another: its name and its description."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """A new description, and the kinds of changes in it."""

    kinds: tuple[str, ...]
    description: str


@dataclass(frozen=True)
class ProposalMaterial:
    """The material of a new description: the skill's texts, requests for it, and a rival."""

    name: str
    description: str
    body: str
    requests: Sequence[str]
    weigh: Weigh
    rival: Rival | None = None
    language: str = "en"

    @cached_property
    def _additions(self) -> dict[str, Sequence[str]]:
        return {
            "requests": self._requests(),
            "words": self._phrases(self.requests, _MOST_PHRASES),
            "body": self._of_body(),
        }

    def made(self, kinds: Sequence[str], *, with_exclusion: bool = False) -> Proposal | None:
        """Return the description with kinds of additions; None if there is nothing to add.

        They follow the first sentence, since a reader reads the head; the exclusion of the rival's
        subjects comes last. It has no more than `MAX_DESCRIPTION_CHARS`: the description is cut
        for what is added, and that has half of the room.
        """
        clause = self._exclusion if with_exclusion else ""
        is_empty = not (kinds or clause) and len(self.description) <= MAX_DESCRIPTION_CHARS
        if is_empty or with_exclusion > bool(clause) or not all(map(self._additions.get, kinds)):
            return None
        added = self._fitting(kinds, _MOST_CHARS - len(clause))
        head, room = self.description.strip(), MAX_DESCRIPTION_CHARS
        room -= sum(len(text) + 2 for text in (*added, clause) if text)
        if is_shorter := len(head) > room:
            head = _shortened(head, room)
        first, rest = _parted(head) if added else (head, "")
        named = (*kinds, *(["not for"] if clause else ()), *(["shorter"] if is_shorter else ()))
        return Proposal(named, _joined((first, *added, rest, clause)))

    def _fitting(self, kinds: Sequence[str], room: int) -> list[str]:
        """Return a sentence for each kind of additions; what comes last is left out for room."""
        sentences = list[str]()
        for kind in kinds:
            items = list(self._additions[kind])
            while items and len(" ".join((*sentences, self._listed(kind, items)))) > room:
                items.pop()
            if items:
                sentences.append(self._listed(kind, items))
        return sentences

    def fewer(self) -> Iterator[ProposalMaterial]:
        """Yield the same with all of the first requests but one, then with each of them alone."""
        first = self.requests[:_MOST_REQUESTS]
        for is_left_out in (True, False):
            for text in first:
                requests = [other for other in first if (other != text) is is_left_out]
                yield replace(self, requests=requests)

    def _listed(self, kind: str, items: Sequence[str]) -> str:
        requests, subjects = _LEADS[self.language]
        if kind != "requests":
            return f"{subjects}: {', '.join(items)}."
        quoted = (item.replace('"', "'") for item in items)
        return f"{requests}: " + ", ".join(f'"{item}"' for item in quoted) + "."

    def _requests(self) -> list[str]:
        """Return requests as they are; of a long one, the sentence that says most."""
        chosen = []
        for request in self.requests:
            parts = [request] if len(request) <= _REQUEST_CHARS else _SENTENCE_END.split(request)
            usable = [part for part in parts if len(part) <= _REQUEST_CHARS and _is_usable(part)]
            if usable:
                chosen.append(max(usable, key=self._weight))
        return list(dict.fromkeys(chosen))[:_MOST_REQUESTS]

    def _weight(self, text: str) -> float:
        new = {*document_terms(text, self.language)} - self._own_terms
        return sum(self.weigh(new).values()) if new else 0.0

    @cached_property
    def _own_terms(self) -> set[str]:
        return {*document_terms(f"{self.name} {self.description}", self.language)}

    def _phrases(self, texts: Iterable[str], most: int, covered: Collection[str] = ()) -> list[str]:
        """Return the phrases whose new terms weigh most, in the order of the texts."""
        usable = filter(_is_usable, texts)
        runs = [run for text in usable for run in _runs(text, self.language)]
        cut = [run[at : at + _MOST_WORDS] for run in runs for at in range(0, len(run), _MOST_WORDS)]
        return self._heaviest(Counter(" ".join(words) for words in cut), most, covered)

    def _heaviest(
        self, phrases: Mapping[str, int], most: int, covered: Collection[str] = ()
    ) -> list[str]:
        """Return phrases by the weight of their new terms, times the root of how often they are."""
        terms = {phrase: {*document_terms(phrase, self.language)} for phrase in phrases}
        weights = self.weigh({term for some in terms.values() for term in some})
        there, chosen = self._own_terms.union(covered), list[str]()
        while len(chosen) < most and terms:
            gains = {
                phrase: sum(weights.get(term, 0.0) for term in sorted(some - there))
                * (phrases[phrase] / max(len(some), 1)) ** 0.5
                for phrase, some in terms.items()
            }
            best = max(gains, key=lambda phrase: gains[phrase])
            if gains[best] <= 0:
                break
            there |= terms.pop(best)
            chosen.append(best)
        return [phrase for phrase in phrases if phrase in chosen]

    def _of_body(self) -> list[str]:
        """Return phrases that the body repeats."""
        counts: Counter[str] = Counter()
        for block in islice(blocks(self.body), _BODY_BLOCKS):
            text = plain(block.text)
            for run in _runs(text, self.language) if _is_usable(text) else ():
                pairs = (" ".join(pair).casefold() for pair in pairwise(run))
                counts.update([*dict.fromkeys(pairs)])
        often = {phrase: count for phrase, count in counts.items() if count >= _LEAST_TIMES}
        return self._heaviest(often, _MOST_OF_BODY)

    @cached_property
    def _exclusion(self) -> str:
        """Return a clause that sends the rival's own subjects to it; empty if none is safe."""
        rival = self.rival
        if rival is None or self.language != "en" or not _SLUG.fullmatch(rival.name):
            return ""
        own = {*document_terms(" ".join((self.body, *self.requests)), self.language)}
        description = split_description(one_line(rival.description))[0]
        phrases = self._phrases(_SENTENCE_END.split(description), _MOST_OF_RIVAL, own)
        own |= self._own_terms
        foreign = [p for p in phrases if own.isdisjoint(document_terms(p, self.language))]
        clause = f"Not for {', '.join(foreign)}: use {rival.name}."
        return clause if foreign and split_description(f"It is. {clause}")[0] == "It is." else ""


def language_for(description: str, fallback: str) -> str:
    """Return the language for additions to a description: its own if that has leads."""
    language = language_of(description) or fallback
    return language if language in _LEADS else "en"


def _is_usable(text: str) -> bool:
    """Return whether a text is plain prose: nothing hidden, no code, command or "not"."""
    if visible(text) != text or _NO_PROSE.search(text) or split_description(f"It. {text}")[1]:
        return False
    return all(command.severity == "note" for command in find_commands(text))


def _runs(text: str, language: str) -> Iterator[list[str]]:
    """Yield the runs of words between function words and punctuation."""
    function = FUNCTION_WORDS["en"] | FUNCTION_WORDS.get(language, frozenset())
    run, end = list[str](), 0
    for word in _WORD.finditer(text):
        is_function = re.split("['\u2019]", word[0].casefold())[0] in function
        if run and (is_function or text[end : word.start()].strip()):
            yield run
            run = []
        if not is_function and any(map(str.isalpha, word[0])):
            run.append(word[0])
        end = word.end()
    if run:
        yield run


def _parted(text: str) -> tuple[str, str]:
    """Return the first sentence and the others; all is the first if no end is sure."""
    for between in _SENTENCE_START.finditer(text):
        first, rest = text[: between.start()], text[between.end() :]
        is_open = first.count('"') % 2 or first.count("(") != first.count(")")
        if not is_open and not rest[0].islower():
            return first, rest
    return text, ""


def _joined(texts: Iterable[str]) -> str:
    """Return texts as sentences, each but the last with an end."""
    *before, last = filter(None, texts)
    closed = (text if text.endswith(_CLOSED) else f"{text}." for text in before)
    return " ".join((*closed, last))


def _shortened(text: str, limit: int) -> str:
    """Return the first sentences that fit a limit, none twice; else the first words."""
    sentences, size = dict[str, None](), 0
    for sentence in _SENTENCE_END.split(text):
        size += (len(sentence) + 1) * (sentence not in sentences)
        if size > limit:
            break
        sentences[sentence] = None
    cut = text[: max(limit, 0)]
    return " ".join(sentences) or cut.rpartition(" ")[0] or cut
