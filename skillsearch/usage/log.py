"""The log of usage: a file of the user alone, written only if the setting `usage` asks for it.

No failure here may fail an answer: what cannot be written is not kept, and what cannot be read says
nothing.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from skillsearch.errors import StorageError, explained
from skillsearch.files.atomic_files import write_atomically
from skillsearch.files.locks import briefly_locked
from skillsearch.files.openat import READ_FLAGS
from skillsearch.files.own_folder import user_key
from skillsearch.files.private import make_private
from skillsearch.hosts.folders import project_of
from skillsearch.settings.user_folders import data_dir
from skillsearch.types.answers import SearchResult
from skillsearch.usage.events import (
    MAX_TEXT_CHARS,
    Event,
    EventKind,
    OfferedSkill,
    Vector,
    is_request,
    packed,
    read_line,
)
from skillsearch.usage.support import ALIKE, DAY, NO_USAGE, LogRead, Usage

FOLDER, FILE, KEY, LOCK = "usage", "events.jsonl", "key", "lock"
MAX_BYTES = 4 << 20
"""Room for some 5,000 requests; a larger file loses its older half, except pins."""
WINDOW_SECONDS = 1800
"""How long after a request a load still counts as its result."""
MOST_BACK = 5
"""How many requests back we look for the one that offered the loaded skill."""
_TAIL_BYTES, _END_BYTES = 1 << 16, 256
_LOCK_SECONDS = 0.5
_HASH_BYTES = 12

logger = logging.getLogger(__name__)


@contextmanager
def _never_failing() -> Iterator[None]:
    """Log errors of the disk, and go on without the log."""
    try:
        yield
    except OSError as exc:
        logger.info("no usage is kept or read: %s", exc)


class Origin(NamedTuple):
    """Where a request comes from, which index answers it, and the fingerprint of its embedder.

    Two requests are alike if their vectors have a cosine of at least `alike`.
    """

    folder: str
    index_dir: str
    model: str = ""
    alike: float = ALIKE


class UsageLog:
    """The log of usage of a folder."""

    def __init__(self, folder: Path, interface: str = "", *, has_text: bool = False) -> None:
        """Name the folder and the interface that records, and whether words are kept too."""
        self.folder, self.file, self._interface = folder, folder / FILE, interface
        self._has_text = has_text

    @classmethod
    def own(cls, interface: str = "", *, has_text: bool = False) -> UsageLog:
        """Return the user's own log, whether it is written or not."""
        return cls(data_dir() / FOLDER, interface, has_text=has_text)

    @classmethod
    def read(cls, described: str, interface: str = "") -> UsageLog | None:
        """Return the log that `str` turned into a text; None for an empty text."""
        keeps, _, folder = described.partition(":")
        return cls(Path(folder), interface, has_text=keeps == "text") if folder else None

    def __str__(self) -> str:
        return f"{'text' if self._has_text else 'hashes'}:{self.folder}"

    def note_request(
        self, origin: Origin, answer: SearchResult, vector: Vector, *, is_shadow: bool = False
    ) -> None:
        """Record a request and the skills that it was offered."""
        with _never_failing():
            event = self._request("asked", origin, answer.query, vector)
            offered = tuple(OfferedSkill(hit.doc_id, round(hit.score, 3)) for hit in answer.shown)
            shown = event._replace(interface=self._interface, state=answer.state, offered=offered)
            self._append([shown._replace(is_shadow=is_shadow)])

    def note_load(self, origin: Origin, skill: str) -> None:
        """Record that a skill was loaded, and which request of its project led to it.

        That is the last of `MOST_BACK` requests within `WINDOW_SECONDS` that offered the skill, or
        else the last request. Loading a skill again after the same request is not recorded.
        """
        with _never_failing():
            now = int(time.time())
            index, project = self._hashed(origin.index_dir, _project(origin))
            load = Event("loaded", now, index, project, self._interface, skill=skill)
            if (led := self._led_to(load)) is not None:
                self._append([led])

    def _led_to(self, load: Event) -> Event | None:
        """Return a load with the request that led to it; None if it was recorded before."""
        tail, ours = self._events(_TAIL_BYTES), (load.index_id, load.project_id)
        recent = (event for event in tail if 0 <= load.at - event.at <= WINDOW_SECONDS)
        events = [event for event in recent if (event.index_id, event.project_id) == ours]
        if not (requests := [event for event in reversed(events) if event.kind == "asked"]):
            return load
        offered = [{offer.skill for offer in event.offered} for event in requests[:MOST_BACK]]
        back = next((number for number, skills in enumerate(offered) if load.skill in skills), 0)
        request = requests[back]
        again = ("loaded", load.skill, request.request_id)
        if any((event.kind, event.skill, event.request_id) == again for event in events):
            return None
        return load._replace(
            after=back + 1,
            request_id=request.request_id,
            model=request.model,
            vector=request.vector,
            is_shadow=request.is_shadow,
            text=request.text if self._has_text else "",
        )

    def pin(self, origin: Origin, request: str, vector: Vector, skill: str) -> None:
        """Have a request always count as one that led to a skill.

        A StorageError if that fails, or if pins would leave no room for other events.
        """
        with self._explained:
            event = self._request("pin", origin, request, vector)._replace(skill=skill)
            events = self._events()
            pins = [each for each in events if each.kind == "pin" and not _is_pin(each, event)]
            if sum(len(each.line()) for each in (*pins, event)) > MAX_BYTES // 2:
                raise StorageError(
                    f"{self.file} has {len(pins):,} pins, and room for no more. Take back some "
                    "that you no longer need: skillsearch usage --unpin REQUEST NAME"
                )
            self._rewrite(lambda old: old if not _is_pin(old, event) else None, [event])

    def unpin(self, origin: Origin, request: str, skill: str) -> int:
        """Remove a pin, and return how many were removed; a StorageError if that fails."""
        with self._explained:
            if not self.file.exists():
                return 0
            index, hashed = self._hashed(origin.index_dir, _plain(request))
            pinned = Event("pin", 0, index, request_id=hashed, skill=skill)
            return self._rewrite(lambda old: old if not _is_pin(old, pinned) else None)

    def forget(self, skills: Iterable[str] | None) -> int:
        """Remove all, or the loads, pins and offers of some skills; return how many events.

        A StorageError if that fails.
        """
        gone = None if skills is None else frozenset(skills)
        with self._explained:
            if not self.file.exists():
                return 0
            if gone is not None:
                return self._rewrite(lambda old: _without(old, gone))
            count = self._rewrite(lambda _old: None)
            for name in (FILE, KEY):
                (self.folder / name).unlink(missing_ok=True)
            return count

    def events(self) -> list[Event]:
        """Return all events, the oldest first; none if the file cannot be read."""
        with _never_failing():
            return self._events()
        return []

    def skills(self) -> frozenset[str]:
        """Return the ids of all skills of which something is kept."""
        events = self.events()
        ids = {event.skill for event in events}
        ids |= {offer.skill for event in events for offer in event.offered}
        return frozenset(ids - {""})

    def of_index(self, origin: Origin) -> list[Event]:
        """Return the events of one index, the oldest first."""
        events = self.events()  # before the key, which is made if it is missing
        with _never_failing():
            (index_id,) = self._hashed(origin.index_dir) if events else ("",)
            return [event for event in events if event.index_id == index_id]
        return []

    def usage(self, origin: Origin, dimensions: int, before: Usage | None = None) -> Usage:
        """Return what requests led to in an index, by vectors of its embedder.

        With the usage that was returned `before`, only what is new of the file is read.
        """
        with _never_failing():
            if self.file.exists():
                (index_id,) = self._hashed(origin.index_dir)
                of = (str(self.file), index_id, origin.model)
                known = before if before and before.read.of == of else Usage(read=LogRead(of))
                read = self._read(known.read)
                today = int(time.time()) // DAY
                if read.events is known.read.events and today == known.today:
                    return known if read is known.read else replace(known, read=read)
                return Usage.of(read.events, dimensions, today, origin.alike, read)
        return NO_USAGE

    def _read(self, last: LogRead) -> LogRead:
        """Return the loads and pins of an index, if possible reading only lines that were added."""
        status = self.file.stat()
        stat = (status.st_ino, status.st_mtime_ns, status.st_size)
        if last.stat == stat:
            return last
        is_longer = last.stat[0] == stat[0] and last.stat[2] < stat[2]
        before = last if is_longer else LogRead(last.of)
        begin = before.stat[2] - len(before.end)
        data = self._bytes(begin, stat[2] - begin)
        if not data.startswith(before.end):  # another file with the number of the old one
            before = LogRead(last.of)
            data = self._bytes(0, stat[2])
        data = data[: data.rfind(b"\n") + 1]
        lines = [line for line in data[len(before.end) :].splitlines() if not is_request(line)]
        loads = (event for event in map(read_line, lines) if event and event.kind != "asked")
        new = tuple(event for event in loads if (event.index_id, event.model) == last.of[1:])
        size = before.stat[2] - len(before.end) + len(data)
        events = before.events + new if new else before.events
        return LogRead(last.of, (*stat[:2], size), data[-_END_BYTES:], events)

    def _events(self, last_bytes: int = 0) -> list[Event]:
        size = self.file.stat().st_size if self.file.exists() else 0
        begin = max(size - last_bytes, 0) if last_bytes else 0
        lines = self._bytes(begin, size - begin).splitlines() if size else []
        return [event for event in map(read_line, lines) if event]

    def _bytes(self, begin: int, count: int) -> bytes:
        with os.fdopen(os.open(self.file, READ_FLAGS), "rb") as file:
            file.seek(begin)
            return file.read(min(count, 2 * MAX_BYTES))

    def _request(self, kind: EventKind, origin: Origin, text: str, vector: Vector) -> Event:
        index, project, hashed = self._hashed(origin.index_dir, _project(origin), _plain(text))
        kept = text[:MAX_TEXT_CHARS] if self._has_text else ""
        event = Event(kind, int(time.time()), index, project, request_id=hashed, text=kept)
        return event._replace(model=origin.model, vector=packed(vector))

    @property
    def _explained(self) -> AbstractContextManager[None]:
        next_step = "Check who may write there, and the space on its disk"
        return explained(StorageError, f"{self.file} cannot be changed: %s. {next_step}")

    def _hashed(self, *texts: str) -> list[str]:
        """Return hashes that nobody can make without the key, so that no text can be guessed.

        An empty text stays empty. The key is read anew: another process may have removed it with
        all the rest, and made a new one.
        """
        hashing = partial(hashlib.blake2b, key=self._key(), digest_size=_HASH_BYTES)
        encoded = (text.encode("utf-8", "surrogatepass") for text in texts)
        return [hashing(data).hexdigest() if data else "" for data in encoded]

    def _key(self) -> bytes:
        if (key := user_key(self.folder / KEY)) is None:
            raise OSError(f"{self.folder / KEY} is damaged or not for you alone; remove it")
        return key

    def _append(self, events: Sequence[Event]) -> None:
        """Append events to the file; if it gets too large, drop its older half."""
        make_private(self.folder)
        with briefly_locked(self.folder / LOCK, _LOCK_SECONDS):
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(self.file, flags, 0o600), "r+b", buffering=0) as file:
                os.fchmod(file.fileno(), 0o600)
                size = file.seek(0, os.SEEK_END)
                is_torn = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
                start = b"\n" if is_torn else b""
                data = start + b"".join(event.line() for event in events)
                file.write(data)
            if size + len(data) > MAX_BYTES:
                self._halve()

    def _halve(self) -> None:
        """Drop the older half of the events, except pins, and all lines that are not events."""
        events = self._events()
        pins = [event for event in events if event.kind == "pin"]
        others = [event for event in events if event.kind != "pin"]
        self._replace([*pins, *others[len(others) // 2 :]])

    def _rewrite(self, change: Callable[[Event], Event | None], more: Sequence[Event] = ()) -> int:
        """Change or remove (None) each event, and add more; return how many were changed."""
        make_private(self.folder)
        with briefly_locked(self.folder / LOCK, 10 * _LOCK_SECONDS):
            before = self._events()
            changed = [change(event) for event in before]
            self._replace([*filter(None, changed), *more])
        return sum(old != new for old, new in zip(before, changed, strict=True))

    def _replace(self, events: Iterable[Event]) -> None:
        write_atomically(self.file, b"".join(event.line() for event in events))


def _project(origin: Origin) -> str:
    """Return the project or folder that a request comes from; empty if that is not known."""
    if not origin.folder:
        return ""
    folder = Path(os.path.realpath(origin.folder))
    return str(project_of(folder) or folder)


def _plain(text: str) -> str:
    """Return a request in lower case with single blanks, so that it is recognised again."""
    return " ".join(text.casefold().split())


def _is_pin(event: Event, pinned: Event) -> bool:
    """Return whether an event pins the same request to the same skill."""
    fields = ("kind", "index_id", "request_id", "skill")
    return all(getattr(event, name) == getattr(pinned, name) for name in fields)


def _without(event: Event, skills: frozenset[str]) -> Event | None:
    """Return an event without some skills; None if it was about one of them alone."""
    if event.skill and event.skill in skills:
        return None
    offered = tuple(offer for offer in event.offered if offer.skill not in skills)
    return event._replace(offered=offered)
