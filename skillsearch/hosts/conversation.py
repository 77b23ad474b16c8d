"""The state of a conversation with a host: offered skills, and the user's earlier prompts.

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

from skillsearch.files.private import make_private
from skillsearch.settings.environ import runtime_dir
from skillsearch.text.followups import has_no_task, is_followup

TYPE_CHECKING = False  # importing `typing` would slow down every prompt
if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillsearch.types.json_values import Json

MAX_SESSIONS = 256
MAX_OFFERED = 512
MAX_STATE_BYTES = 1 << 18
UNSEEN_SECONDS = 3600  # time for which skills count as offered if there is no transcript
MAX_GROWTH = 4 << 20  # more bytes of transcript since the last prompt: taken for a new context
TAIL_BYTES = 1 << 18
MAX_TURNS = 6
MAX_TURN_CHARS = 1000
_MARKS = (  # inside of a text, the quotation marks would be escaped
    *(b'"subtype":"compact_boundary"', b'"type":"compacted"', b'"type":"thread_rolled_back"'),
    *(b'{"$set":{"messages":', b'{"$rewindTo":'),
)
_DAMAGE = (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError)


class Conversation:
    """A conversation, as an event of its host describes it; never a reason to fail."""

    def __init__(self, event: dict[str, Json]) -> None:
        """Find out which offered skills are still in the context."""
        self._prompt, self._transcript = str(event["prompt"]), event.get("transcript_path")
        named = str(event.get("session_id") or "").encode("utf-8", "surrogatepass").hex()
        self._file = f"{runtime_dir()}/sessions/{named}" if 0 < len(named) <= 200 else ""
        self.offered: list[str] = []
        with suppress(*_DAMAGE):
            data, _, age = _read(self._file, 0, MAX_STATE_BYTES)
            state = json.loads(data)
            try:
                since, size, _ = _read(self._transcript, state["size"], MAX_GROWTH)
                is_kept = state["size"] + len(since) == size and not any(m in since for m in _MARKS)
            except OSError:
                is_kept = age <= UNSEEN_SECONDS
            self.offered = list(map(str, state["offered"])) if is_kept else []

    def remember(self, keys: Iterable[str]) -> None:
        """Keep the skills offered now, too, and how far the transcript was read."""
        size, offered = 0, [*self.offered, *keys][-MAX_OFFERED:]
        with suppress(*_DAMAGE):
            size = _read(self._transcript, 0, 0)[1]
        while len(text := json.dumps({"size": size, "offered": offered})) > MAX_STATE_BYTES:
            offered = offered[len(offered) // 2 + 1 :]
        with suppress(*_DAMAGE):
            if self._file and offered:
                _write(self._file, text)

    def last_turns(self) -> str:
        """Return the prompts before a follow-up, back to one that can be understood alone."""
        turns: list[str] = []
        with suppress(*_DAMAGE):
            start = max(0, _read(self._transcript, 0, 0)[1] - TAIL_BYTES)
            lines = _read(self._transcript, start, TAIL_BYTES)[0].split(b"\n")
            for turn in map(_prompt_in, reversed(lines)) if is_followup(self._prompt) else ():
                if turn != self._prompt and not has_no_task(turn):
                    turns.append(turn[:MAX_TURN_CHARS])
                    if not is_followup(turn) or len(turns) == MAX_TURNS:
                        break
        return "\n".join(turns)


def _prompt_in(line: bytes) -> str:
    """Return the user's prompt in a line of a transcript; empty if the host wrote the line."""
    with suppress(*_DAMAGE):
        record = json.loads(line) if b'"user' in line else {}
        if any(map(record.get, ("isMeta", "isCompactSummary", "isSidechain"))):
            return ""
        record = record.get("payload") or record
        if record["type"] in ("user", "user_message"):
            content = record.get("message") or record
            content = content if isinstance(content, str) else content["content"]
            parts = [{"text": content}] if isinstance(content, str) else content
            texts = [part.get("text", "") for part in parts]
            return "\n".join(text for text in texts if not text.startswith("<")).strip()
    return ""


def _read(path: Json, start: int, limit: int) -> tuple[bytes, int, float]:
    """Return a part of a file of this user, not through a link; its size; its age in seconds."""
    if not isinstance(path, str) or "\0" in path:
        raise OSError("not a path")
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise OSError("not a file of this user")
        return os.pread(file, limit, start), status.st_size, abs(time.time() - status.st_mtime)
    finally:
        os.close(file)


def _write(path: str, text: str) -> None:
    """Replace a file at once; if it is a new one, make room for it first."""
    folder, new = path.rpartition("/")[0], f"{path}.{os.getpid()}"
    for each in (runtime_dir(), folder):
        make_private(each)
    if not os.path.lexists(path):
        files = []
        for entry in os.scandir(folder):
            with suppress(FileNotFoundError):  # Another process has just renamed or removed it.
                files.append((entry.stat(follow_symlinks=False).st_mtime, entry.path))
        for _, surplus in sorted(files)[: max(0, len(files) + 1 - MAX_SESSIONS)]:
            with suppress(FileNotFoundError):
                os.unlink(surplus)
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        os.replace(new, path)
    except OSError:
        os.unlink(new)
        raise
