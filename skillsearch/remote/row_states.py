"""The rows of a generation as a writer finds them, and what becomes of each."""

from __future__ import annotations

from typing import NamedTuple

from skillsearch.remote.client import MilvusServer
from skillsearch.remote.schema import FOREVER, Generation
from skillsearch.remote.vocabulary import batches

_BATCH = 5_000


class _Live(NamedTuple):
    """A row that readers see."""

    row: str
    state: bytes
    ends: bool


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
        self._live: dict[bytes, _Live] = {}
        self._unseen: dict[bytes, tuple[str, bytes]] = {}
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
        fields = ("id", "key", "state", "since", "until")
        for page in server.iterate(generation.documents, "", fields, _BATCH):
            for row in page:
                states._sort_in(row["id"], row["key"], row["state"], row["since"], row["until"])
        return states

    def purge(self, server: MilvusServer, generation: Generation) -> None:
        """Remove the dead rows that not even a reader of the version before can see."""
        for ids in batches(self._dead, _BATCH):
            server.delete(generation.documents, ids)

    def keeps(self, key: str, state: str) -> bool:
        """Tell whether a document's live row can stay; it is taken care of then."""
        live = self._live.get(bytes.fromhex(key))
        if live is None or live.state != bytes.fromhex(state):
            return False
        del self._live[bytes.fromhex(key)]
        if live.ends:
            self.restored.append(live.row)
        return True

    def resumes(self, key: str, state: str) -> str | None:
        """Return the unseen row of a document that can stay, taken care of; None for none."""
        unseen = self._unseen.get(bytes.fromhex(key))
        if unseen is None or unseen[1] != bytes.fromhex(state):
            return None
        del self._unseen[bytes.fromhex(key)]
        self.replace(key)
        return unseen[0]

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
        return [unseen[0]] if unseen else [], live.row if live else ""

    def left(self) -> tuple[list[str], list[str]]:
        """Return the ids of the rows that nobody asked for, unseen ones and live ones."""
        return [row for row, _ in self._unseen.values()], [one.row for one in self._live.values()]

    def _sort_in(self, row: str, key: str, state: str, since: int, until: int) -> None:
        """Take a row."""
        document, version = bytes.fromhex(key), self._version
        if since > version:
            self._unseen[document] = (row, bytes.fromhex(state))
        elif until > version:
            self._live[document] = _Live(row, bytes.fromhex(state), until != FOREVER)
        elif until < version:
            self._dead.append(row)
