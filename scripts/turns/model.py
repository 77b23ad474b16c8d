"""Ask a model which of the skills before it it would load; off unless its address is given.

The address is that of an API in OpenAI's form: ``END_TO_END_URL`` (such as
``http://127.0.0.1:8080/v1``), ``END_TO_END_MODEL``, and ``END_TO_END_KEY`` if it wants one.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Self

from turns.counts import Choices, Shown, Task

SECONDS = 120.0
MOST_BYTES = 1 << 20
QUESTION = (
    "Before you begin with the user's request, you may load one skill. Reply with nothing but its"
    " exact name as it stands below, or with the word none if no skill below helps.\n\n"
)
NONE = "none"


@dataclass(frozen=True, slots=True)
class Model:
    """A model behind an API."""

    url: str
    name: str
    key: str = field(default="", repr=False)

    @classmethod
    def from_environment(cls) -> Self | None:
        """Return the model that variables name, if they name one."""
        url = os.environ.get("END_TO_END_URL", "")
        if not url:
            return None
        if not url.startswith(("http://", "https://")):
            raise SystemExit(f"END_TO_END_URL is {url!r}; it begins with http:// or https://.")
        key = os.environ.get("END_TO_END_KEY", "")
        return cls(url.rstrip("/"), os.environ.get("END_TO_END_MODEL", ""), key)

    def reply(self, text: str, request: str) -> str:
        """Return what the model says to a request, given a text about skills."""
        messages = [
            {"role": "system", "content": QUESTION + text},
            {"role": "user", "content": request},
        ]
        data = json.dumps({"model": self.name, "messages": messages, "temperature": 0}).encode()
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self.key}"} if self.key else {}
        call = urllib.request.Request(f"{self.url}/chat/completions", data, headers)
        with urllib.request.urlopen(call, timeout=SECONDS) as answer:
            record = json.loads(answer.read(MOST_BYTES))
        return str(record["choices"][0]["message"]["content"])


def chosen(reply: str, names: Collection[str]) -> str:
    """Return the name that a reply gives, `NONE` if it says so, else an empty text."""
    word = reply.strip().strip("`'\"*.").casefold()
    by_word = {name.casefold(): name for name in names}
    return by_word.get(word, NONE if word == NONE else "")


def ask(model: Model, pairs: Sequence[tuple[Task, Shown]]) -> Choices:
    """Count what the model chooses; it is not asked where no skill stands before it."""
    counts = {"requests": len(pairs), "right": 0, "wrong": 0, "none": 0, "unreadable": 0}
    for task, shown in pairs:
        names = shown.standing()
        name = chosen(model.reply(shown.text, task.text), names) if names else NONE
        if name == NONE:
            counts["none"] += 1
        elif not name:
            counts["unreadable"] += 1
        else:
            counts["right" if name in task.right else "wrong"] += 1
    return counts
