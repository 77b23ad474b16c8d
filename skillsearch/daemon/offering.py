"""What a prompt is offered: by the daemon, started if need be, or else by a new process.

Nothing is imported here that is not needed for that: no settings, no types.
"""

from __future__ import annotations

import json
import sys
import time

from skillsearch.daemon import client
from skillsearch.errors import DaemonError, SkillSearchError
from skillsearch.settings.environ import variables
from skillsearch.text.followups import is_followup

TYPE_CHECKING = False  # importing `typing` would slow down every prompt
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from skillsearch.daemon.questions import Overview, OverviewQuestion
    from skillsearch.hosts.conversation import Conversation

N = 3
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


class Clock:
    """The time that a prompt may still wait."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Return how many seconds are left."""
        return self._end - time.monotonic()


def question_of(
    prompt: str, folder: str, index_dir: str | None, *, include_unvetted: bool
) -> OverviewQuestion:
    """Return the question that a prompt in a folder puts to the daemon."""
    return {
        "prompt": prompt[:MAX_PROMPT_CHARS],
        "n": N,
        "include_unvetted": include_unvetted,
        "index_dir": index_dir,
        "folder": folder,
        "states": ["fits"] if is_followup(prompt[:MAX_PROMPT_CHARS]) else _STATES,
        "variables": variables(),
    }


def offered_texts(
    question: OverviewQuestion,
    conversation: Conversation,
    clock: Clock,
    tell: Callable[[str], object],
) -> dict[str, str]:
    """Return the texts for the model about skills that are new to it, by the key to remember.

    Tells the user what is of use to them. A DaemonError or SkillSearchError says why there is no
    answer.

    If no skill fits a prompt that leans on earlier turns, both are searched together instead.
    What the earlier turns alone would be offered is not what the prompt asks for.
    """
    answer = _overview(question, clock, tell)
    seen = {*conversation.offered}
    if not answer["fits"] and (before := conversation.last_turns()):
        both = f"{question['prompt']}\n{before}"[:MAX_PROMPT_CHARS]
        answer = _overview({**question, "prompt": both, "states": _STATES}, clock, tell)
        earlier: OverviewQuestion = {**question, "prompt": before[:MAX_PROMPT_CHARS], "states": []}
        alone = _overview(earlier, clock, tell)
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
        texts |= {} if note in conversation.offered else {note: note}
    return texts


def _overview(question: OverviewQuestion, clock: Clock, tell: Callable[[str], object]) -> Overview:
    """Return the answer of the daemon, started if need be, or else of a new process."""
    answer = None
    try:
        if question["variables"].get("SKILLSEARCH_DAEMON") != "off":
            answer = _ask_daemon(question, clock)
            if answer is None:
                from pathlib import Path

                from skillsearch.settings.config import load_settings

                index_dir = question["index_dir"]
                if load_settings(Path(question["folder"]), index_dir=index_dir).daemon != "off":
                    client.start(seconds=clock.left())
                    answer = _ask_daemon(question, clock)
    except DaemonError as exc:
        if exc.is_final:
            raise
    if answer is None:
        return _search(question, clock)
    for note in answer["notes"]:
        tell(note)
    return answer


def _ask_daemon(question: OverviewQuestion, clock: Clock) -> Overview | None:
    answer: Any = client.ask("overview", question, seconds=clock.left())
    overview: Overview | None = answer
    return overview


def _search(question: OverviewQuestion, clock: Clock) -> Overview:
    """Search in a process that can be killed when the time is up."""
    import subprocess

    index_dir = question["index_dir"]
    options = ["--json", *(["--index-dir", index_dir] if index_dir else [])]
    options += ["--include-unvetted"] if question["include_unvetted"] else []
    options += ["--hook-states", ",".join(question["states"])]
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "skillsearch", "prompt", "-", "-n", str(N), *options],
            input=question["prompt"].encode("utf-8", "replace"),
            capture_output=True,
            cwd=question["folder"],
            timeout=max(0.0, clock.left()),
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise SkillSearchError(
            f"timed out after {clock.seconds:g} s; continuing without skills"
        ) from exc
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().split("\n")
        raise SkillSearchError(lines[-1].removeprefix("Error: "))
    overview: Overview = json.loads(done.stdout)
    return overview
