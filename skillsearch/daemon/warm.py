"""The indexes that the daemon keeps open, and the embedders that they share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skillsearch.embedders.embedder import load_embedder, model_identity, multilingual_is_installed
from skillsearch.embedders.embedding import Embedder
from skillsearch.errors import DaemonError, EmbedderError
from skillsearch.index.corpus import open_current
from skillsearch.index.dense.channels import MULTILINGUAL, ChannelSettings
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.types import JsonValue

MAX_INDEXES = 4


@dataclass(frozen=True, slots=True)
class WarmIndex:
    """An index that is open.

    Attributes:
        index: The index.
        library: The same skills by name, for what is offered to an agent.
        embedders: The embedders of its dense channels, by what names the files that each was
            loaded from; that of the multilingual one only where it can be used.
        lacks_library: Whether the library of a channel was not installed.
        stamp: What tells whether the index was written since, be it the same again, healed.
    """

    index: SkillIndex
    library: SkillLibrary
    embedders: Mapping[str, Embedder]
    lacks_library: bool
    stamp: tuple[int, ...]


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
        came = kept is not None and kept.lacks_library and multilingual_is_installed()
        if kept is None or came or kept.stamp != place.stamp():
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
        stamp = place.stamp()
        opened = open_current(place)
        if opened is None and not place.exists():
            raise place.not_found()
        if opened is None:
            raise DaemonError(f"The index in {place.path} has to be built anew.")
        embedders, named, lacks_library = {}, {}, False
        for channel in opened.settings.channels:
            if channel.model == MULTILINGUAL and not multilingual_is_installed():
                lacks_library = True
                continue
            identity = model_identity(channel.model)
            try:
                embedder = self._embedder(channel, identity)
            except EmbedderError:
                if channel.model != MULTILINGUAL:
                    raise
                continue
            if embedder.fingerprint != channel.fingerprint:
                raise DaemonError(f"The index in {place.path} was made by another embedder.")
            embedders[identity] = named[channel.model] = embedder
        index = SkillIndex(place, opened, named)
        return WarmIndex(index, SkillLibrary.of_index(index), embedders, lacks_library, stamp)

    def _embedder(self, channel: ChannelSettings, identity: str) -> Embedder:
        """Return the embedder of a channel; one that is loaded from the same files if any."""
        for kept in self._kept.values():
            if identity in kept.embedders:
                return kept.embedders[identity]
        return load_embedder(channel.model)
