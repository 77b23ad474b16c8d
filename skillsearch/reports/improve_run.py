"""One run of ``skillsearch improve``: the skill, its requests, the proposal, and the edit."""

from __future__ import annotations

import difflib
import json
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

from skillsearch.errors import EditError, QueryError, SkillError
from skillsearch.index.documents.document import Document
from skillsearch.index.indexing.trial import Trial
from skillsearch.index.next_steps import index_option
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.example_review import ExampleEntry
from skillsearch.library.user_examples import change_examples
from skillsearch.reports.own_files import replace_skill_md, why_not_own
from skillsearch.reports.proposal_trials import Improvement, Improver, own_requests, split
from skillsearch.settings.table import Settings
from skillsearch.skills.description_edit import with_description
from skillsearch.skills.example_requests import digest_of_skill
from skillsearch.skills.parser import decode_skill_md
from skillsearch.skills.resources import read_skill_md
from skillsearch.text.safe_text import one_line, visible

_REQUEST_KEYS = ("request", "query", "text")
_NO_REQUESTS = (
    "There are no requests for {}: write some to a file, a line each, and name it with --requests; "
    "or have them written: skillsearch enrich --pending {}"
)


def read_requests(data: bytes) -> list[str]:
    """Read lines, each a request or JSON: a text, or an object with ``request`` or ``query``.

    A QueryError if the bytes are no text, since what cannot be read must reach no description, or
    if an object holds no request.
    """
    if b"\0" in data:
        raise QueryError("The requests hold NUL bytes, so they are no text; save them as UTF-8.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise QueryError(f"Line {line} of the requests is not UTF-8; save them as that.") from exc
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return list(filter(None, (_request(line, number) for number, line in lines)))


def _request(line: str, number: int) -> str:
    value: object = line
    if line.startswith(("{", '"')):
        with suppress(ValueError, RecursionError):
            value = json.loads(line)
    if isinstance(value, dict):
        texts = (value.get(key) for key in _REQUEST_KEYS)
        value = next((text for text in texts if isinstance(text, str)), None)
    if not isinstance(value, str):
        keys = ", ".join(_REQUEST_KEYS)
        problem = f"{one_line(line, 80)!r} has no text under one of the keys {keys}"
        raise QueryError(f"Line {number} of the requests, {problem}.")
    return value.strip()


@dataclass(frozen=True)
class Improving:
    """A skill of an index, as it is on disk now; `why_not` says why it may not be edited.

    The `option` names the index in commands, if it has to.
    """

    index: SkillIndex
    document: Document
    data: bytes
    why_not: str
    option: str = ""

    @classmethod
    def of(cls, index: SkillIndex, name: str, settings: Settings | None = None) -> Self:
        """Take the skill that a name means; fails as `SkillIndex.get` does.

        The settings are those that named the index.
        """
        document, option = index.find(name), index_option(index.folder, settings)
        roots = (document.root, *index.opened.settings.root_paths)
        data, _ = read_skill_md(Path(document.path), roots)
        why_not = why_not_own(index, document, Path.cwd(), option)
        return cls(index, document, data, why_not, option)

    def refusal(self) -> SkillError:
        """Return the error for a skill that the user may not edit."""
        return SkillError(f"{one_line(self.document.name, 80)} is not edited: {self.why_not}.")

    def improve(self, texts: Sequence[str], reader: str | None = None) -> Improvement:
        """Return what to change; a SkillError without requests, or if the file cannot be edited."""
        made_from, measured, _ = split([*texts, *own_requests(self.index, self.document)])
        if not measured:
            raise SkillError(
                _NO_REQUESTS.format(
                    one_line(self.document.name, 80),
                    shlex.quote(self.index.handle(self.document)) + self.option,
                )
            )
        try:
            with_description(self.data, self.document.description)
        except EditError as exc:
            raise SkillError(f"{visible(self.document.path)} {exc}.") from exc
        with tempfile.TemporaryDirectory(prefix="skillsearch-") as folder:
            trial = Trial.begin(self.index.opened, Path(folder))
            requests_of = partial(own_requests, self.index)
            improver = Improver(trial, self.document, self.data, requests_of, reader)
            return improver.improve(made_from, measured)

    def diff(self, improvement: Improvement) -> str:
        """Return the edit as a unified diff, safe to show; empty if nothing is proposed."""
        if not improvement.is_proposed:
            return ""
        path, after = visible(self.document.path), self._edited(improvement)
        old, new = (visible(decode_skill_md(data)[0]).split("\n") for data in (self.data, after))
        lines = difflib.unified_diff(old, new, path, path, lineterm="")
        return "".join(f"{line}\n" for line in lines)

    def _edited(self, improvement: Improvement) -> bytes:
        return with_description(self.data, improvement.description)

    def write(self, improvement: Improvement) -> None:
        """Write the description into the file, and keep the skill's examples for it.

        Examples know a skill by its description, so they would be lost with the old one. Fails as
        `replace_skill_md` and `change_examples` do.
        """
        after = self._edited(improvement)
        examples = [each.text for each in self.document.examples if each.source != "skill"]
        if examples:
            digest = digest_of_skill(self.document.name, improvement.description)
            change_examples([ExampleEntry(digest, self.document.name, tuple(examples))])
        replace_skill_md(Path(self.document.path), self.data, after)
