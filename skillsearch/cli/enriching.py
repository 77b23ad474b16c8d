"""What ``skillsearch enrich`` does: has examples written, checks them, and keeps what is good."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from skillsearch.cli.app import Asked, agrees, refuse
from skillsearch.cli.output import emit_json, say, show_rows
from skillsearch.errors import ExecutionError, ParseError, SkillError
from skillsearch.execution.filters import filtered
from skillsearch.hosts.table import hosts, with_key, writer_of
from skillsearch.index.opening import open_fresh
from skillsearch.library.enrich import (
    ANSWER_TOKENS,
    ASK,
    BATCH,
    Kept,
    Refusal,
    Review,
    Wanted,
    ask_for,
    read_answers,
    without_examples,
)
from skillsearch.library.kept_examples import change_examples, kept_examples
from skillsearch.skills.example_requests import user_file
from skillsearch.text.provenance import VOUCH
from skillsearch.text.safe_text import counted, one_line, visible

if TYPE_CHECKING:
    from skillsearch.index.documents import Document
    from skillsearch.index.skill_index import SkillIndex

MAX_ANSWER_BYTES = 4 << 20


def enrich(asked: Asked) -> int:
    """Do what the options say; return the exit code."""
    argv = _arguments(asked.line) if asked.line is not None else []
    index = open_fresh(asked.settings, say)
    if asked.listing:
        return _list(index, asked)
    if asked.forget:
        return _forget(index, asked)
    if asked.accept:
        return _accept(index, asked)
    documents, unvetted = _without_examples(index, asked)
    chosen = documents[: asked.count or (None if argv else BATCH)]
    wanted = list(_read(chosen, index))
    if argv:
        return _have_written(index, asked, argv, wanted)
    if asked.as_json:
        skills, more = [asdict(one) for one in wanted], len(documents) - len(chosen)
        emit_json({"ask": ASK, "skills": skills, "more": more, "unvetted": unvetted})
    elif wanted:
        click.echo(ask_for(wanted), nl=False)
    if not asked.as_json:
        say(f"{counted(len(documents), 'skill')} without examples, {len(wanted)} of them here")
    return 0


def _arguments(line: str) -> list[str]:
    if argv := writer_of(line):
        return argv
    known = ", ".join(with_key("writes"))
    refuse(line in hosts(), f"It is not known how {line} writes without tools; hosts are {known}.")
    try:
        argv = shlex.split(line)
    except ValueError as exc:
        raise click.UsageError(f"--command {line!r} cannot be read: {exc}.") from exc
    refuse(not argv, "--command is empty; name a host, such as claude-code, or a program.")
    return argv


def _without_examples(index: SkillIndex, asked: Asked) -> tuple[list[Document], int]:
    found = without_examples(index.documents(asked.settings.selection), kept_examples())
    vetted = [one for one in found if index.root_of(one).trust == "vetted"]
    left = 0 if asked.include_unvetted else len(found) - len(vetted)
    if left:
        what = f"{counted(left, 'skill')} of unvetted roots left out"
        say(f"note: {what}; vouch for a root with `{VOUCH}`, or add --include-unvetted")
    return found if asked.include_unvetted else vetted, left


def _read(documents: Iterable[Document], index: SkillIndex) -> Iterator[Wanted]:
    for document in documents:
        try:
            yield Wanted.of(document, index)
        except ParseError as exc:
            say(f"left out: {document.name}: {exc}")


def _accept(index: SkillIndex, asked: Asked) -> int:
    data = asked.accept.read(MAX_ANSWER_BYTES + 1)
    refuse(len(data) > MAX_ANSWER_BYTES, f"--accept takes {MAX_ANSWER_BYTES >> 20} MiB at most.")
    answers, refused = read_answers(data.decode("utf-8-sig", "replace"))
    kept, more = Review(index).check(answers)
    done = _keep(kept, [*refused, *more], asked)
    return _tell(kept if done else [], [*refused, *more], asked, done=done)


def _have_written(
    index: SkillIndex, asked: Asked, argv: Sequence[str], wanted: Sequence[Wanted]
) -> int:
    """Ask a command batch by batch, and keep what is good of each answer before the next."""
    if not wanted:
        return _tell([], [], asked, done=True)
    batches = [wanted[begin : begin + BATCH] for begin in range(0, len(wanted), BATCH)]
    say(_price(batches))
    is_host = argv == writer_of(asked.line)
    if is_host:
        say(f"to be called, in an empty folder: {shlex.join(argv)}")
    review, all_kept, all_refused = Review(index), list[Kept](), list[Refusal]()
    done = agrees(asked.yes, "Nothing was called. To do this, add --yes.")
    for batch in batches if done else ():
        text = filtered(argv, ask_for(batch), asked.seconds, is_elsewhere=is_host)
        answers, refused = read_answers(text)
        if not answers:
            said = one_line(text, 200) or "nothing"
            raise ExecutionError(f"The answer of {argv[0]!r} cannot be read as JSON lines: {said}")
        kept, more = review.check(answers, {one.digest for one in batch})
        refused += more
        all_refused += refused
        if done := _keep(kept, refused, asked):
            all_kept += kept
        else:
            break
    return _tell(all_kept, all_refused, asked, done=done)


def _price(batches: Sequence[Sequence[Wanted]]) -> str:
    from skillsearch.embedders.embedder import COUNTED_BY, TokenCounter

    count, skills = TokenCounter.load(), sum(map(len, batches))
    tokens = sum(count(ask_for(batch)) for batch in batches)
    return (
        f"{counted(skills, 'skill')} in {counted(len(batches), 'call')}: about {tokens:,} tokens to"
        f" read and {skills * ANSWER_TOKENS:,} to write, as counted by {COUNTED_BY}"
    )


def _keep(kept: Sequence[Kept], refused: Sequence[Refusal], asked: Asked) -> bool:
    """Show what could be kept and what not, and keep it if the user agrees."""
    for one in refused:
        say(": ".join(filter(None, ("refused", one.name, one.text and repr(one.text), one.reason))))
    if not asked.as_json:
        rows = [(one.name, text) for one in kept for text in one.examples]
        show_rows(rows, ("skill", "example"), columns=("skill", "example"))
    if kept and not agrees(asked.yes, "Nothing was kept. To keep this, add --yes."):
        return False
    if kept:
        change_examples(kept)
        say(f"kept the examples of {counted(len(kept), 'skill')} in {visible(str(user_file()))}")
    return True


def _tell(kept: Sequence[Kept], refused: Sequence[Refusal], asked: Asked, *, done: bool) -> int:
    if asked.as_json:
        records = [asdict(one) for one in kept]
        record = {"kept": records, "refused": [one._asdict() for one in refused]}
        emit_json({"file": str(user_file()), **record, "done": done})
    elif kept:
        say("the next question takes them up; of many skills: skillsearch index")
    elif done:
        say("Nothing was kept." if refused else "There is nothing to write or to keep.")
    return 0 if done and (kept or not refused) else 1


def _list(index: SkillIndex, asked: Asked) -> int:
    known, kept = Review(index).skills, kept_examples().values()
    records = [asdict(one) | {"stale": one.digest not in known} for one in kept]
    if asked.as_json:
        emit_json({"file": str(user_file()), "skills": records})
    else:
        rows = [
            (one["name"], "stale" if one["stale"] else "used", " | ".join(one["examples"]))
            for one in records
        ]
        columns = ("skill", "state", "examples")
        show_rows(rows, columns, is_cut=True, columns=columns)
        say("" if records else "No examples of yours are kept.")
    return 0


def _forget(index: SkillIndex, asked: Asked) -> int:
    kept, known = kept_examples(), Review(index).skills
    for name in asked.names:
        if not any(name in (one.name, one.digest) for one in kept.values()):
            hint = "See: skillsearch enrich --list"
            raise SkillError(f"No examples of yours are kept for {one_line(name, 80)!r}. {hint}")
    gone = [
        one
        for digest, one in kept.items()
        if {one.name, digest} & {*asked.names} or (asked.stale and digest not in known)
    ]
    for one in gone:
        say(f"{one.name}: {counted(len(one.examples), 'example')}")
    done = not gone or agrees(asked.yes, "Nothing was taken away. To do this, add --yes.")
    if gone and done:
        change_examples(forget=[one.digest for one in gone])
    if asked.as_json:
        records = [asdict(one) for one in gone]
        emit_json({"file": str(user_file()), "forgotten": records, "done": done})
    return 0 if done else 1
