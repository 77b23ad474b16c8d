"""The library that a server offers: opened at its first use, and always that of now."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from skillsearch.config import Settings, index_dir_for
from skillsearch.errors import IndexingError, RootError
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.library.indexing import ANY_QUERY
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.library.source import Changes
from skillsearch.roots.sources import place_of
from skillsearch.types import IndexProgress


class ServedLibrary:
    """The skills of some folders, or those of an index that was built before.

    Nothing is opened before it is asked for, and what could not be opened is tried again each
    time, so that a server can start before there are skills. It belongs to one thread; indexes
    are made in another, so that no call waits for them.

    Attributes:
        roots: The folders; empty for an index that knows its own.
        settings: What the user configured.
        index_dir: Folder of the index.
    """

    def __init__(
        self, roots: Sequence[Path | str], settings: Settings, index_dir: Path | None = None
    ) -> None:
        """Say where the skills are.

        Args:
            roots: Folders of skills, archives or URLs, in order of precedence; none for the index
                of the settings.
            settings: What the user configured.
            index_dir: Folder of the index of these roots; None for one in the user's cache.
        """
        self._named = tuple(roots)
        self.roots = tuple(place_of(root) for root in roots)
        self.settings = settings
        if self.roots and index_dir is None:
            self.index_dir = index_dir_for(self.roots, settings.model)
        else:
            self.index_dir = (index_dir or settings.index_dir).absolute()
        self._indexing = ThreadPoolExecutor(1, thread_name_prefix="indexing")
        self._library: SkillLibrary | None = None
        self._stamp: tuple[int, ...] = ()

    @property
    def progress(self) -> IndexProgress | None:
        """How far the first index is, while words alone are searched; None once it is there."""
        return self._library.progress if self._library else None

    def get(self) -> SkillLibrary:
        """Return the library: that of the newest generation where an index was built before.

        Returns:
            The library; the same one as before where nothing says otherwise.

        Raises:
            IndexNotFoundError: When there is no index, and no roots to make one of.
            RootError: When none of the roots can be read.
        """
        return self._of_roots() if self.roots else self._of_index()

    def refresh(self) -> Changes:
        """Look at the disk, and begin to make ready to search what is there.

        Returns:
            What came, changed and went, as far as that is known; there may be more to tell
            while the library is indexing.

        Raises:
            SkillSearchError: When the index cannot be made or brought up to date.
        """
        library = self.get()
        changes = library.refresh()
        if not self.roots:
            self._stamp = IndexFolder(self.index_dir).stamp()
        self.warm()
        return changes

    def warm(self) -> None:
        """Do all that makes the first search slow, or begin to.

        Raises:
            SkillSearchError: When there is nothing to search.
        """
        with suppress(IndexingError):
            self.get().search(ANY_QUERY, 1)

    def _of_roots(self) -> SkillLibrary:
        """Return the library of the roots, once at least one of them is there."""
        if self._library is None:
            self._library = SkillLibrary.from_roots(
                self._named,
                index_dir=self.index_dir,
                model=self.settings.model,
                languages=self.settings.languages,
                executor=self._indexing,
            )
        elif not self._library.roots:
            self._library.refresh()
        if not self._library.roots:
            raise RootError(f"None of the folders can be read: {', '.join(map(str, self.roots))}")
        return self._library

    def _of_index(self) -> SkillLibrary:
        """Return the library of the index, opened once each time that it was written."""
        if self._library is not None and self._library.is_indexing:
            return self._library  # which takes the generation that it makes by itself
        stamp = IndexFolder(self.index_dir).stamp()
        if self._library is None or stamp != self._stamp:
            self._library = SkillLibrary.open(self.index_dir, executor=self._indexing)
            self._stamp = stamp
        return self._library
