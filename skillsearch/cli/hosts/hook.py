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
import time

from skillsearch.cli.hosts.hook_session import Session
from skillsearch.daemon import client
from skillsearch.environ import variables
from skillsearch.errors import DaemonError, SkillSearchError, answered, machine_problem
from skillsearch.hosts.scan import EVENTS
from skillsearch.text.followups import leans, needs_nothing

TYPE_CHECKING = False  # importing `typing` would slow down every prompt
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from skillsearch.daemon.questions import Overview, OverviewQuestion
    from skillsearch.types import Json


CLIENTS = (*EVENTS, "text")
"""Hosts, and ``text`` for any other that adds the output of a hook to the prompt."""
SECONDS = 2.0
"""How long a prompt waits at most."""
N = 3
MAX_EVENT_BYTES = 8 << 20
MAX_PROMPT_CHARS = 4096
"""The rest is pasted material that would cost time and blur the request."""
INTRODUCTION = (
    "Skills on this machine that {} the user's request. If one does, read the SKILL.md at its "
    "location before you begin; if none does, go on without. This is not a request by itself."
)
"""Hosts append our text to the prompt, so a model may take it for the task (openai/codex#40680)."""
_FIT = {(True,): "fit", (False,): "may fit", (False, True): "fit, or may fit,"}
_STATES = ["fits", "perhaps", "none"]
"""Answers that are kept as usage: of a prompt that leans on earlier turns, first those that fit."""
_SILENT_SECONDS = 86_400
"""How long a user is not told again that there is no index."""
_OPTIONS = ("--client", "--index-dir")
_SWITCH = "--include-unvetted"


def parse(arguments: list[str]) -> tuple[str | None, str | None, bool] | None:
    """Return client, index_dir and include_unvetted for `run`; None if click has to read them."""
    values: dict[str, str | None] = dict.fromkeys(_OPTIONS)
    words = [part for word in arguments if word != _SWITCH for part in word.split("=", 1)]
    for name, value in zip(words[::2], words[1::2], strict=False):
        if name not in _OPTIONS or not value:
            return None
        values[name] = value
    host, index_dir = values.values()
    is_plain = len(words) % 2 == 0 and host in (None, *CLIENTS)
    return (host, index_dir, _SWITCH in arguments) if is_plain else None


class _Clock:
    """The time that a prompt may still wait."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        return self._end - time.monotonic()


def run(
    client: str | None,
    index_dir: str | None,
    seconds: float = SECONDS,
    *,
    include_unvetted: bool = False,
) -> None:
    """Answer the event on stdin, in the form of its name if `client` is None; never block."""
    clock = _Clock(seconds)

    def answer() -> None:
        prompt = str(event["prompt"])[:MAX_PROMPT_CHARS]
        if needs_nothing(prompt):
            return
        session = Session(event)
        request: OverviewQuestion = {
            "prompt": prompt,
            "n": N,
            "include_unvetted": include_unvetted,
            "index_dir": index_dir and os.path.abspath(index_dir),  # noqa: PTH100
            "folder": _folder_of(event),
            "states": ["fits"] if leans(prompt) else _STATES,
            "variables": variables(),
        }
        texts = _answer(request, session, clock)
        if text := "\n".join(filter(None, texts.values())):
            name = event.get("hook_event_name") if client is None else EVENTS.get(client)
            name = name if name in EVENTS.values() else "UserPromptSubmit"
            output = {"hookEventName": name, "additionalContext": text}
            _emit(text if client == "text" else json.dumps({"hookSpecificOutput": output}))
        session.remember(texts)

    def explain(error: Exception) -> None:
        _explain(error)
        if client != "text":
            _report_no_index(index_dir)

    try:
        event = answered(lambda: _read_event(clock, is_text=client == "text"), _explain)
        if event:
            answered(answer, explain)
    except KeyboardInterrupt:
        _warn("interrupted")


def _explain(error: Exception) -> dict[str, Any]:
    """Say what went wrong: else a host would show its user a traceback, or block the prompt."""
    is_ours = isinstance(error, SkillSearchError)
    _warn(str(error) if is_ours else machine_problem(error) or f"{type(error).__name__}: {error}")
    return {}


def _report_no_index(index_dir: str | None) -> None:
    """Have the host tell its user that there is no index, once a day for each index."""
    from contextlib import suppress
    from pathlib import Path

    from skillsearch.config import load_settings
    from skillsearch.files.private import make_private
    from skillsearch.hosts.folders import has_host_folders
    from skillsearch.index.next_steps import no_index

    with suppress(SkillSearchError, OSError):
        settings = load_settings(index_dir=index_dir)
        folder = settings.index_dir.absolute()
        if (folder / "CURRENT").exists():
            return
        mark = _mark_of(folder)
        with suppress(OSError):  # no mark, or none can be made: better report twice than never
            if 0 <= time.time() - mark.stat().st_mtime < _SILENT_SECONDS:
                return
        with suppress(OSError):
            make_private(mark.parent)
            mark.touch()
        is_somewhere = has_host_folders(Path.cwd())
        reason = no_index(folder, settings, has_host_folders=is_somewhere)
        text = f"skillsearch offers no skills here: {reason}"
        _emit(json.dumps({"systemMessage": text}))


def forget_told(folder: Path) -> None:
    """Have the next loss of an index that was made in a folder reported at once."""
    from contextlib import suppress

    with suppress(OSError):
        _mark_of(folder).unlink()


def _mark_of(folder: Path) -> Path:
    """Return the file that marks the lack of an index as reported."""
    import hashlib

    from skillsearch.user_folders import cache_dir

    digest = hashlib.sha256(str(folder).encode("utf-8", "surrogatepass")).hexdigest()
    return cache_dir() / "told" / digest[:16]


def _read_event(clock: _Clock, *, is_text: bool) -> dict[str, Json]:
    """Return the event on stdin, or one of what stands there if that may be the mere prompt."""
    data = _read_stdin(clock)
    if len(data) > MAX_EVENT_BYTES:
        raise SkillSearchError(f"the event on stdin has more than {MAX_EVENT_BYTES:,} bytes")
    text, problem = data.decode("utf-8", "replace"), 'stdin is not an object with a text "prompt"'
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as exc:
        event, problem = None, f"stdin is not JSON: {exc}"
    if isinstance(event, dict) and isinstance(event.get("prompt"), str):
        return event
    if not is_text:
        raise SkillSearchError(problem)
    return {"prompt": text}


def _read_stdin(clock: _Clock) -> bytes:
    """Read stdin, which a host may forget to close, up to one byte over the limit."""
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
            raise SkillSearchError(f"stdin was not closed within {clock.seconds:g} s")
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


def _answer(request: OverviewQuestion, session: Session, clock: _Clock) -> dict[str, str]:
    """Return the texts for the model about skills that are new to it, by the key to remember.

    If no skill fits a prompt that leans on earlier turns, both are searched together instead.
    What the earlier turns alone would be offered is not what the prompt asks for.
    """
    answer, seen = _overview(request, clock), {*session.offered}
    if not answer["fits"] and (before := session.last_turns()):
        both = f"{request['prompt']}\n{before}"[:MAX_PROMPT_CHARS]
        answer = _overview({**request, "prompt": both, "states": _STATES}, clock)
        earlier: OverviewQuestion = {**request, "prompt": before[:MAX_PROMPT_CHARS], "states": []}
        alone = _overview(earlier, clock)
        seen |= alone["offers"].keys()
    fits = [*answer["offers"]][: answer["fits"]]
    new = {key: text for key, text in answer["offers"].items() if key not in seen}
    texts = dict.fromkeys(new, "")
    if new:
        skills = "\n".join(["<available_skills>", *new.values(), "</available_skills>"])
        fit = _FIT[tuple(sorted({key in fits for key in new}))]
        texts[next(iter(new))] = f"{INTRODUCTION.format(fit)}\n{skills}"
    if answer["unvetted"]:
        from skillsearch.text.provenance import left_out_for_model

        note = left_out_for_model(answer["unvetted"])
        texts |= {} if note in session.offered else {note: note}
    return texts


def _overview(request: OverviewQuestion, clock: _Clock) -> Overview:
    """Return the answer of the daemon, started if need be, or else of a new process."""
    answer = None
    try:
        if request["variables"].get("SKILLSEARCH_DAEMON") != "off":
            answer = _ask_daemon(request, clock)
            if answer is None:
                from pathlib import Path

                from skillsearch.config import load_settings

                index_dir = request["index_dir"]
                if load_settings(Path(request["folder"]), index_dir=index_dir).daemon != "off":
                    client.start(seconds=clock.left())
                    answer = _ask_daemon(request, clock)
    except DaemonError as exc:
        if exc.is_final:
            raise
    if answer is None:
        return _search(request, clock)
    for note in answer["notes"]:
        _warn(note)
    return answer


def _ask_daemon(request: OverviewQuestion, clock: _Clock) -> Overview | None:
    answer: Any = client.ask("overview", request, seconds=clock.left())
    overview: Overview | None = answer
    return overview


def _search(request: OverviewQuestion, clock: _Clock) -> Overview:
    """Search in a process that can be killed when the time is up."""
    import subprocess

    index_dir = request["index_dir"]
    options = ["--json", *(["--index-dir", index_dir] if index_dir else [])]
    options += [_SWITCH] if request["include_unvetted"] else []
    options += ["--hook-states", ",".join(request["states"])]
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "skillsearch", "prompt", "-", "-n", str(N), *options],
            input=request["prompt"].encode("utf-8", "replace"),
            capture_output=True,
            cwd=request["folder"],
            timeout=max(0.0, clock.left()),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SkillSearchError(
            f"timed out after {clock.seconds:g} s; continuing without skills"
        ) from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().split("\n")
        raise SkillSearchError(lines[-1].removeprefix("Error: "))
    overview: Overview = json.loads(done.stdout)
    return overview


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

    line = f"skillsearch hook: {one_line(message, 500)}\n"
    try:
        sys.stderr.write(line.encode("ascii", "backslashreplace").decode())
        sys.stderr.flush()
    except OSError:  # nobody reads that either
        sys.stderr = io.StringIO()
