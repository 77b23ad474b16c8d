"""The options of a search: declared here alone, for every interface."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skillsearch.errors import QueryError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.roots.scope import from_folders
from skillsearch.settings.table import Settings
from skillsearch.settings.values import MAX_N, MAX_QUERY_CHARS, parse_reader
from skillsearch.text.states import BOUNDS, count_shown
from skillsearch.types.answers import FACES, SYSTEMS, Face, Hit, SearchResult, Selection, System
from skillsearch.types.json_values import is_whole

if TYPE_CHECKING:
    from skillsearch.index.search.calibration import Calibration

_CHOICES: Mapping[str, Sequence[object]] = {
    "system": SYSTEMS,
    "face": FACES,
    **dict.fromkeys(("explain", "include_hidden", "vetted_only"), (False, True)),
}
"""What some options may be."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options of a search; a QueryError for one that cannot be used.

    Attributes:
        n: How many skills at most, those that may fit included: the best first, ties by id.
        threshold: Lowest accepted score, below which nothing may fit; by default that of the
            settings, or else that of the calibration for ``hybrid``, whose score is a
            probability, and 0 for the other systems.
        system: How to rank; see `skillsearch.types.answers.SYSTEMS`.
        explain: Add why each hit has its score, and which channels voted in a hybrid one.
        include_hidden: False to leave out skills that ask not to be offered to models.
        exclude: Ids of documents to leave out, such as skills that are in use already.
        reader: ``auto`` to have the best hits read by the packaged cross-encoder where that
            helps, ``always``, ``off``, or the model of another one, ``st:NAME`` or a folder,
            which always reads; None to ask the settings.
        vetted_only: Leave out the skills of roots that are not vetted, and say how many of
            them would have been hits, in `SearchResult.unvetted`.
        selection: Which skills are searched; all others are left out before ranking.
        folder: Where the question comes from: skills of projects that do not hold this folder
            are left out. None for those of all projects, if the selection does not say.
        face: Who is shown the answer; it decides what may fit; see
            `skillsearch.types.answers.FACES`.
    """

    n: int = 5
    threshold: float | None = None
    system: System = "hybrid"
    explain: bool = False
    include_hidden: bool = True
    exclude: Collection[str] = ()
    reader: str | None = None
    vetted_only: bool = False
    selection: Selection = ()
    folder: str | Path | None = None
    face: Face = "list"

    def __post_init__(self) -> None:
        if not is_whole(self.n) or not 1 <= self.n <= MAX_N:
            raise QueryError(f"n is {self.n!r}; ask for 1 to {MAX_N} hits.")
        if not _is_selection(self.selection):
            raise QueryError(f"selection is {self.selection!r:.80}; use a tuple of conditions.")
        for name, values in _CHOICES.items():
            if (value := getattr(self, name)) not in values:
                choices = ", ".join(map(str, values))
                raise QueryError(f"{name} is {value!r:.80}; use one of: {choices}.")
        if self.threshold is not None and not 0.0 <= self.threshold <= 1.0:
            raise QueryError(f"threshold is {self.threshold!r}; use a number from 0 to 1.")
        if self.reader is not None:
            try:
                parse_reader(self.reader, Path())
            except ValueError as exc:
                raise QueryError(f"reader is {self.reader!r}; it {exc}.") from exc

    @classmethod
    def of(cls, settings: Settings) -> SearchOptions:
        """Return the options that settings decide; the others have their defaults."""
        reader, selection = settings.reader, settings.selection
        return cls(settings.n, settings.threshold, reader=reader, selection=selection)

    @property
    def selected(self) -> Selection:
        """The selection, with the folder that the question comes from."""
        return from_folders(self.selection, [self.folder]) if self.folder else self.selection

    def cut(self, calibration: Calibration) -> float:
        """Return the threshold in use: the one of the options, or the default of the system."""
        if self.threshold is not None:
            return float(self.threshold)
        return calibration.threshold if self.system == "hybrid" else 0.0

    @property
    def has_states(self) -> bool:
        """Whether something may fit: only hybrid scores tell, unless a threshold is given."""
        return self.threshold is None and self.system == "hybrid"

    def count_shown(
        self, scores: Sequence[float], calibration: Calibration, bound: float | None = None
    ) -> int:
        """Return how many hits are shown by a bound, given their scores, best first."""
        cut, bound = self.cut(calibration), BOUNDS[self.face] if bound is None else bound
        return min(count_shown(scores, cut, bound if self.has_states else cut)[1], self.n)

    def result(
        self, query: str, calibration: Calibration, hits: Sequence[Hit] = ()
    ) -> SearchResult:
        """Return the result of a query; its seconds are still 0."""
        cut = self.cut(calibration)
        fitting = tuple(hit for hit in hits if hit.score >= cut)
        perhaps = tuple(hits[len(fitting) :])
        return SearchResult(query, cut, fitting, not fitting, seconds=0.0, perhaps=perhaps)


@dataclass(frozen=True, slots=True)
class LibrarySearchOptions(SearchOptions):
    """The same for a library, which serves models: skills that ask not to be offered stay out."""

    include_hidden: bool = False


def _is_selection(selection: object) -> bool:
    return isinstance(selection, list | tuple) and all(
        isinstance(test, list | tuple) and len(test) > 1 for test in selection
    )


def check_query(query: str) -> None:
    """Raise a QueryError for a query that is empty or too long."""
    if not query.strip():
        raise QueryError("The query is empty; say in words what is to be done.")
    if len(query) > MAX_QUERY_CHARS:
        raise QueryError(
            f"The query has {len(query):,} characters, more than the "
            f"{MAX_QUERY_CHARS:,} that can be searched; shorten it to the request itself."
        )
