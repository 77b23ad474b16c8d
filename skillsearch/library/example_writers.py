"""Which skills get example requests, what writes them, and which of those kept are forgotten."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from skillsearch.errors import ConfigError, ExecutionError, ParseError, SkillError
from skillsearch.execution.filters import filtered
from skillsearch.hosts.table import hosts, with_key, writer_of
from skillsearch.index.roots.scope import scope_of
from skillsearch.library.example_review import (
    BATCH,
    ExampleEntry,
    Refusal,
    Review,
    SkillToEnrich,
    ask_for,
    read_answers,
    without_examples,
)
from skillsearch.library.user_examples import user_examples
from skillsearch.text.safe_text import one_line

if TYPE_CHECKING:
    from skillsearch.index.documents.document import Document
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.types.answers import Selection


class Pending(NamedTuple):
    """Skills without examples, and how many others nobody has vouched for."""

    documents: Sequence[Document]
    unvetted: int

    @classmethod
    def of(
        cls,
        index: SkillIndex,
        selection: Selection,
        names: Sequence[str] = (),
        *,
        include_unvetted: bool = False,
    ) -> Pending:
        """Look among the skills of a selection, or those of some names alone."""
        named = (index.find(name, scope_of(selection)) for name in names)
        chosen = {each.doc_id: each for each in (named if names else index.documents(selection))}
        documents = without_examples(list(chosen.values()), user_examples())
        if include_unvetted:
            return cls(documents, 0)
        vetted = [each for each in documents if index.root_of(each).trust == "vetted"]
        return cls(vetted, len(documents) - len(vetted))


def read_wanted(
    index: SkillIndex, documents: Iterable[Document]
) -> tuple[list[SkillToEnrich], list[tuple[Document, ParseError]]]:
    """Read skills that examples are to be written for; also return those that cannot be read."""
    wanted, broken = [], []
    for document in documents:
        try:
            wanted.append(SkillToEnrich.of(document, index))
        except ParseError as exc:
            broken.append((document, exc))
    return wanted, broken


@dataclass(frozen=True, slots=True)
class Writer:
    """A command that writes examples; a host is run in an empty folder and without tools."""

    argv: Sequence[str]
    is_host: bool

    @classmethod
    def of(cls, line: str) -> Writer:
        """Return the host of a name, or a program with its arguments.

        A ConfigError if the host cannot write without tools, or the line cannot be read.
        """
        if argv := writer_of(line):
            return cls(argv, is_host=True)
        if line in hosts():
            writers = ", ".join(with_key("writes"))
            problem = f"It is not known how {line} writes without tools; hosts are {writers}."
            raise ConfigError(problem)
        try:
            argv = shlex.split(line)
        except ValueError as exc:
            problem = f"--command {line!r} cannot be read: {exc}; quote it as for a shell."
            raise ConfigError(problem) from exc
        if not argv:
            raise ConfigError("--command is empty; name a host, such as claude-code, or a program.")
        return cls(argv, is_host=False)

    def write(
        self, batches: Iterable[Sequence[SkillToEnrich]], review: Review, seconds: float
    ) -> Iterator[tuple[list[ExampleEntry], list[Refusal]]]:
        """Yield the accepted and the refused examples of each answer before asking the next.

        An ExecutionError if an answer holds no JSON lines.
        """
        for batch in batches:
            text = filtered(self.argv, ask_for(batch), seconds, is_elsewhere=self.is_host)
            answers, refused = read_answers(text)
            if not answers:
                start = one_line(text, 200) or "nothing"
                raise ExecutionError(
                    f"The answer of {self.argv[0]!r} cannot be read as JSON lines: {start}. It has "
                    "to print an object for each skill, as --pending asks for."
                )
            good, more = review.check(answers, {skill.digest for skill in batch})
            yield good, [*refused, *more]


def batches_of(wanted: Sequence[SkillToEnrich]) -> list[Sequence[SkillToEnrich]]:
    """Divide skills into those that are asked about at once."""
    return [wanted[begin : begin + BATCH] for begin in range(0, len(wanted), BATCH)]


def to_forget(
    names: Sequence[str], skills: Collection[str], *, stale: bool, option: str = ""
) -> list[ExampleEntry]:
    """Return what is kept for some names, and with `stale` what fits no digest of the skills.

    A SkillError if nothing is kept for one of the names; the `option` names the index in its
    command, if it has to.
    """
    entries = user_examples()
    for name in names:
        if not any(name in (entry.name, entry.digest) for entry in entries.values()):
            hint = f"See: skillsearch enrich --list{option}"
            raise SkillError(f"No examples of yours are kept for {one_line(name, 80)!r}. {hint}")
    return [
        entry
        for digest, entry in entries.items()
        if {entry.name, digest} & {*names} or (stale and digest not in skills)
    ]
