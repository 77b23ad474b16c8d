"""One writer at a time: Milvus has no locks, so a writer lays a claim and looks for others.

Of two that come together at least one sees the claim of the other, for every read sees all that was
written before; both may give way, never both go on.
"""

from __future__ import annotations

import logging
import time
import uuid

from skillsearch.errors import LockTimeoutError, RemoteError
from skillsearch.remote.client import MilvusServer
from skillsearch.remote.head import note_row
from skillsearch.remote.schema import CLAIM, Generation

logger = logging.getLogger(__name__)

EXPIRES_S = 120
"""Seconds after which a claim that was not renewed is that of a writer that was killed."""
_RENEW_S = 20


class Claim:
    """The claim of this process on a generation; leaving the context gives it up."""

    def __init__(self, server: MilvusServer, generation: Generation) -> None:
        """Name the claim.

        Args:
            server: The server.
            generation: What is to be written.
        """
        self._server = server
        self._terms = generation.terms
        self._id = f"claim-{uuid.uuid4().hex}"
        self._renewed = 0.0

    def __enter__(self) -> Claim:
        """Lay the claim.

        Returns:
            This claim.

        Raises:
            LockTimeoutError: When another process is writing.
            RemoteError: When the server does not answer.
        """
        self._write()
        rows = self._server.query(self._terms, f"kind == {CLAIM}", ["version"], 1_000)
        oldest = time.time() - EXPIRES_S
        others = [row for row in rows if row["id"] != self._id]
        if living := [row["version"] for row in others if row["version"] > oldest]:
            self._release()
            rest = max(living) - oldest
            raise LockTimeoutError(
                f"Another process is writing to {self._terms} at {self._server.shown}; try again "
                f"when it is done. If it was killed, its claim ends in {rest:.0f} s."
            )
        self._server.delete(self._terms, [row["id"] for row in others])
        return self

    def __exit__(self, *_exception: object) -> None:
        self._release()

    def renew(self) -> None:
        """Keep the claim alive; call it between batches.

        Raises:
            LockTimeoutError: When it ran out meanwhile and another process took over.
            RemoteError: When the server does not answer.
        """
        if time.monotonic() - self._renewed > _RENEW_S:
            self.check()
            self._write()

    def check(self) -> None:
        """Make sure that the claim still holds.

        Raises:
            LockTimeoutError: When another process took over.
            RemoteError: When the server does not answer.
        """
        if not self._server.get(self._terms, [self._id], ["version"]):
            raise LockTimeoutError(
                f"This process was silent for too long, and another one writes to {self._terms} "
                "now; run the command again when that is done."
            )

    def _write(self) -> None:
        """Write the claim with the time of now."""
        row = note_row(self._id, CLAIM, int(time.time()), b"")
        self._server.upsert(self._terms, [row])
        self._renewed = time.monotonic()

    def _release(self) -> None:
        """Give the claim up; where that fails it runs out by itself."""
        try:
            self._server.delete(self._terms, [self._id])
        except RemoteError as exc:
            logger.info("the claim on %s was left to run out: %s", self._terms, exc)
