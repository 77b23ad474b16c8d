"""Families of near-copies: one document stands for the others; pure.

Documents are taken in order of precedence. Each joins the family of the leader that it is nearest
to a copy of, the first of equals, or leads a family of its own. So a member is always a near-copy
of its leader, and what a third document is changes nothing. Families follow from the documents and
their order alone, not from how an index came about.

Two documents are near-copies if their metadata says the same and one has most of the other's body,
or if they have one name and most of a body. Metadata says the same if the descriptions are equal,
if their vectors say so, or if one description has nearly all words of the other in their order.
Similar metadata is not enough in one root, since authors make skills for different things from one
template. In a later root it is, beside nearly all of a body, unless there is a nearer copy: whoever
copies a skill exchanges a few words to stand beside it. Skills whose bodies say next to nothing are
near-copies if their descriptions are equal and, in one root, their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.documents.document import SKETCH_SIZE
from skillsearch.index.storage.family_table import FamilyTable
from skillsearch.index.storage.numbering import NOTHING, Floats, Mask, Numbers, repeats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skillsearch.index.dense.vectors import DenseIndex
    from skillsearch.index.storage.document_store import DocumentStore
    from skillsearch.types.indexing import Progress

    Sketches = NDArray[np.uint32]
    Levels = NDArray[np.int8]

# Up to this many documents each is compared with every leader; of more, only with what lies in the
# same cells.
EXACT = 20_000
# Share of the smaller sketch that two texts have in common if one has most of the other, or nearly
# all, and the hashes that it takes to say so.
MOST, _NEARLY_ALL, _LEAST_HASHES = 0.5, 0.9, 4
# How near two documents are to copies; a clone is one in another root, with other words.
COPY, CLONE = 2, 1
# Of a body in another root. Among 2,976 skills of 691 repositories, each a root, it adds one copy
# under another name; clones with three words exchanged in both texts have .81 of it or more.
_OF_BODY_ELSEWHERE = 0.8
_OF_BODY, _OF_DESCRIPTION = slice(SKETCH_SIZE), slice(SKETCH_SIZE, None)
# Pairs whose bodies are compared at a time.
_PAIRS = 1 << 14
# A cosine this close to a limit is computed again in double precision: which product of matrices
# it came from must not decide.
_UNSURE = 1e-5
# Documents that are compared with all leaders at once.
_BLOCK = 512
# Cells hold about this many documents, and each document lies in this many cells.
_CELL_SIZE, _CELLS_OF_ONE = 1_000, 3
# Documents of one name, or with one description, that are compared with each other.
_MOST_EQUAL = 20_000
# Neighbours that are looked at for one document among more than `EXACT`.
_NEAREST = 100
# If more than this share of documents is new, forming all families anew is faster.
_REGROUPED_SHARE = 1 / 8
_NO_END = np.uint32(0xFFFFFFFF)


def find_families(
    likeness: Likeness,
    shadowed: Numbers = NOTHING,
    before: Numbers | None = None,
    arrivals: Numbers | None = None,
    progress: Progress | None = None,
) -> FamilyTable:
    """Form the families of all living documents; `before` is as for `regroup`.

    The first root comes first; in each what lies least remote from its live skills, and of that
    what came first, by the `arrivals` of the living. So a copy in a later root never stands for a
    document of an earlier one. Shadowed documents come last, since they stand for nothing that can
    be found.
    """
    roots, living = likeness.roots, likeness.documents.living
    came = np.zeros(len(living), np.int64) if arrivals is None else arrivals
    remote = likeness.documents.remoteness[living]
    is_shadowed = np.isin(living, shadowed)
    order = living[np.lexsort((np.arange(len(living)), came, remote, roots[living], is_shadowed))]
    if before is None:
        leading = group(likeness, order, progress)
    else:
        leading = regroup(likeness, order, before, progress)
    follows = leading != order
    by_number = np.argsort(order[follows])
    members, leaders = order[follows][by_number], leading[follows][by_number]
    peers = (roots[members] == roots[leaders]) & ~np.isin(members, shadowed)
    return FamilyTable(members, leaders, peers)


@dataclass(frozen=True)
class Likeness:
    """What tells near-copies among the documents of a corpus, which numbers them.

    `limits` are what `copies_from` says of the model. `aliases` are those of the roots in order of
    precedence.
    """

    documents: DocumentStore
    dense: DenseIndex
    limits: tuple[float, float]
    aliases: Sequence[str]

    @cached_property
    def roots(self) -> NDArray[np.int16]:
        """The rank of each document's root."""
        return self.documents.root_places(self.aliases)

    def rows(self, numbers: Numbers) -> _Rows:
        """Return the vectors of some documents."""
        return _Rows(numbers, self.dense.vectors_of(numbers) if self.dense.segments else None)

    def alike(self, some: _Rows, others: _Rows) -> Levels:
        """Return how near some documents and others are to copies: `COPY`, `CLONE` or 0."""
        store, left, right = self.documents, some.numbers[:, np.newaxis], others.numbers
        equal: Mask = store.abouts[left] == store.abouts[right]
        close = equal | (store.names[left] == store.names[right])
        maybe = close.copy()
        if some.vectors is not None and others.vectors is not None:
            least, lowest = self.limits
            cosines = some.vectors @ others.vectors.T
            row, column = np.nonzero(cosines >= lowest - _UNSURE)
            cosine = cosines[row, column].astype(np.float64)
            unsure = np.flatnonzero(np.minimum(abs(cosine - least), abs(cosine - lowest)) < _UNSURE)
            own, their = some.vectors[row[unsure]], others.vectors[column[unsure]]
            cosine[unsure] = np.einsum("ij,ij->i", own.astype(np.float64), their.astype(np.float64))
            close[row, column] |= cosine >= least
            maybe[row, column] |= cosine >= lowest
        if np.count_nonzero(maybe) > _PAIRS:  # as where many have one name
            maybe &= self._can_be_copies(some.numbers, others.numbers)
        row, column = np.nonzero(maybe)
        alike = np.zeros(equal.shape, np.int8)
        for begin in range(0, len(row), _PAIRS):
            pair = row[begin : begin + _PAIRS], column[begin : begin + _PAIRS]
            alike[pair] = self._are_copies(
                some.numbers[pair[0]], others.numbers[pair[1]], close[pair], equal[pair]
            )
        return alike

    def _can_be_copies(self, some: Numbers, others: Numbers) -> Mask:
        """Return which pairs share hashes of their bodies, have one body, or none and one text.

        No others are near-copies, whatever their metadata, and this takes a hundredth of the time.
        """
        store, left_column = self.documents, some[:, np.newaxis]
        is_one_text = store.abouts[left_column] == store.abouts[others]
        is_one_body = store.bodies[left_column] == store.bodies[others]
        left, right = (_with_enough(store.sketches[each][:, _OF_BODY]) for each in (some, others))
        shared = np.zeros(is_one_body.shape, np.int16)
        for value in np.intersect1d(left[left > 0], right).tolist():
            has, have = ((sketches == value).any(axis=1) for sketches in (left, right))
            shared[np.ix_(has, have)] += 1
        can_be: Mask = is_one_body & (is_one_text | (store.bodies[others] > 0))
        can_be |= shared >= MOST * _LEAST_HASHES
        return can_be

    def _are_copies(self, some: Numbers, others: Numbers, close: Mask, equal: Mask) -> Levels:
        """Return how near pairs are to copies, given whether their metadata or names are close.

        Of pairs that are not, one description may still have nearly all of the other.
        """
        store = self.documents
        left, right = store.sketches[some], store.sketches[others]
        bodies = store.bodies[some], store.bodies[others]
        is_one_body = (bodies[0] == bodies[1]) & (bodies[0] > 0)
        overlap = overlaps(left[:, _OF_BODY], right[:, _OF_BODY])
        shares = have_most(*overlap, MOST) | is_one_body
        are_clones = have_most(*overlap, _OF_BODY_ELSEWHERE) | is_one_body
        # Few pairs that are not close share a body, and only of these descriptions decide.
        same, unsure = close.copy(), np.flatnonzero(shares & ~close)
        descriptions = (sketches[unsure, _OF_DESCRIPTION] for sketches in (left, right))
        same[unsure] = have_most(*overlaps(*descriptions), _NEARLY_ALL)
        is_elsewhere = self.roots[some] != self.roots[others]
        # Bodies that say next to nothing tell neither way: descriptions do, in one root with names.
        are_silent = (bodies[0] == 0) & (bodies[1] == 0)
        named = store.names[some] == store.names[others]
        named |= is_elsewhere
        are = (same & shares) | (are_silent & equal & named)
        return np.where(are, COPY, np.where(is_elsewhere & are_clones, CLONE, 0)).astype(np.int8)

    def near(self, number: int, among: Numbers) -> tuple[Numbers, Levels]:
        """Return which documents, given ascending, are near-copies of one, and how near."""
        store, own = self.documents, self.rows(np.array([number]))
        if len(among) > EXACT:
            nearest = NOTHING
            if own.vectors is not None:
                (nearest,) = self.dense.nearest_to_each(own.vectors, _NEAREST, NOTHING)
            equal = (store.abouts == store.abouts[number]) | (store.names == store.names[number])
            among = np.intersect1d(np.concatenate([nearest, np.flatnonzero(equal)]), among)
        among = among[among != number]
        parts = (among[begin : begin + _BLOCK] for begin in range(0, len(among), _BLOCK))
        found = [self.alike(own, self.rows(part))[0] for part in parts]
        levels = np.concatenate([np.zeros(0, np.int8), *found])
        return among[levels > 0], levels[levels > 0]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some documents, and their vectors if there are any."""

    numbers: Numbers
    vectors: Floats | None


def overlaps(some: Sketches, others: Sketches) -> tuple[Numbers, Numbers]:
    """Return how many hashes the sketches of each pair share, and how many the smaller one shows.

    Their quotient estimates the share of the smaller set that is in the other. A sketch has the
    lowest hashes of a set, ascending, filled up with 0 (bottom-k: Cohen and Kaplan, PODC 2007). Up
    to the lower of both ends each shows all of its set.
    """
    ends = np.minimum(*(np.where(each[:, -1:], each[:, -1:], _NO_END) for each in (some, others)))
    are_shown = [(each > 0) & (each <= ends) for each in (some, others)]
    are_shared = (some[:, :, np.newaxis] == others[:, np.newaxis, :]).any(axis=2) & are_shown[0]
    return are_shared.sum(axis=1), np.minimum(*(shown.sum(axis=1) for shown in are_shown))


def _with_enough(sketches: Sketches) -> Sketches:
    """Return sketches, without the hashes of those that have too few to share most."""
    enough: Sketches = sketches * ((sketches > 0).sum(axis=1, keepdims=True) >= _LEAST_HASHES)
    return enough


def have_most(shared: Numbers, smaller: Numbers, most: float = MOST) -> Mask:
    """Return whether one text of each pair has most of the other, given their `overlaps`."""
    are: Mask = (smaller >= _LEAST_HASHES) & (shared >= most * smaller)
    return are


def group(likeness: Likeness, order: Numbers, progress: Progress | None = None) -> Numbers:
    """Return the leader of each document in an order of precedence, aligned with it.

    Among more than `EXACT` documents a near-copy is found if it shares a cell with its leader.
    """
    if len(order) <= EXACT:
        return _lead(likeness, order)[0]
    ranks, leaders, levels = _ranks(likeness, order), order.copy(), np.zeros(len(order), np.int8)
    cells = _cells(likeness, order)
    for at, cell in enumerate(cells):
        if progress:
            progress("compare", at * len(order) // len(cells), len(order))
        leading, level = _lead(likeness, cell)
        rows = ranks[cell]
        is_first = (level == levels[rows]) & (ranks[leading] < ranks[leaders[rows]])
        is_better = (level > levels[rows]) | is_first
        rows = rows[is_better]
        leaders[rows], levels[rows] = leading[is_better], level[is_better]
    # What leads in one cell may follow in another: only a leader of its own draws others after it.
    for at in np.flatnonzero(leaders[ranks[leaders]] != leaders).tolist():
        number, further = order[at : at + 1], leaders[ranks[leaders[at : at + 1]]]
        while further[0] != leaders[ranks[further[0]]]:
            further = leaders[ranks[further]]
        is_near = likeness.alike(likeness.rows(number), likeness.rows(further))[0, 0] > 0
        leaders[at] = further[0] if is_near else number[0]
    return leaders


def regroup(
    likeness: Likeness, order: Numbers, before: Numbers, progress: Progress | None = None
) -> Numbers:
    """Return what `group` does, given the leader of each document in an index before.

    `before` has -1 for documents that are new, and for those of whose family one is gone. Only
    these are compared, and what they draw after them.
    """
    is_new = before[order] < 0
    if len(order) <= EXACT and np.count_nonzero(is_new) > _REGROUPED_SHARE * len(order):
        return group(likeness, order, progress)
    ranks, leaders, among = _ranks(likeness, order), before.copy(), np.sort(order)
    # All that could change a document's leader comes before it, so each is looked at once.
    is_due = is_new
    while is_due.any():
        at = int(is_due.argmax())
        if progress:
            progress("compare", at, len(order))
        number = int(order[at])
        is_due[at] = False
        near, levels = likeness.near(number, among)
        is_before = ranks[near] < at
        leads = is_before & (leaders[near] == near)
        best = np.lexsort((ranks[near[leads]], -levels[leads]))[:1]
        leaders[number] = near[leads][best[0]] if len(best) else number
        if leaders[number] != before[number]:
            is_due[ranks[near[~is_before]]] = True
    return leaders[order]


def _ranks(likeness: Likeness, order: Numbers) -> Numbers:
    """Return the rank of each document in an order of precedence, behind all if it has none."""
    ranks = np.full(likeness.documents.size, len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _lead(likeness: Likeness, order: Numbers) -> tuple[Numbers, Levels]:
    """Return the leader of each document, compared with all before it, and how near it is."""
    leading: list[_Rows] = []
    leaders, levels = order.copy(), np.zeros(len(order), np.int8)
    for begin in range(0, len(order), _BLOCK):
        numbers = order[begin : begin + _BLOCK]
        rows, block = likeness.rows(numbers), slice(begin, begin + _BLOCK)
        leader, level = leaders[block], levels[block]
        for some in leading:
            alike = likeness.alike(rows, some)
            is_nearer = alike.max(axis=1) > level
            leader[is_nearer] = some.numbers[alike[is_nearer].argmax(axis=1)]
            level[is_nearer] = alike[is_nearer].max(axis=1)
        inside = np.tril(likeness.alike(rows, rows), -1)
        for at in np.flatnonzero(inside.any(axis=1)).tolist():
            own = np.where(level[:at] == 0, inside[at, :at], 0)
            if own.max() > level[at]:
                leader[at], level[at] = numbers[own.argmax()], own.max()
        if (leads := level == 0).any():
            leading.append(likeness.rows(numbers[leads]))
    return leaders, levels


def _cells(likeness: Likeness, order: Numbers) -> list[Numbers]:
    """Return overlapping parts of many documents, each in the same order.

    A document lies with those of its name, with those of its metadata and, if there are vectors,
    with the documents it is most like, among some that are spread evenly.
    """
    store = likeness.documents
    equal = [
        order[part[begin : begin + _MOST_EQUAL]]
        for values in (store.names, store.abouts)
        for part in repeats(values[order])
        for begin in range(0, len(part), _MOST_EQUAL)
    ]
    if not likeness.dense.segments:
        return equal
    middles = likeness.dense.vectors_of(np.sort(order)[:: _CELL_SIZE // _CELLS_OF_ONE])
    cells = []
    for begin in range(0, len(order), _BLOCK):
        cosines = likeness.dense.vectors_of(order[begin : begin + _BLOCK]) @ middles.T
        # A copy: a view would keep the ranks of all middles, 24 GB for a million documents.
        nearest = np.argpartition(-cosines, _CELLS_OF_ONE - 1, axis=1)[:, :_CELLS_OF_ONE]
        cells.append(nearest.copy())
    near = [order[part // _CELLS_OF_ONE] for part in repeats(np.concatenate(cells).ravel())]
    return [*equal, *near]
