"""How to edit a description so that requests for its skill find it, and what that costs others.

Each proposal is tried on the whole library without example requests: what is measured is what name,
description and body are found by. A proposal is made from some requests and measured on others, and
none is taken that costs a rival one of its requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from skillsearch.errors import EditError, ParseError
from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.dense.likeness import near_from
from skillsearch.index.documents.document import Document
from skillsearch.index.indexing.trial import Trial
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.readers.loading import Readers
from skillsearch.readers.remembering import RememberingReaders
from skillsearch.reports.proposals import KINDS, Proposal, ProposalMaterial, Rival, language_for
from skillsearch.skills.description_edit import with_description
from skillsearch.text.requests import blocks, plain, requests
from skillsearch.text.safe_text import counted, one_line, visible
from skillsearch.training.queries import clauses
from skillsearch.types.answers import Hit, SearchResult
from skillsearch.types.json_values import Record
from skillsearch.types.skills import MAX_NAME_CHARS

LEAST_REQUESTS = 4
"""With fewer, a proposal is measured on the requests that it is made from."""
_NOT_SPLIT = f"measured on the same, since there are fewer than {LEAST_REQUESTS}"
MOST_REQUESTS, MOST_RIVALS, _MOST_OF_RIVAL = 40, 8, 8
_MOST_CHARS, _LEAST_WORDS = 500, 3
_CUTOFF = 5
_OF_REQUESTS = frozenset(("requests", "words"))
_ADDED = frozenset(kind for kinds in KINDS for kind in kinds)


@dataclass(frozen=True, slots=True)
class Figures(Record):
    """How many requests there are, and for how many a skill is first, among five, and fits."""

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
    """The figures of a skill before and after; a rival had `taken` so many of our requests."""

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
        own: Its effect on the requests that it is measured on.
        rivals: Its effect on the requests of the skills nearest to it.
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
        """What is proposed and how it was measured, in words."""
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
    """Return the requests that a body lists, and its clauses after "use when" and the like."""
    listed = (plain(text) for text in requests(blocks(body)))
    texts = dict.fromkeys(one_line(text) for text in (*listed, *clauses(body)))
    return [text for text in texts if len(text.split()) >= _LEAST_WORDS]


def split(texts: Iterable[str]) -> tuple[list[str], list[str], bool]:
    """Return the requests that make proposals, those that measure them, and whether they differ.

    Every second request measures, in the order given.
    """
    folded = (" ".join(visible(text).split())[:_MOST_CHARS] for text in texts)
    distinct = list(dict.fromkeys(filter(None, folded)))[:MOST_REQUESTS]
    if len(distinct) < LEAST_REQUESTS:
        return distinct, distinct, False
    return distinct[::2], distinct[1::2], True


class Attempt(NamedTuple):
    """A proposal, the index with it, and the figures and scores of the requests there."""

    proposal: Proposal
    searched: SkillIndex
    after: Figures
    score: float

    def rank(self) -> tuple[int, float, int]:
        """Return a key that puts the best first: by all figures, scores, and the shortest."""
        return -sum(self.after.counts), -round(self.score, 6), len(self.proposal.description)


@dataclass(frozen=True)
class Improver:
    """Tries descriptions of one skill; `data` are the bytes of its SKILL.md.

    `requests_of` gives the requests by which another skill is to be found as before.
    """

    trial: Trial
    document: Document
    data: bytes
    requests_of: Callable[[Document], Sequence[str]]
    reader: str | None = None
    readers: Readers = field(default_factory=RememberingReaders)

    @cached_property
    def base(self) -> SkillIndex:
        """The index with the skill as it is."""
        return self._index(self.trial.opened)

    def improve(self, made_from: Sequence[str], measured: Sequence[str]) -> Improvement:
        """Return the best proposal that costs no rival anything."""
        before, _ = self.measure(self.base, self.document, measured)
        rivals = self._rivals([*made_from, *measured])
        tried = self._proposals(self.material(made_from, rivals), measured)
        helpful = [attempt for attempt in tried if attempt.after.is_better(before)]
        nothing = Improvement(
            name=self.document.name,
            path=self.document.path,
            before=self.document.description,
            description=self.document.description,
            kinds=(),
            made_from=len(made_from),
            is_split={*made_from}.isdisjoint(measured),
            own=Effect(
                self.document.name, self.document.doc_id, taken=0, before=before, after=before
            ),
            rivals=rivals,
            tried=len(tried),
            costly=len(helpful),
        )
        for costly, attempt in enumerate(sorted(helpful, key=Attempt.rank)):
            if (effects := self._without_loss(rivals, attempt.searched)) is not None:
                proposal, own = attempt.proposal, replace(nothing.own, after=attempt.after)
                made = replace(nothing, description=proposal.description, kinds=proposal.kinds)
                return replace(made, own=own, rivals=tuple(effects), costly=costly)
        return nothing

    def _without_loss(self, rivals: Sequence[Effect], index: SkillIndex) -> list[Effect] | None:
        """Return what an index does to rivals; None if one of them loses a request."""
        effects = list[Effect]()
        for rival in rivals:
            after = self._of_rival(rival.doc_id, index)
            if after.is_worse(rival.before):
                return None
            effects.append(replace(rival, after=after))
        return effects

    def _proposals(self, material: ProposalMaterial, measured: Sequence[str]) -> list[Attempt]:
        """Try all kinds of proposals; then those of the best, of fewer requests or with "not for".

        The exclusion is tried alone too.
        """
        tried = self.attempts(map(material.made, KINDS), measured)
        ranked = [attempt.proposal for attempt in sorted(tried, key=Attempt.rank)]
        best = next((proposal for proposal in ranked if _OF_REQUESTS & {*proposal.kinds}), None)
        kinds = dict.fromkeys((*map(_additions, ranked[:1]), ()))
        others = [material.made(each, with_exclusion=True) for each in kinds]
        if best is not None:
            others += [fewer.made(_additions(best)) for fewer in material.fewer()]
        distinct = dict.fromkeys(others)
        return tried + self.attempts((made for made in distinct if made != best), measured)

    def attempts(self, proposals: Iterable[Proposal | None], texts: Sequence[str]) -> list[Attempt]:
        """Measure each proposal that the file can hold on some requests."""
        attempts = []
        for proposal in filter(None, proposals):
            try:
                data = with_description(self.data, proposal.description)
                index = self._index(self.trial.changed(self.document, data))
            except (EditError, ParseError):
                continue
            attempts.append(Attempt(proposal, index, *self.measure(index, self.document, texts)))
        return attempts

    def measure(
        self, index: SkillIndex, document: Document, texts: Sequence[str]
    ) -> tuple[Figures, float]:
        """Return the figures of a skill for some requests, and the sum of its scores."""
        cut = default_calibration().threshold
        hits = [hit for answer in self._answers(index, texts) if (hit := _hit_of(document, answer))]
        first, fits = sum(hit.rank == 1 for hit in hits), sum(hit.score >= cut for hit in hits)
        return Figures(len(texts), first, len(hits), fits), sum(hit.score for hit in hits)

    def _index(self, opened: OpenedIndex) -> SkillIndex:
        folder = IndexFolder(opened.folder)
        return SkillIndex(folder, opened, self.trial.embedder, readers=self.readers)

    def _answers(self, index: SkillIndex, texts: Sequence[str]) -> list[SearchResult]:
        return index.answer(texts, SearchOptions(n=_CUTOFF, threshold=0.0, reader=self.reader))

    def _rivals(self, texts: Sequence[str]) -> tuple[Effect, ...]:
        """Return the skills nearest to some requests; those that take most of them come first."""
        above, near = Counter[str](), Counter[str]()
        for answer in self._answers(self.base, texts):
            own = _hit_of(self.document, answer)
            near.update(hit.doc_id for hit in answer if hit is not own)
            above.update(hit.doc_id for hit in answer if own is None or hit.rank < own.rank)
        ranked = sorted(near, key=lambda doc_id: (-above[doc_id], -near[doc_id], doc_id))
        before = {doc_id: self._of_rival(doc_id, self.base) for doc_id in ranked[:MOST_RIVALS]}
        return tuple(
            Effect(
                self._document(doc_id).name, doc_id, above[doc_id], before=figures, after=figures
            )
            for doc_id, figures in before.items()
        )

    def _of_rival(self, doc_id: str, index: SkillIndex) -> Figures:
        """Return the figures of a rival, for its own requests, in an index."""
        document = self._document(doc_id)
        return self.measure(index, document, self.requests_of(document)[:_MOST_OF_RIVAL])[0]

    def _document(self, doc_id: str) -> Document:
        documents = self.trial.opened.corpus.documents
        return documents[documents.number_of(doc_id) or 0]

    def material(self, made_from: Sequence[str], rivals: Sequence[Effect] = ()) -> ProposalMaterial:
        """Return what descriptions are made of; the first near rival that takes requests counts."""
        document = self.document
        near = (effect for effect in rivals if effect.taken and self._is_near(effect.doc_id))
        first = next(near, None)
        rival = Rival(first.name, self._document(first.doc_id).description) if first else None
        language = language_for(document.description, document.language)
        body = self.base.read(document).body
        return ProposalMaterial(
            document.name, document.description, body, made_from, self._weigh, rival, language
        )

    def _is_near(self, doc_id: str) -> bool:
        """Return whether a skill is of the same subject, so that readers may confuse the two."""
        corpus = self.trial.opened.corpus
        if not corpus.dense.segments:  # there are words alone so far
            return False
        numbers = [corpus.documents.number_of(each) or 0 for each in (self.document.doc_id, doc_id)]
        one, other = corpus.dense.vectors_of(np.array(numbers))
        return float(one @ other) >= near_from(self.trial.opened.settings.model.spec)

    def _weigh(self, terms: Collection[str]) -> dict[str, float]:
        """Return the weights of terms in metadata and body; unknown ones weigh as the rarest."""
        lexical, ordered = self.trial.opened.corpus.lexical[-1], sorted(terms)
        known = lexical.weigh(dict.fromkeys(ordered, 1.0)).known_idf()
        return {term: known.get(term, lexical.rarest_idf) for term in ordered}


def _additions(proposal: Proposal) -> tuple[str, ...]:
    """Return the kinds of additions in a proposal."""
    return tuple(kind for kind in proposal.kinds if kind in _ADDED)


def _hit_of(document: Document, answer: SearchResult) -> Hit | None:
    """Return the hit that is a document, or stands for it as a copy."""
    paths = ((hit, (hit.path, *hit.duplicates)) for hit in answer)
    return next((hit for hit, held in paths if document.path in held), None)


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
