"""The workspaces of a process: one for each session, made when first asked for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from skillsearch.config import cache_dir
from skillsearch.execution.ownership import prepare, sweep
from skillsearch.execution.workspace import Workspace

MAX_WORKSPACES = 64


class Workspaces:
    """Makes workspaces, and removes them in the end. Calls may come from several threads."""

    def __init__(self, base: Path | None = None, *, limit: int = MAX_WORKSPACES) -> None:
        """Choose the folder; nothing is made before the first workspace.

        Args:
            base: Where workspaces are made; by default in the user's cache folder.
            limit: How many to keep. Of more, the one is closed that was not used for longest, but
                for those that `using` holds.
        """
        self._base = base
        self._limit = limit
        self._guard = threading.Lock()
        self._is_swept = False
        self._of: OrderedDict[str, Workspace] = OrderedDict()
        self._users: dict[str, int] = {}

    def of(self, session: str) -> Workspace:
        """Return the workspace of a session.

        It is made at the first call, and anew where its folder has vanished. The first call of all
        also removes what processes left in ``base`` that have ended.

        Args:
            session: Id of the session, any text.

        Returns:
            The workspace; whatever commands did to its folders is undone by `new_run_dir`.

        Raises:
            WorkspaceError: When it cannot be made or used.
        """
        with self._guard:
            workspace = self._of.get(session)
            if workspace is None or not workspace.exists():
                workspace = self._renew(session)
            self._of.move_to_end(session)
            surplus = self._surplus()
        for old in surplus:
            old.close()
        return workspace

    @contextmanager
    def using(self, session: str) -> Iterator[Workspace]:
        """Hold the workspace of a session, so that others cannot push it out meanwhile.

        Args:
            session: Id of the session, any text.

        Yields:
            The workspace, as `of` returns it.

        Raises:
            WorkspaceError: When it cannot be made or used.
        """
        with self._guard:
            self._users[session] = self._users.get(session, 0) + 1
        try:
            yield self.of(session)
        finally:
            with self._guard:
                self._users[session] -= 1
                if not self._users[session]:
                    del self._users[session]

    def close(self, session: str) -> None:
        """Remove the workspace of a session, if it has one."""
        with self._guard:
            workspace = self._of.pop(session, None)
        if workspace is not None:
            workspace.close()

    def close_all(self) -> None:
        """Remove all workspaces; the next call of `of` makes new ones."""
        with self._guard:
            workspaces = list(self._of.values())
            self._of.clear()
        for workspace in workspaces:
            workspace.close()

    def __enter__(self) -> Workspaces:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove all workspaces."""
        self.close_all()

    def _renew(self, session: str) -> Workspace:
        """Make the workspace of a session, in the place of one that has vanished."""
        base = self._base or cache_dir() / "workspaces"
        if not self._is_swept:
            sweep(prepare(base))
            self._is_swept = True
        if session in self._of:
            self._of.pop(session).close()
        self._of[session] = Workspace.create(base, session)
        return self._of[session]

    def _surplus(self) -> list[Workspace]:
        """Take out the workspaces that are too many, those first that were not used for longest."""
        idle = [session for session in list(self._of)[:-1] if session not in self._users]
        return [self._of.pop(session) for session in idle[: max(0, len(self._of) - self._limit)]]
