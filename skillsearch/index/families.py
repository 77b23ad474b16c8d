"""Families of near-copies: one document stands for the others; pure.

Documents are taken in order of precedence. Each joins the family of the first one that it is a
near-copy of, if that leads or is of an earlier root; or it leads a family of its own. So within a
root a member is always close to its leader and chains cannot form, and whoever copies a member
into a later root has no family apart. Families follow from the documents alone, not from how an
index came about.

Two documents are near-copies if a dense channel that knows both finds that their metadata says the
same, if their texts or bodies are equal, or if they have one name and most of a body. In different
roots it is enough that most of a body is the same and the metadata is similar: within one, authors
make skills for different things from one template.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.index.documents import KNOWN
from skillsearch.index.storage.family_table import FamilyTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skillsearch.index.dense.vectors import DenseChannel
    from skillsearch.index.storage.document_store import DocumentStore

    Floats = NDArray[np.float32]
    Numbers = NDArray[np.int64]
    Sketches = NDArray[np.uint32]
    Flags = NDArray[np.bool_]

# Up to this many documents each is compared with every leader; of more, only with what lies in the
# same cells.
EXACT = 20_000
# Share of the smaller sketch that two bodies have in common if one has most of the other, and the
# hashes that it takes to say so.
MOST_OF_BODY, _LEAST_HASHES = 0.5, 4
# The same of documents of different roots with similar metadata.
_MOST_ELSEWHERE, _LEAST_ELSEWHERE = 0.6, 8
# Pairs whose bodies are compared at a time.
_PAIRS = 1 << 14
# A cosine this close to a limit is computed again in double precision: which product of matrices
# it came from must not decide.
_UNSURE = 1e-5
# Documents that are compared with all leaders at once.
_BLOCK = 512
# Cells hold about this many documents, and each document lies in this many cells.
_CELL_SIZE, _CELLS_OF_ONE = 1_000, 3
# Neighbours that are looked at for one document among more than `EXACT`.
_NEAREST = 100
# If more than one in so many documents is new, all families are formed anew: that is faster.
_FEW = 8
_NONE = -1
_NO_END = np.uint32(0xFFFFFFFF)
NOTHING: Numbers = np.zeros(0, np.int64)


def find_families(
    likeness: Likeness, shadowed: Numbers = NOTHING, before: Numbers | None = None
) -> FamilyTable:
    """Form the families of all living documents; `before` is as for `regroup`.

    The first of the first root comes first. So a copy in a later root never stands for a document
    of an earlier one. Shadowed documents come last, since they stand for nothing that can be found.
    """
    living, roots = likeness.documents.living, likeness.roots
    is_shadowed = np.isin(living, shadowed)
    order = living[np.lexsort((np.arange(len(living)), roots[living], is_shadowed))]
    found = group(likeness, order) if before is None else regroup(likeness, order, before)
    follows = found != order
    by_number = np.argsort(order[follows])
    members, leaders = order[follows][by_number], found[follows][by_number]
    peers = (roots[members] == roots[leaders]) & ~np.isin(members, shadowed)
    return FamilyTable(members, leaders, peers)


@dataclass(frozen=True)
class Likeness:
    """What tells near-copies among the documents of a corpus, which numbers them.

    `limits` has for each dense channel the cosines from which metadata says the same, and from
    which it is similar. The first channel compares what it knows; the last one, if there is a
    second, all pairs beside. `aliases` are those of the roots in order of precedence.
    """

    documents: DocumentStore
    dense: Sequence[DenseChannel]
    limits: Sequence[tuple[float, float]]
    aliases: Sequence[str]

    @cached_property
    def roots(self) -> NDArray[np.int16]:
        """The place of each document's root."""
        return self.documents.root_places(self.aliases)

    def rows(self, numbers: Numbers) -> _Rows:
        """Return the vectors of some documents."""
        vectors = tuple(channel.vectors_of(numbers) for channel in self.dense)
        return _Rows(numbers, vectors, self.documents.fluency[numbers] >= KNOWN)

    def alike(self, some: _Rows, others: _Rows) -> Flags:
        """Return whether metadata and maybe body make near-copies of some documents and others."""
        found = np.zeros((len(some.numbers), len(others.numbers)), np.bool_)
        for channel, (least, lowest) in enumerate(self.limits):
            left, right = some.vectors[channel], others.vectors[channel]
            cosines = left @ right.T
            one, other = np.nonzero(cosines >= lowest - _UNSURE)
            are_asked = (some.is_known[one] & others.is_known[other]) == (channel == 0)
            one, other = one[are_asked], other[are_asked]
            if not len(one):
                continue
            cosine = cosines[one, other].astype(np.float64)
            unsure = np.flatnonzero(np.minimum(abs(cosine - least), abs(cosine - lowest)) < _UNSURE)
            pairs = left[one[unsure]].astype(np.float64), right[other[unsure]].astype(np.float64)
            cosine[unsure] = np.einsum("ij,ij->i", *pairs)
            found[one, other] |= cosine >= least
            similar = np.flatnonzero((cosine >= lowest) & (cosine < least))
            left_numbers, right_numbers = some.numbers[one[similar]], others.numbers[other[similar]]
            are_copies = self._are_copied(left_numbers, right_numbers)
            found[one[similar], other[similar]] |= are_copies
        return found

    def _are_copied(self, some: Numbers, others: Numbers) -> Flags:
        """Return whether each pair is of two roots and shares most of a body."""
        found: Flags = self.roots[some] != self.roots[others]
        apart, sketches = np.flatnonzero(found), self.documents.sketches
        for begin in range(0, len(apart), _PAIRS):
            pairs = apart[begin : begin + _PAIRS]
            shared, smaller = overlaps(sketches[some[pairs]], sketches[others[pairs]])
            found[pairs] = (smaller >= _LEAST_ELSEWHERE) & (shared >= _MOST_ELSEWHERE * smaller)
        return found

    def near(self, number: int, among: Numbers) -> Numbers:
        """Return which documents, given ascending, are near-copies of one."""
        store = self.documents
        only = np.array([number])
        if len(among) > EXACT:
            found = [self._nearest(number)]
        else:
            blocks = range(0, len(among), _BLOCK)
            own = self.rows(only)
            found = [
                some[self.alike(own, self.rows(some))[0]]
                for some in (among[begin : begin + _BLOCK] for begin in blocks)
            ]
        found.append(np.flatnonzero(store.texts == store.texts[number]))
        if store.bodies[number]:
            found.append(np.flatnonzero(store.bodies == store.bodies[number]))
        namesakes = np.flatnonzero(store.names == store.names[number])
        found.append(namesakes[[self.share_body(number, one) for one in namesakes.tolist()]])
        near = np.setdiff1d(np.intersect1d(np.concatenate(found), among), [number])
        return near.astype(np.int64)

    def share_body(self, one: int, other: int) -> bool:
        """Return whether one of two bodies has most of the other, as their sketches tell."""
        sketches = self.documents.sketches
        shared, smaller = overlaps(sketches[[one]], sketches[[other]])
        return bool(smaller[0] >= _LEAST_HASHES and shared[0] >= MOST_OF_BODY * smaller[0])

    def _nearest(self, number: int) -> Numbers:
        own = self.rows(np.array([number]))
        found = []
        for channel, vectors in zip(self.dense, own.vectors, strict=True):
            near = channel.nearest_to_each(vectors, _NEAREST, np.zeros(0, np.int64))[0]
            found.append(near[self.alike(own, self.rows(near))[0]])
        return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some documents, their vectors in each channel, and whether the first one knows each."""

    numbers: Numbers
    vectors: tuple[Floats, ...]
    is_known: Flags


def overlaps(some: Sketches, others: Sketches) -> tuple[Numbers, Numbers]:
    """Return how many hashes the sketches of each pair share, and how many the smaller one shows.

    Their quotient estimates the share of the smaller set that is in the other. A sketch has the
    lowest hashes of a set, ascending, filled up with 0 (bottom-k: Cohen and Kaplan, PODC 2007). Up
    to the lower of both ends each shows all of its set.
    """
    ends = np.minimum(*(np.where(one[:, -1:], one[:, -1:], _NO_END) for one in (some, others)))
    are_shown = [(one > 0) & (one <= ends) for one in (some, others)]
    are_shared = (some[:, :, np.newaxis] == others[:, np.newaxis, :]).any(axis=2) & are_shown[0]
    smaller = np.minimum(*(shown.sum(axis=1) for shown in are_shown))
    return are_shared.sum(axis=1), smaller


def group(likeness: Likeness, order: Numbers) -> Numbers:
    """Return the leader of each document in an order of precedence, aligned with it.

    Among more than `EXACT` documents a near-copy is found if it shares a cell with its leader.
    """
    if len(order) <= EXACT:
        return _lead(likeness, order)
    place = np.full(likeness.documents.size, len(order), np.int64)
    place[order] = np.arange(len(order))
    leaders = order.copy()
    for cell in _cells(likeness, order):
        found = _lead(likeness, cell)
        now = leaders[place[cell]]
        leaders[place[cell]] = np.where(place[found] < place[now], found, now)
    # Who leads in one cell may follow in another.
    while (further := leaders[place[leaders]]).tobytes() != leaders.tobytes():
        leaders = further
    return leaders


def regroup(likeness: Likeness, order: Numbers, before: Numbers) -> Numbers:
    """Return what `group` does, given the leader of each document in an index before.

    `before` has -1 for documents that are new, and for those of whose family one is gone. Only
    these are compared, and what they draw after them.
    """
    is_new = before[order] < 0
    if len(order) <= EXACT and np.count_nonzero(is_new) * _FEW > len(order):
        return group(likeness, order)
    return _Regrouping(likeness, order, before).run(np.flatnonzero(is_new).tolist())


class _Regrouping:
    """Goes through the documents whose leader may have changed, in order of precedence.

    All that could change a document's leader comes before it, so each is looked at once.
    """

    def __init__(self, likeness: Likeness, order: Numbers, before: Numbers) -> None:
        self._likeness, self._order, self._before = likeness, order, before
        self._among = np.sort(order)
        self._place = np.full(likeness.documents.size, len(order), np.int64)
        self._place[order] = np.arange(len(order))
        self._leaders = before.copy()

    def run(self, places: list[int]) -> Numbers:
        """Look at the documents in some places of the order, and at all that they draw along."""
        heapq.heapify(places)
        done = -1
        while places:
            place = heapq.heappop(places)
            if place > done:
                done = place
                for number in self._settle(int(self._order[place])):
                    heapq.heappush(places, int(self._place[number]))
        return self._leaders[self._order]

    def _settle(self, number: int) -> list[int]:
        """Find the leader of a document; return those behind it that have to be looked at."""
        near, roots = self._likeness.near(number, self._among), self._likeness.roots
        is_before = self._place[near] < self._place[number]
        may_draw = (self._leaders[near] == near) | (roots[near] < roots[number])
        options = near[is_before & may_draw]
        leader = number
        if len(options):
            leader = int(self._leaders[options[self._place[options].argmin()]])
        self._leaders[number] = leader
        return [] if leader == self._before[number] else near[~is_before].tolist()


def _lead(likeness: Likeness, order: Numbers) -> Numbers:
    """Return the leader of each document, compared with all before it that may draw it."""
    leading = _Leading(likeness, int(likeness.roots[order].max(initial=0)))
    blocks = range(0, len(order), _BLOCK)
    found = [leading.extend(order[begin : begin + _BLOCK]) for begin in blocks]
    return np.concatenate([np.zeros(0, np.int64), *found])


class _Leading:
    """The documents so far, in order, that may draw others into a family.

    Those are leaders, and for documents of later roots members too. A document has a rank among
    them.
    """

    def __init__(self, likeness: Likeness, last_root: int) -> None:
        self._likeness, self._last_root = likeness, last_root
        self._numbers: list[int] = []
        self._leaders: list[int] = []
        self._rows: list[_Rows] = []
        self._first: defaultdict[tuple[str, int], list[int]] = defaultdict(list)

    def extend(self, numbers: Numbers) -> Numbers:
        """Return the leaders of the next documents, which may lead themselves."""
        rows = self._likeness.rows(numbers)
        first = self._first_alike(rows)
        inside = self._likeness.alike(rows, rows)
        store, roots = self._likeness.documents, self._likeness.roots
        columns = (store.texts[numbers], store.bodies[numbers], store.names[numbers])
        keys = zip(*(column.tolist() for column in columns), strict=True)
        found = np.empty(len(numbers), np.int64)
        ranks = np.full(len(numbers), _NONE, np.int64)
        for place, (number, (text, body, name)) in enumerate(
            zip(numbers.tolist(), keys, strict=True)
        ):
            root = int(roots[number])
            near = ranks[:place][inside[place, :place] & (ranks[:place] != _NONE)].tolist()
            namesakes = self._drawing(root, "name", name)
            likeness = (
                iter([int(first[place])] if first[place] != _NONE else []),
                (rank for rank in near if self._may_draw(rank, root)),
                self._drawing(root, "text", text),
                self._drawing(root, "body", body),
                (one for one in namesakes if self._share_body(number, one)),
            )
            known = [rank for ranked in likeness if (rank := next(ranked, _NONE)) != _NONE]
            found[place] = self._leaders[min(known)] if known else number
            if not known or root < self._last_root:
                ranks[place] = self._add(number, int(found[place]), text, body, name)
        kept = ranks != _NONE
        vectors = tuple(matrix[kept] for matrix in rows.vectors)
        self._rows.append(_Rows(numbers[kept], vectors, rows.is_known[kept]))
        return found

    def _add(self, number: int, leader: int, text: int, body: int, name: int) -> int:
        rank = len(self._numbers)
        self._numbers.append(number)
        self._leaders.append(leader)
        for key in (("text", text), *([("body", body)] if body else ()), ("name", name)):
            self._first[key].append(rank)
        return rank

    def _may_draw(self, rank: int, root: int) -> bool:
        number = self._numbers[rank]
        return self._leaders[rank] == number or self._likeness.roots[number] < root

    def _drawing(self, root: int, kind: str, value: int) -> Iterator[int]:
        ranks = self._first.get((kind, value), ())
        return (rank for rank in ranks if self._may_draw(rank, root))

    def _share_body(self, number: int, rank: int) -> bool:
        return self._likeness.share_body(number, self._numbers[rank])

    def _first_alike(self, rows: _Rows) -> Numbers:
        """Return the rank of the first so far that says the same and may draw each row, or -1."""
        found = np.full(len(rows.numbers), _NONE, np.int64)
        roots, before = self._likeness.roots, 0
        for some in self._rows:
            ranks = slice(before, before + len(some.numbers))
            is_leading = np.array(self._leaders[ranks], np.int64) == some.numbers
            alike = self._likeness.alike(rows, some)
            alike &= is_leading | (roots[some.numbers] < roots[rows.numbers, np.newaxis])
            is_new = (found == _NONE) & alike.any(axis=1)
            if is_new.any():
                found[is_new] = before + alike[is_new].argmax(axis=1)
            before = ranks.stop
        return found


def _cells(likeness: Likeness, order: Numbers) -> list[Numbers]:
    """Return overlapping parts of many documents, each in the same order.

    A document lies with the documents it is most like, among some that are spread evenly.
    """
    step = _CELL_SIZE // _CELLS_OF_ONE
    middles = likeness.rows(np.sort(order)[::step]).vectors[0]
    kept = []
    for begin in range(0, len(order), _BLOCK):
        cosines = likeness.rows(order[begin : begin + _BLOCK]).vectors[0] @ middles.T
        kept.append(np.argpartition(-cosines, _CELLS_OF_ONE - 1, axis=1)[:, :_CELLS_OF_ONE])
    cells = np.concatenate(kept)
    flat = cells.ravel()
    by_cell = np.argsort(flat, kind="stable")
    ends = np.cumsum(np.bincount(flat, minlength=len(middles)))[:-1]
    return [order[part // _CELLS_OF_ONE] for part in np.split(by_cell, ends) if len(part)]
