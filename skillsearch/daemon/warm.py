"""The indexes that the daemon keeps open, and the embedders that they share."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from skillsearch.errors import DaemonError
from skillsearch.index.cache import IndexFolder
from skillsearch.index.corpus import OpenedIndex, open_current
from skillsearch.index.embedder import load_embedder, model_identity
from skillsearch.index.embedding import Embedder
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.types import JsonValue

MAX_INDEXES = 4


@dataclass(frozen=True, slots=True)
class WarmIndex:
    """An index that is open.

    Attributes:
        index: The index.
        library: The same skills by name, for what is offered to an agent.
        embedder: The embedder, loaded.
        model: Names the files that it was loaded from.
    """

    index: SkillIndex
    library: SkillLibrary
    embedder: Embedder
    model: str


class WarmIndexes:
    """The indexes used last; to be used by one thread at a time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Path, WarmIndex] = OrderedDict()

    def get(self, folder: Path) -> WarmIndex:
        """Return an index at its current generation, opened now unless it is open.

        Nothing is built here: what takes long, the client does by itself, and tells its user.

        Args:
            folder: Folder of the index.

        Returns:
            The index.

        Raises:
            IndexNotFoundError: When there is none.
            DaemonError: When it would have to be built anew.
            EmbedderError: When its embedder cannot be loaded.
        """
        place = IndexFolder(folder)
        kept = self._kept.get(folder)
        if kept is None or kept.index.generation != place.current():
            kept = self._open(place)
            self._kept[folder] = kept
        self._kept.move_to_end(folder)
        while len(self._kept) > MAX_INDEXES:
            self._kept.popitem(last=False)
        return kept

    def describe(self) -> list[JsonValue]:
        """Return folder, generation and size of each index, the one used last at the end."""
        return [
            {
                "index_dir": str(folder),
                "generation": kept.index.generation,
                "skills": len(kept.index),
            }
            for folder, kept in self._kept.items()
        ]

    def _open(self, place: IndexFolder) -> WarmIndex:
        """Open an index that is there and whole."""
        opened = open_current(place)
        if opened is None and not place.exists():
            raise place.not_found()
        if opened is None:
            raise DaemonError(f"The index in {place.path} has to be built anew.")
        embedder, model = self._embedder(opened)
        if embedder.fingerprint != opened.settings.fingerprint:
            raise DaemonError(f"The index in {place.path} was made by another embedder.")
        index = SkillIndex(place, opened, embedder)
        return WarmIndex(index, SkillLibrary.of_index(index), embedder, model)

    def _embedder(self, opened: OpenedIndex) -> tuple[Embedder, str]:
        """Return the embedder of an index, with what names its files; one that is loaded if any."""
        model = model_identity(opened.settings.model)
        for kept in self._kept.values():
            if kept.model == model:
                return kept.embedder, model
        return load_embedder(opened.settings.model), model
