"""Answer the prompt hook of a host, in a tenth of a second where the daemon runs.

So nothing is imported here that is not needed then: no click, no settings, no types.

What the hosts expect, each read in November 2026: Claude Code (code.claude.com/docs/en/hooks,
``UserPromptSubmit``; a bare ``additionalContext`` is dropped, anthropics/claude-code#52876), Codex
(openai/codex, codex-rs/hooks/src/events/user_prompt_submit.rs, the same form) and Gemini CLI
(google-gemini/gemini-cli, docs/hooks/reference.md, ``BeforeAgent``). All of them take an empty
stdout as nothing to add, show stderr to nobody and ``systemMessage`` to the person, and let exit
code 2 block the prompt.
"""

from __future__ import annotations

import io
import json
import os
import select
import sys
import time

from skillsearch.daemon import client
from skillsearch.environ import variables
from skillsearch.errors import DaemonError, SkillSearchError

TYPE_CHECKING = False  # `typing` would cost every prompt some milliseconds
if TYPE_CHECKING:
    from pathlib import Path

    from skillsearch.types import JsonValue

EVENTS = {"claude-code": "UserPromptSubmit", "codex": "UserPromptSubmit", "gemini": "BeforeAgent"}
"""The event of each host whose hook answers in JSON."""
CLIENTS = (*EVENTS, "text")
"""Hosts, and ``text`` for any that adds to the prompt what the hook prints."""
SECONDS = 2.0
"""How long a prompt may wait for us."""
N = 3
MAX_EVENT_BYTES = 8 << 20
MAX_PROMPT_CHARS = 4096
"""What lies behind is pasted material that would cost time and blur the request."""
INTRODUCTION = (
    "Skills on this machine that may fit the user's request. Where one does, read the SKILL.md at "
    "its location before you begin; where none does, go on without. This is no request by itself."
)
"""Hosts put our text behind the prompt, where a model may take it for the task
(openai/codex#40680)."""
_SILENT_SECONDS = 86_400
"""Seconds for which a person is not told again that there is no index."""
_OPTIONS = {"--client": "client", "--index-dir": "index_dir"}


def parse(arguments: list[str]) -> dict[str, str | None] | None:
    """Read the arguments of a plain call.

    Args:
        arguments: What stands behind ``hook``.

    Returns:
        The arguments for `run`; None for anything but options with good values.
    """
    values: dict[str, str | None] = {"client": None, "index_dir": None}
    words = [part for word in arguments for part in word.split("=", 1)]
    for name, value in zip(words[::2], words[1::2], strict=False):
        if name not in _OPTIONS or not value:
            return None
        values[_OPTIONS[name]] = value
    is_plain = len(words) % 2 == 0 and values["client"] in (None, *CLIENTS)
    return values if is_plain else None


def run(client: str | None, index_dir: str | None) -> None:
    """Answer the event on stdin; whatever goes wrong is a line on stderr and blocks no prompt.

    Args:
        client: One of `CLIENTS`; None to go by the name of the event.
        index_dir: Folder of the index; None for that of the settings.
    """
    deadline = time.monotonic() + SECONDS
    event = None
    try:
        event = _read_event(deadline)
        prompt = event["prompt"][:MAX_PROMPT_CHARS]
        text = _overview(prompt, index_dir, deadline) if prompt.strip() else ""
        if text:
            _emit(_form(f"{INTRODUCTION}\n{text}", client, event))
    except KeyboardInterrupt:
        _tell("interrupted")
    except Exception as exc:  # noqa: BLE001  # The host would show its user a traceback, or block.
        _tell(str(exc) if isinstance(exc, SkillSearchError) else f"{type(exc).__name__}: {exc}")
        if event and client != "text":
            _tell_person(index_dir)


def _tell_person(index_dir: str | None) -> None:
    """Have the host show its user that there is no index, once a day for each index."""
    from contextlib import suppress

    from skillsearch.config import load_settings, no_index

    with suppress(SkillSearchError, OSError):
        settings = load_settings(index_dir=index_dir)
        folder = settings.index_dir.absolute()
        if not (folder / "CURRENT").exists() and _is_first_today(folder):
            text = f"skillsearch offers no skills here: {no_index(folder, settings)}"
            _emit(json.dumps({"systemMessage": text}))


def _is_first_today(folder: Path) -> bool:
    """Mark that the lack of an index is told; False if it was within a day."""
    from contextlib import suppress

    mark = _mark_of(folder)
    with suppress(OSError):  # There is no mark, or it cannot be made: better told twice than never.
        if 0 <= time.time() - mark.stat().st_mtime < _SILENT_SECONDS:
            return False
    with suppress(OSError):
        mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark.touch()
    return True


def forget_told(folder: Path) -> None:
    """Have the lack of an index told again if it should ever be gone.

    Args:
        folder: Folder of an index that was made.
    """
    from contextlib import suppress

    with suppress(OSError):
        _mark_of(folder).unlink()


def _mark_of(folder: Path) -> Path:
    """Return the file that marks that the lack of an index was told."""
    import hashlib

    from skillsearch.config import cache_dir

    digest = hashlib.sha256(str(folder).encode("utf-8", "surrogatepass")).hexdigest()
    return cache_dir() / "told" / digest[:16]


def _read_event(deadline: float) -> dict[str, JsonValue]:
    """Read the event that a host describes on stdin."""
    data = _read_stdin(deadline)
    if len(data) > MAX_EVENT_BYTES:
        raise SkillSearchError(f"the event on stdin has more than {MAX_EVENT_BYTES:,} bytes")
    try:
        event = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as exc:
        raise SkillSearchError(f"stdin holds no JSON: {exc}") from exc
    if not isinstance(event, dict) or not isinstance(event.get("prompt"), str):
        raise SkillSearchError('stdin holds no object with a text "prompt"')
    return event


def _read_stdin(deadline: float) -> bytes:
    """Read stdin, which a host may forget to close, up to a byte more than is allowed."""
    if sys.stdin is None:
        raise SkillSearchError("stdin is closed; the host writes its event there")
    try:
        stream = sys.stdin.fileno()
    except io.UnsupportedOperation:  # It is no stream of the system.
        stream = -1
    if stream < 0 or os.name != "posix":
        return sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
    data = bytearray()
    while len(data) <= MAX_EVENT_BYTES:
        ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise SkillSearchError(f"stdin was not closed within {SECONDS:g} s")
        block = os.read(stream, 1 << 16)
        if not block:
            break
        data += block
    return bytes(data)


def _overview(prompt: str, index_dir: str | None, deadline: float) -> str:
    """Return the skills that fit a prompt: from the daemon, or from a process of our own."""
    try:
        answer = _ask_daemon(prompt, index_dir, deadline)
    except DaemonError as exc:
        if exc.is_final:
            raise
        answer = None
    if answer is None:
        return _search(prompt, index_dir, deadline)
    for note in answer["notes"]:
        _tell(note)
    return str(answer["text"])


def _ask_daemon(prompt: str, index_dir: str | None, deadline: float) -> dict[str, JsonValue] | None:
    """Ask the daemon, started now if need be; None where the settings turn it off."""
    given = variables()
    if given.get("SKILLSEARCH_DAEMON") == "off":
        return None

    def ask() -> dict[str, JsonValue] | None:
        """Ask the daemon that runs."""
        return client.ask(
            "overview",
            seconds=deadline - time.monotonic(),
            prompt=prompt,
            n=N,
            folder=os.getcwd(),  # noqa: PTH109  # pathlib would cost every prompt some time
            index_dir=index_dir,
            variables=given,
        )

    answer = ask()
    if answer is None:
        from skillsearch.config import load_settings

        if load_settings(index_dir=index_dir).daemon != "off":
            client.start(seconds=deadline - time.monotonic())
            answer = ask()
    return answer


def _search(prompt: str, index_dir: str | None, deadline: float) -> str:
    """Search in a process that can be killed when the time is up."""
    import subprocess

    place = ["--index-dir", index_dir] if index_dir else []
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "skillsearch", "prompt", "-", "-n", str(N), *place],
            input=prompt.encode("utf-8", "replace"),
            capture_output=True,
            timeout=max(0.0, deadline - time.monotonic()),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SkillSearchError(f"found nothing within {SECONDS:g} s; goes on without") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().split("\n")
        raise SkillSearchError(lines[-1].removeprefix("Error: "))
    return done.stdout.decode("utf-8", "replace").strip()


def _form(text: str, host: str | None, event: dict[str, JsonValue]) -> str:
    """Put the text into the form that a host takes."""
    if host == "text":
        return text
    name = event.get("hook_event_name") if host is None else EVENTS[host]
    known = name if name in EVENTS.values() else "UserPromptSubmit"
    return json.dumps({"hookSpecificOutput": {"hookEventName": known, "additionalContext": text}})


def _emit(text: str) -> None:
    """Print the answer; a host that no longer reads is left alone."""
    if sys.stdout is None:
        raise SkillSearchError("stdout is closed; the answer was not printed")
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
        sys.stdout.flush()
    except OSError:
        sys.stdout = io.StringIO()  # Not tried again at exit, which would change the exit code.
        raise


def _tell(message: str) -> None:
    """Say on stderr what went wrong, on one line."""
    from skillsearch.text.safe_text import one_line

    line = f"skillsearch hook: {one_line(message, 500)}\n"
    try:
        sys.stderr.write(line.encode("ascii", "backslashreplace").decode())
        sys.stderr.flush()
    except OSError:  # Nobody listens there either; what is left is not tried again at exit.
        sys.stderr = io.StringIO()
