"""What the hook knows of a conversation: skills it has offered, and what the user said before.

A host that compacts a conversation, or goes back in it, drops our text and appends a mark of that
to its transcript: then skills are offered again. A cleared conversation is another session.

Transcripts, read in November 2026, have a JSON object on each line. Claude Code 2.1.197 (as its
code writes it): ``user``, ``compact_boundary``. Codex 0.171 (openai/codex, codex-rs/protocol/src/
protocol.rs, codex-rs/rollout/src/policy.rs): ``user_message``, ``compacted``,
``thread_rolled_back``. Gemini CLI 0.61 (google-gemini/gemini-cli, packages/core/src/services/
chatRecordingService.ts): ``user``, ``$set`` of all messages, ``$rewindTo``.
"""

from __future__ import annotations

import json
import os
import stat
import time
from contextlib import suppress
from itertools import islice

from skillsearch.environ import runtime_dir
from skillsearch.text.followups import leans, needs_nothing

TYPE_CHECKING = False  # importing `typing` would slow down every prompt
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skillsearch.types import JsonValue

MAX_SESSIONS, MAX_OFFERED, MAX_STATE_BYTES = 256, 512, 1 << 18
UNSEEN_SECONDS = 3600
"""How long skills count as offered if no transcript tells whether the host dropped our text."""
MAX_GROWTH = 4 << 20
"""More bytes of transcript since the last prompt are taken for a new context."""
TAIL_BYTES, MAX_TURNS, MAX_TURN_CHARS = 1 << 18, 6, 1000
_MARKS = (
    *(b'"subtype":"compact_boundary"', b'"type":"compacted"', b'"type":"thread_rolled_back"'),
    *(b'{"$set":{"messages":', b'{"$rewindTo":'),
)
"""As hosts write them; inside of a text, the quotation marks would be escaped."""
_DAMAGE = (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError)


class Session:
    """One conversation, as an event of its host describes it; never a reason to fail."""

    def __init__(self, event: dict[str, JsonValue]) -> None:
        """Find out what was offered in the session of an event, if it names one."""
        self._prompt, self._transcript = event["prompt"], event.get("transcript_path")
        named = str(event.get("session_id") or "").encode("utf-8", "surrogatepass").hex()
        self._file = f"{runtime_dir()}/sessions/{named}" if 0 < len(named) <= 200 else ""
        self.offered: list[str] = []
        with suppress(*_DAMAGE):
            data, _, age = _read(self._file, 0, MAX_STATE_BYTES)
            state = json.loads(data)
            if self._is_in_context(state["size"], age):
                self.offered = list(map(str, state["offered"]))

    def _is_in_context(self, size: int, age: float) -> bool:
        """Return whether the host kept what we said when its transcript had this size."""
        try:
            since, now, _ = _read(self._transcript, size, MAX_GROWTH)
        except _DAMAGE:
            return age <= UNSEEN_SECONDS
        return size + len(since) == now and not any(mark in since for mark in _MARKS)

    def remember(self, keys: Iterable[str]) -> None:
        """Keep what is offered now, too, and how far the transcript was looked at."""
        state = {"size": 0, "offered": [*self.offered, *keys][-MAX_OFFERED:]}
        with suppress(*_DAMAGE):
            state["size"] = _read(self._transcript, 0, 0)[1]
        with suppress(*_DAMAGE):
            if self._file and state["offered"]:
                _write(self._file, json.dumps(state))

    def last_turns(self) -> str:
        """Return what a prompt that leans on it was preceded by, back to what stands alone."""
        turns: list[str] = []
        for turn in islice(self._turns(), MAX_TURNS) if leans(self._prompt) else ():
            if turn != self._prompt and not needs_nothing(turn):
                turns.append(turn[:MAX_TURN_CHARS])
                if not leans(turn):
                    break
        return "\n".join(turns)

    def _turns(self) -> Iterator[str]:
        with suppress(*_DAMAGE):
            start = max(0, _read(self._transcript, 0, 0)[1] - TAIL_BYTES)
            lines = _read(self._transcript, start, TAIL_BYTES)[0].split(b"\n")
            yield from filter(None, (_said(line) for line in reversed(lines) if b'"user' in line))


def _said(line: bytes) -> str:
    """Return what the user said in a line of a transcript; empty if the host wrote it."""
    with suppress(*_DAMAGE):
        record = json.loads(line)
        if any(map(record.get, ("isMeta", "isCompactSummary", "isSidechain"))):
            return ""
        record = record.get("payload") or record
        if record["type"] in ("user", "user_message"):
            said = record.get("message") or record
            said = said if isinstance(said, str) else said["content"]
            texts = [said] if isinstance(said, str) else [one.get("text", "") for one in said]
            return "\n".join(text for text in texts if not text.startswith("<")).strip()
    return ""


def _read(path: JsonValue, start: int, limit: int) -> tuple[bytes, int, float]:
    """Return a part of a file of this user, not through a link; its size; its age in seconds."""
    if not isinstance(path, str) or not path.startswith("/"):
        raise ValueError("not an absolute path")
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise ValueError("not a file of this user")
        return os.pread(file, limit, start), found.st_size, abs(time.time() - found.st_mtime)
    finally:
        os.close(file)


def _write(path: str, text: str) -> None:
    """Replace a file at once; if it is a new one, make room for it first."""
    folder, new = path.rpartition("/")[0], f"{path}.{os.getpid()}"
    for each in (runtime_dir(), folder):
        os.makedirs(each, 0o700, exist_ok=True)
    if not os.path.lexists(path):
        with os.scandir(folder) as entries:
            files = sorted((one.stat(follow_symlinks=False).st_mtime, one.path) for one in entries)
        for _, surplus in files[: max(0, len(files) + 1 - MAX_SESSIONS)]:
            os.unlink(surplus)
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, text.encode("ascii"))
        os.replace(new, path)
    finally:
        os.close(file)
        with suppress(FileNotFoundError):
            os.unlink(new)
