"""Answers the prompt hook of a host, in a tenth of a second if the daemon runs.

Nothing is imported here that is not needed for that: no click, no settings, no types.

Each host's contract, read in November 2026: Claude Code (code.claude.com/docs/en/hooks,
``UserPromptSubmit``; a bare ``additionalContext`` is dropped, anthropics/claude-code#52876), Codex
(openai/codex, codex-rs/hooks/src/events/user_prompt_submit.rs, the same form) and Gemini CLI
(google-gemini/gemini-cli, docs/hooks/reference.md, ``BeforeAgent``). In all of them
an empty stdout adds nothing, stderr is hidden, ``systemMessage`` is shown to the user, and exit
code 2 blocks the prompt.
"""

from __future__ import annotations

import io
import json
import os
import select
import sys

from skillsearch.daemon.offering import Clock, offered_texts, question_of
from skillsearch.errors import SkillSearchError, answered
from skillsearch.hosts.conversation import Conversation
from skillsearch.hosts.scan import EVENTS
from skillsearch.system_errors import machine_problem
from skillsearch.text.followups import has_no_task

TYPE_CHECKING = False  # importing `typing` would slow down every prompt
if TYPE_CHECKING:
    from typing import Any

    from skillsearch.types.json_values import Json


HOSTS = (*EVENTS, "text")
"""Hosts, and ``text`` for any other that adds the output of a hook to the prompt."""
SECONDS = 2.0
"""How long a prompt waits at most."""
MAX_EVENT_BYTES = 8 << 20
_OPTIONS = ("--client", "--index-dir")
_SWITCH = "--include-unvetted"


def parse(arguments: list[str]) -> tuple[str | None, str | None, bool] | None:
    """Return host, index_dir and include_unvetted for `run`; None if click has to read them."""
    values: dict[str, str | None] = dict.fromkeys(_OPTIONS)
    words = [part for word in arguments if word != _SWITCH for part in word.split("=", 1)]
    for name, value in zip(words[::2], words[1::2], strict=False):
        if name not in _OPTIONS or not value:
            return None
        values[name] = value
    host, index_dir = values.values()
    is_plain = len(words) % 2 == 0 and host in (None, *HOSTS)
    return (host, index_dir, _SWITCH in arguments) if is_plain else None


def run(
    host: str | None,
    index_dir: str | None,
    seconds: float = SECONDS,
    *,
    include_unvetted: bool = False,
) -> None:
    """Answer the event on stdin, in the form of its name if `host` is None; never block."""
    clock = Clock(seconds)

    def answer() -> None:
        place = index_dir and os.path.abspath(index_dir)  # noqa: PTH100
        prompt, folder = str(event["prompt"]), _folder_of(event)
        question = question_of(prompt, folder, place, include_unvetted=include_unvetted)
        if has_no_task(question["prompt"]):
            return
        conversation = Conversation(event)
        texts = offered_texts(question, conversation, clock, _warn)
        if text := "\n".join(filter(None, texts.values())):
            name = event.get("hook_event_name") if host is None else EVENTS.get(host)
            name = name if name in EVENTS.values() else "UserPromptSubmit"
            output = {"hookEventName": name, "additionalContext": text}
            _emit(text if host == "text" else json.dumps({"hookSpecificOutput": output}))
        conversation.remember(texts)

    def explain(error: Exception) -> None:
        _explain(error)
        if host != "text":
            _report_no_index(index_dir)

    try:
        event = answered(lambda: _read_event(clock, is_text=host == "text"), _explain)
        if event:
            answered(answer, explain)
    except KeyboardInterrupt:
        _warn("interrupted")


def _explain(error: Exception) -> dict[str, Any]:
    """Report an error: else a host would show its user a traceback, or block the prompt."""
    is_ours = isinstance(error, SkillSearchError)
    _warn(str(error) if is_ours else machine_problem(error) or f"{type(error).__name__}: {error}")
    return {}


def _report_no_index(index_dir: str | None) -> None:
    """Have the host tell its user that there is no index."""
    from contextlib import suppress

    from skillsearch.index.absence import first_report

    with suppress(SkillSearchError, OSError):
        if reason := first_report(index_dir):
            text = f"skillsearch offers no skills here: {reason}"
            _emit(json.dumps({"systemMessage": text}))


def _read_event(clock: Clock, *, is_text: bool) -> dict[str, Json]:
    """Read the event from stdin; plain text, if allowed, becomes an event with that prompt."""
    data = _read_stdin(clock)
    if len(data) > MAX_EVENT_BYTES:
        most = f"{MAX_EVENT_BYTES:,} bytes"
        raise SkillSearchError(f"the event on stdin has more than {most}; send a shorter prompt")
    text = data.decode("utf-8", "replace")
    problem = 'stdin is not an object with a text "prompt"'
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as exc:
        event, problem = None, f"stdin is not JSON: {exc}"
    if isinstance(event, dict) and isinstance(event.get("prompt"), str):
        return event
    if not is_text:
        raise SkillSearchError(problem)
    return {"prompt": text}


def _read_stdin(clock: Clock) -> bytes:
    """Read stdin, up to one byte over the limit; a host may forget to close it."""
    if sys.stdin is None:
        raise SkillSearchError("stdin is closed; the host writes its event there")
    try:
        stream = sys.stdin.fileno()
    except io.UnsupportedOperation:  # not backed by a file descriptor
        stream = -1
    if stream < 0 or os.name != "posix":
        return sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
    data = bytearray()
    while len(data) <= MAX_EVENT_BYTES:
        if not select.select([stream], [], [], max(0.0, clock.left()))[0]:
            late = f"stdin was not closed within {clock.seconds:g} s"
            raise SkillSearchError(f"{late}; the host has to close it after its event")
        block = os.read(stream, 1 << 16)
        if not block:
            break
        data += block
    return bytes(data)


def _folder_of(event: dict[str, Json]) -> str:
    """Return the folder that the host works in, which may not be the one that it starts us in."""
    folder = str(event.get("cwd"))
    is_usable = folder[:1] == "/" and "\0" not in folder
    if is_usable and os.path.isdir(folder):  # noqa: PTH112  # pathlib is slow to import
        return folder
    return os.getcwd()  # noqa: PTH109


def _emit(text: str) -> None:
    if sys.stdout is None:
        raise SkillSearchError("stdout is closed; the answer was not printed")
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
        sys.stdout.flush()
    except OSError:
        sys.stdout = io.StringIO()  # a retry at exit would change the exit code
        raise


def _warn(message: str) -> None:
    from skillsearch.text.safe_text import one_line

    if sys.stderr is None:  # closed
        return
    line = f"skillsearch hook: {one_line(message, 500)}\n"
    try:
        sys.stderr.write(line.encode("ascii", "backslashreplace").decode())
        sys.stderr.flush()
    except OSError:  # nobody reads that either
        sys.stderr = io.StringIO()
