"""Skills moved out of the folders of hosts into the user's library, and back; nothing is ever lost.

A journal next to the library records each step before it is taken. The next command that opens the
journal finishes or undoes what a killed process has left. At every moment a skill lies in one of
the two places, or whole in both.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from skillsearch.errors import SkillError, StorageError, UnusableError, explained
from skillsearch.files.atomic_files import sync_to_disk
from skillsearch.files.locks import exclusive
from skillsearch.files.private import make_private
from skillsearch.hosts.table import library_folder
from skillsearch.settings import user_folders
from skillsearch.text.safe_text import listed
from skillsearch.types.json_values import Record

MoveState = Literal["moving", "moved", "restoring", "restored"]
STATES: tuple[MoveState, ...] = get_args(MoveState)
_JOURNAL, _INCOMING, _LEAVING = "journal.jsonl", ".incoming-", ".leaving-"
_LOCK_SECONDS = 60.0
_SHOWN = 10
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Move(Record):
    """A skill folder that was moved: where from, where to, and how far that is.

    The `link` is the text of a link that stood there instead of a folder, else empty. With a
    `switch`, nothing was moved: that host was told in the file `source` not to list it, which said
    `before` of it, as JSON, or nothing.
    """

    number: int
    name: str
    source: str
    target: str
    state: MoveState
    link: str = ""
    switch: str = ""
    before: str = ""


class Journal:
    """The moves that were made, by number; use `open_journal`."""

    def __init__(self, path: Path) -> None:
        """Read a journal; a StorageError for a damaged one, though its last line may be torn."""
        self._path = path
        self.moves: dict[int, Move] = {}
        data = path.read_bytes() if path.exists() else b""
        whole, mark, torn = data.rpartition(b"\n")
        if torn:  # it was being written when the process ended
            os.truncate(path, len(whole + mark))
        self._size = len(whole + mark)
        for number, line in enumerate(whole.split(b"\n") if mark else (), start=1):
            try:
                move = Move(**json.loads(line))
                if move.state not in STATES:
                    raise UnusableError(f"its state is {move.state!r}")
            except (ValueError, TypeError, RecursionError) as exc:
                raise StorageError(
                    f"Line {number} of {path} cannot be read: {exc}. The skills lie in "
                    f"{path.parent / 'library'}; correct the line, or move the file away."
                ) from exc
            self.moves[move.number] = move

    def note(self, move: Move) -> None:
        """Write down how far a move is, before anything that relies on it."""
        is_new = not self._path.exists()
        line = json.dumps(asdict(move)).encode() + b"\n"
        try:
            with self._path.open("ab") as file:
                file.truncate(self._size)  # the disk may have had room for a part of the last line
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as exc:
            exc.filename = str(self._path)
            raise
        self._size += len(line)
        if is_new:
            sync_to_disk(self._path.parent)
        self.moves[move.number] = move

    def away(self) -> list[Move]:
        """Return the moves of skills that are in the library now."""
        return [move for move in self.moves.values() if move.state == "moved"]

    def away_named(self, names: Sequence[str]) -> list[Move]:
        """Return the moves of named skills in the library; a SkillError for a name of none.

        Upper and lower case are alike.
        """
        away = self.away()
        keys = {move.name.casefold() for move in away}
        if lost := [name for name in names if name.casefold() not in keys]:
            names_there = listed((move.name for move in away), _SHOWN)
            there = f"In it are: {names_there}." if away else "It is empty."
            raise SkillError(f"{lost[0]!r} is not in the library. {there}")
        wanted = set(map(str.casefold, names))
        return [move for move in away if move.name.casefold() in wanted]


@contextmanager
def open_journal() -> Iterator[Journal]:
    """Open the journal, which no other process can meanwhile, and finish what was left half done.

    A StorageError if it cannot be read or written. What cannot be finished is logged and retried
    the next time.
    """
    base = user_folders.data_dir()
    correct = "%s. Correct that, and try again."
    failed = explained(StorageError, correct, lambda exc: fault(exc, base))
    busy = StorageError(f"Another process uses {base}; wait until it is done.")
    with exclusive(base / ".library.lock", _LOCK_SECONDS, failed, busy):
        make_private(library_folder())
        journal = Journal(base / _JOURNAL)
        for move in list(journal.moves.values()):
            if move.state in ("moving", "restoring"):
                try:
                    _settle(journal, move)
                except OSError as exc:
                    logger.warning("%s is in the middle of a move: %s", move.name, fault(exc))
        yield journal


def move_away(journal: Journal, folder: Path, name: str) -> Move:
    """Move a skill folder, or the link to one, into the library.

    A SkillError if it is gone, a StorageError if it cannot be moved; then it is where it was.
    """
    if not os.path.lexists(folder):
        raise SkillError(f"{folder} is not there any more; see what is: skillsearch list")
    number = max(journal.moves, default=0) + 1
    target = library_folder() / folder.name
    if os.path.lexists(target):
        target = target.with_name(f"{folder.name}-{number}")
    link = str(folder.readlink()) if folder.is_symlink() else ""
    move = Move(number, name, str(folder), str(target), state="moving", link=link)
    return _carry_out(journal, move)


def move_back(journal: Journal, move: Move) -> Move:
    """Move a skill back to where it was.

    A SkillError if it is gone, lay within a skill that is away, or something lies there now; a
    StorageError if it cannot be moved.
    """
    source, target = Path(move.source), Path(move.target)
    for other in journal.away():
        if not other.switch and Path(other.source) in source.parents:
            raise SkillError(
                f"{move.name} lay within {other.name}, which is away; restore {other.name} first."
            )
    if not os.path.lexists(target):
        _noted(journal, move, "restored")
        raise SkillError(
            f"{target} is gone, so {move.name} cannot be restored; `library list` omits it now."
        )
    if os.path.lexists(source):
        raise SkillError(
            f"Something lies at {source} again, so {move.name} stays in {target}; move one of them."
        )
    return _carry_out(journal, replace(move, state="restoring"))


def _carry_out(journal: Journal, move: Move) -> Move:
    journal.note(move)
    begin, end = _ends(move)
    goal: MoveState = "moved" if move.state == "moving" else "restored"
    try:
        end.parent.mkdir(parents=True, exist_ok=True)
        _transfer(move, begin, end)
    except OSError as exc:
        _settle(journal, move)
        if journal.moves[move.number].state != goal:
            raise StorageError(f"{move.name} stays in {begin}: {fault(exc)}.") from exc
    return _noted(journal, move, goal)


def _ends(move: Move) -> tuple[Path, Path]:
    """Return from where to where it goes."""
    paths = (Path(move.source), Path(move.target))
    return paths if move.state == "moving" else paths[::-1]


def fault(exc: OSError, path: Path | str = "") -> str:
    """Return what went wrong with which path: the one of the error, else the given one."""
    if isinstance(exc, shutil.Error):  # of all that could not be copied
        path, _, reason = exc.args[0][0]
        return f"{path}: {reason}"
    path = exc.filename or path
    return f"{path}: {exc.strerror}" if path and exc.strerror else str(exc)


def _noted(journal: Journal, move: Move, state: MoveState) -> Move:
    done = replace(move, state=state)
    journal.note(done)
    return done


def _settle(journal: Journal, move: Move) -> None:
    """Finish or undo a step that a process left half done when it ended."""
    if move.switch:  # Whether it was written does not matter: to take it out again does no harm.
        _noted(journal, move, "moved")
        return
    begin, end = _ends(move)
    for leftover in (_incoming(move, end), _leaving(move, begin)):
        _discard(leftover)
    is_there, has_come = os.path.lexists(begin), os.path.lexists(end)
    if is_there and has_come:
        if begin.is_symlink() or _digest(begin) == _digest(end):
            _remove(move, begin)
        else:  # It was changed since: the copy is not of what is there now, so both stay.
            end.rename(end.with_name(f"{end.name}.copy-{move.number}"))
            has_come = False
    is_away = has_come if move.state == "moving" else not has_come
    _noted(journal, move, "moved" if is_away else "restored")


def _transfer(move: Move, begin: Path, end: Path) -> None:
    """Move a folder or link, so that at each moment it is whole in one of the two places."""
    for parent in (begin.parent, end.parent):
        if not os.access(parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(parent))
    if move.link:
        # Relative to another folder, the text of a link would mean something else.
        text = move.link if move.state == "restoring" else os.path.realpath(begin)
        end.symlink_to(text)
        sync_to_disk(end.parent)
        _remove(move, begin)
        return
    try:
        Path(begin).rename(end)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        _check_copyable(begin)
        incoming = _incoming(move, end)
        shutil.copytree(begin, incoming, symlinks=True)
        for path in (incoming, *incoming.rglob("*")):
            if not path.is_symlink():
                sync_to_disk(path)
        if _digest(incoming) != _digest(begin):
            reason = "it changed while it was copied; try again"
            raise OSError(errno.EBUSY, reason, str(begin)) from exc
        Path(incoming).rename(end)
        sync_to_disk(end.parent)
        _remove(move, begin)
    sync_to_disk(begin.parent)
    sync_to_disk(end.parent)


def _check_copyable(folder: Path) -> None:
    """Raise an OSError for a file that cannot be copied, before any is."""
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            reason = "a pipe, socket or device cannot be copied to another disk; take it out"
            raise OSError(errno.ENOTSUP, reason, str(path))
        if not (stat.S_ISLNK(mode) or os.access(path, os.R_OK)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _remove(move: Move, path: Path) -> None:
    """Remove what lies whole at the other place: its name first, so that no part of it is seen."""
    if path.is_symlink():
        path.unlink()
    else:
        leaving = _leaving(move, path)
        Path(path).rename(leaving)
        sync_to_disk(path.parent)
        _discard(leaving)
    sync_to_disk(path.parent)


def _discard(folder: Path) -> None:
    """Remove a folder that is whole at the other place, even a read-only one; tell what stays."""
    if not folder.is_dir():
        return
    try:
        for path, _, _ in os.walk(folder):
            Path(path).chmod(stat.S_IRWXU)
        shutil.rmtree(folder)
    except OSError as exc:
        logger.warning(
            "%s is what a move has left, and cannot be removed: %s. Delete it.", folder, fault(exc)
        )


def _incoming(move: Move, end: Path) -> Path:
    return end.with_name(f"{_INCOMING}{move.number}")


def _leaving(move: Move, begin: Path) -> Path:
    return begin.with_name(f"{_LEAVING}{move.number}")


def _digest(folder: Path) -> str:
    """Return a digest of all paths, modes, links and bytes below a folder."""
    digest = hashlib.sha256()
    for path in sorted((folder, *folder.rglob("*"))):
        status = path.lstat()
        inner = ""
        if stat.S_ISLNK(status.st_mode):
            inner = str(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            with path.open("rb") as file:
                inner = hashlib.file_digest(file, "sha256").hexdigest()
        line = f"{path.relative_to(folder)}\0{status.st_mode}\0{inner}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
