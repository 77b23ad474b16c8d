"""``skillsearch list``, ``families``, ``show`` and ``budget``: what there is, and what it costs."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from skillsearch.cli import app
from skillsearch.cli.app import Asked, command, option, refuse, repeatable
from skillsearch.cli.output import (
    describe,
    emit_json,
    emit_rows,
    is_terminal,
    progress_bars,
    say,
    show_rows,
)
from skillsearch.cli.selecting import selecting
from skillsearch.config import load_settings
from skillsearch.errors import SkillError, SkillSearchError
from skillsearch.hosts.table import library_folder, with_key
from skillsearch.index.opening import open_fresh, open_index
from skillsearch.index.scope import scope_of
from skillsearch.rendering.blocks import plain, shown
from skillsearch.skills.resources import list_files, read_file
from skillsearch.text.provenance import body_warning, tag_of
from skillsearch.text.safe_text import counted, listed, one_line, visible
from skillsearch.types import Diagnostic, JsonValue, Root, Skill, SkillFile

if TYPE_CHECKING:
    from skillsearch.budget.costs import BudgetReport
    from skillsearch.index.documents import Document
    from skillsearch.skills.chunks import Chunk

_ENTRY = ("name", "description", "doc_id", "alias", "root", "path", "hidden", "tags")
_SOURCE = ("trust", "origin")
_OVERVIEW = ("license", "compatibility", "version", "tags", "triggers", "allowed_tools", "requires")
WINDOW = 200_000
HOSTS = tuple(with_key("listing"))
"""Hosts whose listing is measured."""

_SHOWN = 20


@command("list")
@selecting
@app.index_dir
@app.header
@app.as_json
def list_command(asked: Asked) -> None:
    """List the skills of the index: name, root and description."""
    index = open_fresh(asked.settings, say)
    documents = list(index.documents(asked.settings.selection))
    roots = {str(root.path): root for root in index.opened.settings.roots}
    if asked.as_json:
        skills = [_entry(each, roots[each.root]) for each in documents]
        emit_json({"count": len(skills), "generation": index.generation, "skills": skills})
    else:
        tags = {path: tag_of(root.trust) for path, root in roots.items()}
        form = "{1} {0}" if is_terminal() else "{0} {1}"  # an alias may be cut there, not its tag
        rows = (
            (index.handle(each), form.format(each.alias, tags[each.root]).strip(), each.description)
            for each in documents
        )
        columns = ("name", "alias", "description")
        show_rows(rows, ("name", "root", "description"), is_cut=True, columns=columns)
    seen = len(list(index.documents(scope_of(asked.settings.selection))))
    if elsewhere := len(index) - seen:
        said = "of other projects or paths left out; to see all: --all-projects"
        say(f"note: {counted(elsewhere, 'skill')} {said}")
    if left_out := seen - len(documents):
        say(f"note: {counted(left_out, 'more skill')} left out by options or settings")
    if not documents:
        say("The index holds no skills.")


@command("families")
@app.index_dir
@app.header
@app.as_json
def families_command(asked: Asked) -> None:
    """List the families of near-copies, the largest first.

    A family takes one place of an answer. Its first skill stands for the others; what differs from
    it is said of each: name, description or body.
    """
    index = open_fresh(asked.settings, say)
    found = [(first, index.family(first, others)) for first, *others in index.families()]
    if asked.as_json:
        keys = ("name", "doc_id", "path", "root")
        records = [
            {key: getattr(first, key) for key in keys} | family.to_dict() for first, family in found
        ]
        emit_json({"count": len(found), "generation": index.generation, "families": records})
    else:
        rows = [
            [index.handle(first), first.alias, str(family), family.told] for first, family in found
        ]
        if is_terminal():
            rows = [[*row[:2], ": ".join(row[2:])] for row in rows]
        columns = ("name", "alias", "family", "members")
        show_rows(rows, ("name", "root", "family"), is_cut=True, columns=columns)
    if not found:
        say("The index holds no near-copies.")


def _entry(document: Document, root: Root) -> dict[str, JsonValue]:
    entry = {key: getattr(document, key) for key in _ENTRY}
    return entry | {key: getattr(root, key) for key in _SOURCE}


def complete_name(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return indexed names that complete a word in a shell; none if there is no index."""
    try:
        index = open_index(load_settings(index_dir=context.params.get("index_dir")))
    except SkillSearchError:
        return []
    names = {one_line(document.name) for document in index.documents()}
    return sorted(name for name in names if name.startswith(incomplete))


@command("show")
@click.argument("name", shell_complete=complete_name)
@option("--body part", "Print the body, without its chunks.", flag_value="body")
@option("--files part", "Print the names of its files.", flag_value="files")
@option("--file PATH", "Print one of its files, such as references/a.md.")
@option("--chunk ID", "Print one chunk of its body.")
@app.all_projects
@app.index_dir
@app.header
@app.as_json
def show_command(asked: Asked) -> None:
    """Show a skill, or part of it.

    NAME is its name, or ROOT:NAME if several roots have one of that name. It is read from the disk
    as it is now. An unknown name exits with 1 and suggests similar ones.
    """
    parts = {asked.part: asked.part, "file": asked.file, "chunk": asked.chunk}
    given = [f"--{option}" for option, value in parts.items() if value is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} ask for different things; use one of them.")
    index = open_fresh(asked.settings, say)
    document = index.find(asked.name, scope_of(asked.settings.selection))
    skill = index.read(document)
    if skill.content_hash != document.content_hash:
        say("note: its SKILL.md has changed since it was indexed")
    root = index.root_of(document)
    if asked.file is not None or asked.chunk is not None:
        _show_part(skill, root, asked)
    else:
        _show_skill(skill, document, root, asked)


def _show_part(skill: Skill, root: Root, asked: Asked) -> None:
    from skillsearch.skills.chunks import find_chunk

    record: dict[str, JsonValue] = {"name": skill.name}
    if asked.file is None:
        chunk = find_chunk(skill, asked.chunk)
        record |= {"chunk": chunk.id, "description": chunk.description, "text": chunk.content}
    else:
        data = read_file(skill.path.parent, asked.file)
        record |= {"file": asked.file, "bytes": len(data)}
        try:
            text = None if b"\0" in data else data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = None
        encoded = base64.b64encode(data).decode("ascii")
        record |= {"base64": encoded} if text is None else {"text": text}
    if asked.as_json:
        emit_json(record)
    elif "text" in record:
        say(body_warning(root.trust, root.origin))
        click.echo(visible(record["text"]), nl=not record["text"].endswith("\n"))
    else:
        size = counted(record["bytes"], "byte")
        raise SkillError(
            f"The file {asked.file!r} is not text ({size}); --json prints it as base64."
        )


def _show_skill(skill: Skill, document: Document, root: Root, asked: Asked) -> None:
    # `list` parses no skill: the parser and its YAML are imported only here.
    from skillsearch.skills.chunks import parse_chunks

    files, truncated = list_files(skill.path.parent)
    body = parse_chunks(skill.body)
    if asked.as_json:
        record = {
            **_entry(document, root),
            "name": skill.name,
            "description": skill.description,
            "stale": skill.content_hash != document.content_hash,
            "frontmatter": dict(skill.metadata.frontmatter),
            "examples": [one._asdict() for one in document.examples],
            "files": list(files),
            "files_truncated": truncated,
        }
        if body.chunks:
            record["chunks"] = [{"id": c.id, "description": c.description} for c in body.chunks]
        emit_json({**record, "body": body.core} if asked.part == "body" else record)
    elif asked.part == "body":
        say(body_warning(root.trust, root.origin))
        click.echo(visible(body.core))
        if body.chunks:
            ids = ", ".join(chunk.id for chunk in body.chunks)
            say(f"note: the chunks {ids} are left out (--chunk ID prints one, --file SKILL.md all)")
    else:
        say("note: the skill has more files than can be listed here" if truncated else "")
        if asked.part == "files":
            emit_rows(zip(files), ("file",))
        else:
            rows = _skill_rows(skill, document, root, body.chunks)
            show_rows(rows + [("file", file) for file in files], columns=("key", "value"))


def _skill_rows(
    skill: Skill, document: Document, root: Root, chunks: Sequence[Chunk]
) -> list[tuple[str, str]]:
    rows = [("name", skill.name), ("description", skill.description)]
    for key in _OVERVIEW:
        if value := getattr(skill.metadata, key):
            text = value if isinstance(value, str) else ", ".join(value)
            rows.append((key.replace("_", "-"), text))
    rows += [("id", document.doc_id), ("path", str(skill.path)), ("trust", root.trust)]
    rows += [("origin", root.origin)] if root.origin else []
    rows += [(f"example ({one.source})", one.text) for one in document.examples]
    rows += [("body", f"{counted(len(skill.body), 'character')} (--body prints it)")]
    return rows + [("chunk", ": ".join(filter(None, (c.id, c.description)))) for c in chunks]


@command("budget")
@app.roots(must_exist=True)
@app.index_dir
@option(
    "--context TOKENS",
    "Context window of the model; 0 if unknown.",
    type=app.Count(0),
    default=WINDOW,
    show_default=True,
)
@repeatable("--host hosts", "Only this host. Repeatable.", type=app.Choice(HOSTS))
@app.all_projects
@app.as_json
def budget_command(asked: Asked) -> None:
    """Measure what skills cost in a prompt.

    It also shows what hosts would cut from their listing. The skills are those below each ROOT,
    without an index, or those of the index.

    Levels: the overview is name and description of each skill that is not hidden, one a line;
    bodies are all SKILL.md files without frontmatter; all is bodies and .md and .txt documents.
    A search costs the overview of its hits and one body instead.

    Claims are the token savings that progressive loading promises. metadata: the overview instead
    of all bodies and documents saves 90 %. start: the overview is at most 20 % of all bodies. on
    demand: the overview and one body instead of all bodies saves 80 %. relevant: the overview of
    the hits instead of all saves 70 %. format: plain lines, long descriptions cut, not XML with
    locations save 50 %.

    Hosts list a skill whole, with a shortened description, by name only, or not at all. If a host
    orders skills by use, the order of the roots and then of names is used instead.

    Characters are exact. Tokens are counted by the packaged tokenizer, except for Codex, which
    counts 4 bytes as one; the tokenizer of another model differs by some tens of percent.
    """
    refuse(
        asked.roots and asked.flags["index_dir"] is not None,
        "ROOT and --index-dir name different skills; use one of them.",
    )
    from skillsearch.budget.costs import measure, report_budget
    from skillsearch.embedders.embedder import COUNTED_BY, TokenCounter

    settings = asked.settings
    sources, problems = _sources(asked)
    with progress_bars() as progress:
        skills, more = measure(sources, TokenCounter.load(), progress)
    hosts = asked.hosts or HOSTS
    report = report_budget(skills, n=settings.n, window=asked.context or None, hosts=hosts)
    problems = (*problems, *more)
    if asked.as_json:
        found = [item.to_dict() for item in problems]
        emit_json({**report.to_dict(), "counted_by": COUNTED_BY, "diagnostics": found})
    elif not skills:
        say("There are no skills to measure.")
    else:
        say(report.headline())
        _show_budget(report)
    if problems:
        _show_unmeasured(problems)


def _sources(asked: Asked) -> tuple[list[SkillFile], tuple[Diagnostic, ...]]:
    from skillsearch.budget.costs import sources_of_index, sources_of_roots
    from skillsearch.roots.bundles import local_roots

    if asked.roots:
        return sources_of_roots(local_roots(asked.roots)[0])
    index = open_index(asked.settings)
    sources = sources_of_index(index, scope_of(asked.settings.selection))
    library = library_folder().resolve()
    listed = [source for source in sources if source.root.path != library]
    if away := len(sources) - len(listed):
        say(f"note: {counted(away, 'skill')} of your library: found by search, listed by no host")
    return listed, ()


def _show_unmeasured(problems: Sequence[Diagnostic]) -> None:
    for item in problems[:_SHOWN]:
        say(describe(item))
    if len(problems) > _SHOWN:
        say(f"and {len(problems) - _SHOWN:,} more (--json lists all)")
    unread = sum(item.severity == "error" for item in problems)
    say(f"not measured: skills or folders: {unread:,}, documents: {len(problems) - unread:,}")


def _show_budget(report: BudgetReport) -> None:
    from skillsearch.budget.tables import claims, levels, listings
    from skillsearch.embedders.embedder import COUNTED_BY

    tables = levels(report), claims(report), listings(report)
    cuts = [
        (listing.host, fate, names)
        for listing in report.listings
        for fate, names in listing.fates.items()
        if names and fate != "whole"
    ]
    if is_terminal():
        for table in tables:
            show_rows([tuple(map(shown, row)) for row in table.rows], table.heads)
            click.echo()
        cut_rows = [(host, fate, listed(names, _SHOWN)) for host, fate, names in cuts]
        show_rows(cut_rows, ("host", "fate", "skills"))
    else:
        for table in tables:
            emit_rows((table.heads[0], *map(plain, row)) for row in table.rows)
        emit_rows(("cut", host, fate, *names) for host, fate, names in cuts)
    say(f"tokens are counted by {COUNTED_BY}; another model's differ by some tens of percent")
    for listing in (listing for listing in report.listings if listing.is_over):
        say(f"assuming that {listing.host} fills its listing by {listing.order}")
