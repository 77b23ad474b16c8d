"""How to edit a skill's description so that it is found for its own requests, and what that costs.

Each proposal is tried on the whole library without example requests: what is measured is what name,
description and body are found by. A proposal is made from some requests and measured on others, and
none is taken that costs a rival one of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import NamedTuple

from skillsearch.errors import EditError, ParseError
from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.documents import Document
from skillsearch.index.indexing.trial import Trial
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.readers.reader import Readers
from skillsearch.reports.proposals import KINDS, Material, Proposal, Rival, language_for
from skillsearch.skills.description_edit import with_description
from skillsearch.text.requests import blocks, plain, requests
from skillsearch.text.safe_text import counted, one_line, visible
from skillsearch.training.queries import clauses
from skillsearch.types import MAX_NAME_CHARS, Record, SearchResult

LEAST_REQUESTS = 4
"""With fewer, a proposal is measured on the requests that it is made from."""
_NOT_SPLIT = f"measured on the same, since there are fewer than {LEAST_REQUESTS}"
MOST_REQUESTS, MOST_RIVALS, _MOST_OF_RIVAL = 40, 8, 8
_MOST_CHARS, _LEAST_WORDS = 500, 3
_CUTOFF = 5
_ADDED = frozenset(kind for kinds in KINDS for kind in kinds)


@dataclass(frozen=True, slots=True)
class Figures(Record):
    """For how many of some requests a skill is the first hit, among the first five, and fits."""

    requests: int
    first: int
    among_five: int
    fits: int

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers that should not fall."""
        return self.first, self.among_five, self.fits

    def is_better(self, before: Figures) -> bool:
        """Return whether one number has risen and none has fallen."""
        return self.counts != before.counts and not self.is_worse(before)

    def is_worse(self, before: Figures) -> bool:
        """Return whether one number has fallen."""
        return any(now < was for now, was in zip(self.counts, before.counts, strict=True))


@dataclass(frozen=True, slots=True)
class Effect(Record):
    """What a proposal does to the requests of a skill; `taken` of ours it stood above us before."""

    name: str
    doc_id: str
    taken: int
    before: Figures
    after: Figures

    @property
    def summary(self) -> str:
        """One line with the figures before and after."""
        pairs = zip(self.before.counts, self.after.counts, strict=True)
        first, five, fits = (f"{was} → {now}" if was != now else f"{was}" for was, now in pairs)
        name = one_line(self.name, MAX_NAME_CHARS)
        above = f"; above yours for {self.taken}" if self.taken else ""
        figures = f"first for {first}, among five for {five}, fits {fits}"
        if not self.before.requests:
            return f"{name}: no request of its own to measure{above}"
        return f"{name}: {counted(self.before.requests, 'request')}: {figures}{above}"


@dataclass(frozen=True, slots=True)
class Improvement(Record):
    """A new description with its effects, or why there is none.

    Attributes:
        kinds: What it changes; empty if nothing is proposed.
        made_from: How many requests it is made from.
        is_split: Whether it is measured on other requests than these.
        own: What it does to the requests that it is measured on.
        rivals: What it does to the requests of the skills that stand near it.
        tried: How many proposals were tried.
        costly: How many of them would have helped, and cost a rival.
    """

    KEYS = MappingProxyType({"is_split": "split"})

    name: str
    path: str
    before: str
    description: str
    kinds: tuple[str, ...]
    made_from: int
    is_split: bool
    own: Effect
    rivals: tuple[Effect, ...]
    tried: int
    costly: int

    @property
    def is_proposed(self) -> bool:
        """Whether there is a new description."""
        return bool(self.kinds)

    @property
    def summary(self) -> str:
        """What was made, of what, and how it was measured, in words."""
        own, made = self.own.before, counted(self.made_from, "request")
        how = f"measured on {self.own.before.requests} others" if self.is_split else _NOT_SPLIT
        if self.is_proposed:
            return f"proposed: {', '.join(self.kinds)}; made from {made}, {how}"
        if own.counts == (own.requests,) * 3:
            return f"The description is fine: the skill fits all {own.requests} requests."
        tried = f"of {counted(self.tried, 'proposal')} made from {made}, {how},"
        cost = f"; {self.costly} would have helped, at the cost of a rival" if self.costly else ""
        return f"Nothing is proposed: {tried} none helps without harm{cost}."


def mined_requests(body: str) -> list[str]:
    """Return what a body says that it is for: requests that it lists, and what follows "when"."""
    listed = (plain(text) for text in requests(blocks(body)))
    texts = dict.fromkeys(one_line(text) for text in (*listed, *clauses(body)))
    return [text for text in texts if len(text.split()) >= _LEAST_WORDS]


def split(texts: Iterable[str]) -> tuple[list[str], list[str], bool]:
    """Return what to make proposals from, what to measure them on, and whether these differ.

    Every second request measures, in the order given.
    """
    folded = (" ".join(visible(text).split())[:_MOST_CHARS] for text in texts)
    distinct = list(dict.fromkeys(filter(None, folded)))[:MOST_REQUESTS]
    if len(distinct) < LEAST_REQUESTS:
        return distinct, distinct, False
    return distinct[::2], distinct[1::2], True


class _Tried(NamedTuple):
    """A proposal, the index with it, and what becomes of the requests."""

    proposal: Proposal
    searched: SkillIndex
    after: Figures
    score: float

    def rank(self) -> tuple[int, float, int]:
        """Return a key that puts the best first: by all figures, scores, and the shortest."""
        return -sum(self.after.counts), -round(self.score, 6), len(self.proposal.description)


@dataclass(frozen=True)
class Improver:
    """Tries descriptions of one skill; `requests_of` another returns those by which it is found."""

    trial: Trial
    document: Document
    data: bytes
    requests_of: Callable[[Document], Sequence[str]]
    reader: str | None = None
    readers: Readers = field(default_factory=Readers)

    @classmethod
    def of(
        cls,
        trial: Trial,
        index: SkillIndex,
        document: Document,
        data: bytes,
        reader: str | None = None,
    ) -> Improver:
        """Take a skill of the index that a trial is like, with the bytes of its SKILL.md."""
        return cls(trial, document, data, partial(own_requests, index), reader)

    def improve(self, made_from: Sequence[str], measured: Sequence[str]) -> Improvement:
        """Return the best proposal that costs no rival anything."""
        before, _ = self._measure(self._base, self.document, measured)
        rivals = self._rivals([*made_from, *measured])
        material = self._material(made_from, rivals)
        tried = [*self._try([material.made(kinds) for kinds in KINDS], measured)]
        best = min(tried, key=_Tried.rank).proposal.kinds if tried else ()
        added = tuple(kind for kind in best if kind in _ADDED)
        more = [material.made(kinds, with_exclusion=True) for kinds in {added: 0, (): 0}]
        tried += self._try(more, measured)
        helpful = [attempt for attempt in tried if attempt.after.is_better(before)]
        costly, shown = 0, Proposal((), self.document.description)
        effects, after = rivals, before
        for attempt in sorted(helpful, key=_Tried.rank):
            now = [self._after(rival, attempt.searched) for rival in rivals]
            if not any(effect.after.is_worse(effect.before) for effect in now):
                shown, effects, after = attempt.proposal, now, attempt.after
                break
            costly += 1
        return Improvement(
            name=self.document.name,
            path=self.document.path,
            before=self.document.description,
            description=shown.description,
            kinds=shown.kinds,
            made_from=len(made_from),
            is_split={*made_from}.isdisjoint(measured),
            own=Effect(self.document.name, self.document.doc_id, 0, before, after),
            rivals=tuple(effects),
            tried=len(tried),
            costly=costly,
        )

    def figures(self, texts: Sequence[str], description: str = "") -> Figures:
        """Return the figures of the skill for some requests, as it is or with a description."""
        if description in ("", self.document.description):
            return self._measure(self._base, self.document, texts)[0]
        (tried,) = self._try([Proposal((), description)], texts)
        return tried.after

    def _try(
        self, proposals: Iterable[Proposal | None], measured: Sequence[str]
    ) -> Iterator[_Tried]:
        """Yield what becomes of the requests with each proposal that the file can hold."""
        for proposal in filter(None, proposals):
            try:
                data = with_description(self.data, proposal.description)
                index = self._index(self.trial.changed(self.document, data))
            except (EditError, ParseError):
                continue
            yield _Tried(proposal, index, *self._measure(index, self.document, measured))

    @cached_property
    def _base(self) -> SkillIndex:
        return self._index(self.trial.opened)

    def _index(self, opened: OpenedIndex) -> SkillIndex:
        folder = IndexFolder(opened.folder)
        return SkillIndex(folder, opened, self.trial.embedder, readers=self.readers)

    def _answers(self, index: SkillIndex, texts: Sequence[str]) -> list[SearchResult]:
        options = SearchOptions(n=_CUTOFF, threshold=0.0, reader=self.reader)
        return index.answer(texts, options)

    def _measure(
        self, index: SkillIndex, document: Document, texts: Sequence[str]
    ) -> tuple[Figures, float]:
        """Return the figures of a skill for some requests, and the sum of its scores."""
        cut = default_calibration().threshold
        hits = [
            next((hit for hit in answer if document.path in (hit.path, *hit.duplicates)), None)
            for answer in self._answers(index, texts)
        ]
        held = [hit for hit in hits if hit]
        first, fits = (sum(hit.rank == 1 for hit in held), sum(hit.score >= cut for hit in held))
        return Figures(len(texts), first, len(held), fits), sum(hit.score for hit in held)

    def _rivals(self, texts: Sequence[str]) -> list[Effect]:
        """Return the skills nearest to some requests as they are, those first that take most."""
        above, near = Counter[str](), Counter[str]()
        for answer in self._answers(self._base, texts):
            own = [self.document.path in (hit.path, *hit.duplicates) for hit in answer]
            rank = own.index(True) if any(own) else len(own)
            near.update(hit.doc_id for at, hit in enumerate(answer) if at != rank)
            above.update(hit.doc_id for hit in answer[:rank])
        ranked = sorted(near, key=lambda doc_id: (-above[doc_id], -near[doc_id], doc_id))
        nothing = Figures(0, 0, 0, 0)
        rivals = (
            Effect(self._document(doc_id).name, doc_id, above[doc_id], nothing, nothing)
            for doc_id in ranked[:MOST_RIVALS]
        )
        measured = (self._after(rival, self._base) for rival in rivals)
        return [replace(rival, before=rival.after) for rival in measured]

    def _after(self, rival: Effect, index: SkillIndex) -> Effect:
        """Return what an index makes of the requests of a rival."""
        document = self._document(rival.doc_id)
        texts = self.requests_of(document)[:_MOST_OF_RIVAL]
        return replace(rival, after=self._measure(index, document, texts)[0])

    def _document(self, doc_id: str) -> Document:
        documents = self.trial.opened.corpus.documents
        return documents[documents.number_of(doc_id) or 0]

    def _material(self, made_from: Sequence[str], rivals: Sequence[Effect]) -> Material:
        document, worst = self.document, rivals[0] if rivals and rivals[0].taken else None
        rival = None
        if worst:
            rival = Rival(worst.name, self._document(worst.doc_id).description)
        language = language_for(document.description, document.language)
        body = self._base.read(document).body
        texts = (document.name, document.description, body, made_from, self._weigh)
        return Material(*texts, rival, language)

    def _weigh(self, terms: Iterable[str]) -> dict[str, float]:
        """Return the weights of terms in metadata and body; of unknown ones that of the rarest."""
        lexical = self.trial.opened.corpus.lexical[-1]
        query = lexical.weigh(dict.fromkeys(sorted(terms), 1.0))
        rows = zip(
            query.terms, query.idf.tolist(), query.document_frequencies.tolist(), strict=True
        )
        return {term: idf if count > 0 else lexical.rarest_idf for term, idf, count in rows}


def own_requests(index: SkillIndex, document: Document) -> list[str]:
    """Return the requests of a skill: its examples in an index, else those that its body lists."""
    held = index.opened.corpus.documents
    number = held.number_of(document.doc_id)
    examples = held[number].examples if number is not None else ()
    if examples:
        return [example.text for example in examples]
    try:
        return mined_requests(index.read(document).body)
    except ParseError:
        return []
