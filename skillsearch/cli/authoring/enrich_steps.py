"""The steps of ``skillsearch enrich``: has examples written, checks them, keeps the good ones."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO

import click

from skillsearch.cli.app import has_consent, refuse
from skillsearch.cli.options import read_settings
from skillsearch.cli.output import emit_json, say, show_rows
from skillsearch.index.next_steps import index_option
from skillsearch.index.opening import open_fresh
from skillsearch.library.example_review import (
    ANSWER_TOKENS,
    ASK,
    BATCH,
    ExampleEntry,
    Refusal,
    Review,
    SkillToEnrich,
    ask_for,
    read_answers,
)
from skillsearch.library.example_writers import Pending, Writer, batches_of, read_wanted, to_forget
from skillsearch.library.user_examples import change_examples, user_examples
from skillsearch.settings.table import Settings
from skillsearch.skills.example_requests import user_file
from skillsearch.text.provenance import VOUCH
from skillsearch.text.safe_text import counted, visible

if TYPE_CHECKING:
    from skillsearch.index.documents.document import Document
    from skillsearch.index.skill_index import SkillIndex

MAX_ANSWER_BYTES = 4 << 20


@dataclass(frozen=True)
class Enriching:
    """The index whose skills get examples, and how the user is asked and answered.

    Each public method does what one option says, and returns the exit code. With `names`, examples
    are asked for these skills alone.
    """

    names: Sequence[str]
    n: int | None
    include_unvetted: bool
    yes: bool
    as_json: bool
    settings: Settings = field(default_factory=read_settings)

    @cached_property
    def index(self) -> SkillIndex:
        """The index of the running command."""
        return open_fresh(self.settings, say)

    @property
    def option(self) -> str:
        """What names the index in commands, if it has to."""
        return index_option(self.index.folder, self.settings)

    def show_pending(self) -> int:
        """Print skills without examples, and the request to write some."""
        pending = self._pending()
        chosen = pending.documents[: self.n or BATCH]
        wanted = self._read(chosen)
        if self.as_json:
            skills = [asdict(skill) for skill in wanted]
            more = len(pending.documents) - len(chosen)
            emit_json({"ask": ASK, "skills": skills, "more": more, "unvetted": pending.unvetted})
            return 0
        if wanted:
            click.echo(ask_for(wanted), nl=False)
        count = counted(len(pending.documents), "skill")
        keep = f"; to keep the answer: skillsearch enrich --accept FILE{self.option}"
        say(f"{count} without examples, {len(wanted)} of them here{keep if wanted else ''}")
        return 0

    def accept(self, file: BinaryIO) -> int:
        """Check examples that were written elsewhere, and keep the good ones."""
        data = file.read(MAX_ANSWER_BYTES + 1)
        refuse(
            len(data) > MAX_ANSWER_BYTES, f"--accept takes {MAX_ANSWER_BYTES >> 20} MiB at most."
        )
        answers, refused = read_answers(data.decode("utf-8-sig", "replace"))
        good, more = Review(self.index).check(answers)
        done = self._keep(good, [*refused, *more])
        return self._finish(good if done else [], [*refused, *more], done=done)

    def have_written(self, writer: Writer, seconds: float) -> int:
        """Ask a writer batch by batch, and keep the good examples of each answer before the next.

        An ExecutionError if an answer holds no JSON lines; what is good of those before is kept.
        """
        wanted = self._read(self._pending().documents[: self.n])
        if not wanted:
            return self._finish([], [], done=True)
        batches = batches_of(wanted)
        say(_price(batches))
        if writer.is_host:
            say(f"to be called, in an empty folder: {shlex.join(writer.argv)}")
        all_good, all_refused = list[ExampleEntry](), list[Refusal]()
        done = has_consent("Nothing was called. To do this, add --yes.", yes=self.yes)
        answers = writer.write(batches, Review(self.index), seconds) if done else ()
        for good, refused in answers:
            all_refused += refused
            done = self._keep(good, refused)
            if not done:
                break
            all_good += good
        return self._finish(all_good, all_refused, done=done)

    def list_entries(self) -> int:
        """Print the examples that the user keeps."""
        skills = Review(self.index).skills
        records = [
            asdict(entry) | {"stale": entry.digest not in skills}
            for entry in user_examples().values()
        ]
        if self.as_json:
            emit_json({"file": str(user_file()), "skills": records})
            return 0
        columns = ("skill", "state", "examples")
        rows = [
            (record["name"], "stale" if record["stale"] else "used", " | ".join(record["examples"]))
            for record in records
        ]
        show_rows(rows, columns, is_cut=True, columns=columns)
        say("" if records else "No examples of yours are kept.")
        return 0

    def forget(self, names: Sequence[str], *, stale: bool) -> int:
        """Take away the examples of some skills, and with `stale` what fits none.

        A SkillError if one of the names has no examples; then none are taken away.
        """
        gone = to_forget(names, Review(self.index).skills, stale=stale, option=self.option)
        for entry in gone:
            say(f"{entry.name}: {counted(len(entry.examples), 'example')}")
        done = not gone or has_consent(
            "Nothing was taken away. To do this, add --yes.", yes=self.yes
        )
        if gone and done:
            change_examples(forget=[entry.digest for entry in gone])
        if self.as_json:
            forgotten = [asdict(entry) for entry in gone]
            emit_json({"file": str(user_file()), "forgotten": forgotten, "done": done})
        return 0 if done else 1

    def _pending(self) -> Pending:
        """Return the skills that have no examples; say how many unvetted ones are left out."""
        pending = Pending.of(
            self.index, self.settings.selection, self.names, include_unvetted=self.include_unvetted
        )
        if pending.unvetted:
            count = f"{counted(pending.unvetted, 'skill')} of unvetted roots left out"
            vouch = f"{VOUCH}{self.option}"
            say(f"note: {count}; vouch for a root with `{vouch}`, or add --include-unvetted")
        return pending

    def _read(self, documents: Iterable[Document]) -> list[SkillToEnrich]:
        wanted, broken = read_wanted(self.index, documents)
        for document, error in broken:
            say(f"left out: {document.name}: {error}")
        return wanted

    def _keep(self, good: Sequence[ExampleEntry], refused: Sequence[Refusal]) -> bool:
        """Show the accepted and the refused examples, and keep the former if the user agrees."""
        for each in refused:
            parts = ("refused", each.name, each.text and repr(each.text), each.reason)
            say(": ".join(filter(None, parts)))
        if not self.as_json:
            rows = [(entry.name, text) for entry in good for text in entry.examples]
            show_rows(rows, ("skill", "example"), columns=("skill", "example"))
        if good and not has_consent("Nothing was kept. To keep this, add --yes.", yes=self.yes):
            return False
        if good:
            change_examples(good)
            file = visible(str(user_file()))
            say(f"kept the examples of {counted(len(good), 'skill')} in {file}")
        return True

    def _finish(
        self, good: Sequence[ExampleEntry], refused: Sequence[Refusal], *, done: bool
    ) -> int:
        if self.as_json:
            emit_json(
                {
                    "file": str(user_file()),
                    "kept": [asdict(entry) for entry in good],
                    "refused": [each._asdict() for each in refused],
                    "done": done,
                }
            )
        elif good:
            command = f"skillsearch index{self.option}"
            say(f"the next query uses them; for many skills, run this first: {command}")
        elif done:
            say("Nothing was kept." if refused else "There is nothing to write or to keep.")
        return 0 if done and (good or not refused) else 1


def _price(batches: Sequence[Sequence[SkillToEnrich]]) -> str:
    from skillsearch.embedders.embedder import COUNTED_BY, TokenCounter

    count = TokenCounter.load()
    skills = sum(map(len, batches))
    tokens = sum(count(ask_for(batch)) for batch in batches)
    return (
        f"{counted(skills, 'skill')} in {counted(len(batches), 'call')}: about {tokens:,} tokens to"
        f" read and {skills * ANSWER_TOKENS:,} to write, as counted by {COUNTED_BY}"
    )
