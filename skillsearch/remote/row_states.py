"""The rows of a generation as a writer finds them, and what becomes of each."""

from __future__ import annotations

from typing import NamedTuple

from skillsearch.remote.client import MilvusServer, Row
from skillsearch.remote.schema import FOREVER, Generation
from skillsearch.remote.vocabulary import batches

_BATCH = 5_000


class _Known(NamedTuple):
    """A row of a document; one that readers see may be about to end."""

    row: str
    state: bytes
    ends: bool
    name_key: int
    shadowed: bool


class RowStates:
    """The rows of all documents, some 300 bytes of memory each.

    A row is live where readers see it, unseen where a run that was cut off had sent it for the next
    version, and dead where it ended with a version before.

    Attributes:
        replaced: Ids of live rows whose document has another row in the next version.
        restored: Ids of live rows that were to end, and now go on.
    """

    def __init__(self, version: int) -> None:
        """Start without rows, at the version that readers see."""
        self._version = version
        self._live: dict[bytes, _Known] = {}
        self._unseen: dict[bytes, _Known] = {}
        self._dead: list[str] = []
        self.replaced: list[str] = []
        self.restored: list[str] = []

    @classmethod
    def read(cls, server: MilvusServer, generation: Generation, version: int) -> RowStates:
        """Read all rows.

        Args:
            server: The server.
            generation: The generation.
            version: The version that readers see.

        Returns:
            The rows.

        Raises:
            RemoteError: When the server does not answer.
        """
        states = cls(version)
        fields = ("id", "key", "state", "since", "until", "name_key", "shadowed")
        for page in server.iterate(generation.documents, "", fields, _BATCH):
            for row in page:
                states._sort_in(row)
        return states

    def purge(self, server: MilvusServer, generation: Generation) -> None:
        """Remove the dead rows that not even a reader of the version before can see."""
        for ids in batches(self._dead, _BATCH):
            server.delete(generation.documents, ids)

    def name_key(self, key: str, state: str) -> int | None:
        """Return the `rows.name_key` of a document of this state, None if no row tells it."""
        for rows in (self._live, self._unseen):
            found = rows.get(bytes.fromhex(key))
            if found is not None and found.state == bytes.fromhex(state):
                return found.name_key
        return None

    def keeps(self, key: str, state: str, *, shadowed: bool) -> bool:
        """Return whether a document's live row can stay; it is taken care of then."""
        live = self._live.get(bytes.fromhex(key))
        if live is None or (live.state, live.shadowed) != (bytes.fromhex(state), shadowed):
            return False
        del self._live[bytes.fromhex(key)]
        if live.ends:
            self.restored.append(live.row)
        return True

    def resumes(self, key: str, state: str, *, shadowed: bool) -> str | None:
        """Return the unseen row of a document that can stay, taken care of; None for none."""
        unseen = self._unseen.get(bytes.fromhex(key))
        if unseen is None or (unseen.state, unseen.shadowed) != (bytes.fromhex(state), shadowed):
            return None
        del self._unseen[bytes.fromhex(key)]
        self.replace(key)
        return unseen.row

    def replace(self, key: str) -> tuple[list[str], str]:
        """Take care of the rows of a document that gets a new one.

        Args:
            key: Its key.

        Returns:
            Ids of unseen rows that must be removed first, and the id of the live row, or empty.
        """
        unseen = self._unseen.pop(bytes.fromhex(key), None)
        live = self._live.pop(bytes.fromhex(key), None)
        if live is not None:
            self.replaced.append(live.row)
        return [unseen.row] if unseen else [], live.row if live else ""

    def left(self) -> tuple[list[str], list[str]]:
        """Return the ids of the rows that nobody asked for, unseen ones and live ones."""
        return [one.row for one in self._unseen.values()], [one.row for one in self._live.values()]

    def _sort_in(self, row: Row) -> None:
        """Take a row."""
        document, until, version = bytes.fromhex(row["key"]), row["until"], self._version
        state = bytes.fromhex(row["state"])
        known = _Known(row["id"], state, until != FOREVER, row["name_key"], row["shadowed"])
        if row["since"] > version:
            self._unseen[document] = known
        elif until > version:
            self._live[document] = known
        elif until < version:
            self._dead.append(known.row)
