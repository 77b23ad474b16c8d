"""``skillsearch list``, ``families``, ``show`` and ``budget``: what there is, and what it costs."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from skillsearch.cli import options
from skillsearch.cli.app import refuse
from skillsearch.cli.options import NamedRoot, read_flags, read_settings
from skillsearch.cli.output import (
    describe,
    emit_json,
    emit_rows,
    is_terminal,
    progress_bars,
    say,
    show_rows,
)
from skillsearch.config import Settings, load_settings
from skillsearch.errors import SkillError, SkillSearchError
from skillsearch.hosts.table import library_folder, with_key
from skillsearch.index.opening import open_fresh, open_index
from skillsearch.index.scope import scope_of
from skillsearch.rendering.blocks import plain, shown
from skillsearch.skills.resources import list_files, read_file
from skillsearch.text.provenance import body_warning, tag_of
from skillsearch.text.safe_text import counted, listed, one_line, visible
from skillsearch.types import Diagnostic, Json, Root, Skill, SkillFile
from skillsearch.usage.recording import log_of, record_load

if TYPE_CHECKING:
    from skillsearch.budget.costs import BudgetReport
    from skillsearch.index.documents import Document
    from skillsearch.skills.chunks import Chunk, ChunkedBody

_ENTRY = ("name", "description", "doc_id", "alias", "root", "path", "hidden", "tags")
_SOURCE = ("trust", "origin")
_OVERVIEW = ("license", "compatibility", "version", "tags", "triggers", "allowed_tools", "requires")
WINDOW = 200_000
HOSTS = tuple(with_key("listing"))
"""Hosts whose listing is measured."""

_SHOWN = 20


@click.command("list")
@options.selecting
@options.index_dir
@options.header
@options.as_json(lambda m: m.COUNTED | {"skills": [m.ENTRY]})
def list_command(as_json: bool) -> None:
    """List the skills of the index: name, root and description."""
    settings = read_settings()
    index = open_fresh(settings, say)
    documents = list(index.documents(settings.selection))
    roots = {str(root.path): root for root in index.opened.settings.roots}
    if as_json:
        skills = [_entry(document, roots[document.root]) for document in documents]
        emit_json({"count": len(skills), "generation": index.generation, "skills": skills})
    else:
        form = "{1} {0}" if is_terminal() else "{0} {1}"  # an alias may be cut there, not its tag
        rows = [
            (
                index.handle(document),
                form.format(document.alias, tag_of(roots[document.root].trust)).strip(),
                document.description,
            )
            for document in documents
        ]
        columns = ("name", "alias", "description")
        show_rows(rows, ("name", "root", "description"), is_cut=True, columns=columns)
    _say_left_out(len(index), len(list(index.documents(scope_of(settings.selection)))), documents)


def _say_left_out(all_skills: int, seen: int, documents: Sequence[Document]) -> None:
    if elsewhere := all_skills - seen:
        reason = "of other projects or paths left out; to see all: --all-projects"
        say(f"note: {counted(elsewhere, 'skill')} {reason}")
    if left_out := seen - len(documents):
        say(f"note: {counted(left_out, 'more skill')} left out by options or settings")
    if not documents:
        say("The index holds no skills.")


@click.command("families")
@options.index_dir
@options.header
@options.as_json(lambda m: m.COUNTED | {"families": [m.FIRST | m.some(m.types.Family)]})
def families_command(as_json: bool) -> None:
    """List the families of near-copies, the largest first.

    A family takes one place of an answer. Its first skill stands for the others; what differs from
    it is said of each: name, description or body.
    """
    index = open_fresh(read_settings(), say)
    families = [(first, index.family(first, others)) for first, *others in index.families()]
    if as_json:
        keys = ("name", "doc_id", "path", "root")
        records = [
            {key: getattr(first, key) for key in keys} | family.to_dict()
            for first, family in families
        ]
        emit_json({"count": len(families), "generation": index.generation, "families": records})
    else:
        rows = [
            [index.handle(first), first.alias, str(family), family.names]
            for first, family in families
        ]
        if is_terminal():
            rows = [[*row[:2], ": ".join(row[2:])] for row in rows]
        columns = ("name", "alias", "family", "members")
        show_rows(rows, ("name", "root", "family"), is_cut=True, columns=columns)
    if not families:
        say("The index holds no near-copies.")


def _entry(document: Document, root: Root) -> dict[str, Json]:
    entry: dict[str, Json] = {key: getattr(document, key) for key in _ENTRY}
    return entry | {key: getattr(root, key) for key in _SOURCE}


def complete_name(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return indexed names that complete a word in a shell; none if there is no index."""
    try:
        index = open_index(load_settings(**read_flags(context)))
    except SkillSearchError:
        return []
    names = {one_line(document.name) for document in index.documents()}
    return sorted(name for name in names if name.startswith(incomplete))


@click.command("show")
@click.argument("name", shell_complete=complete_name)
@click.option("--body", "shows_body", is_flag=True, help="Print the body, without its chunks.")
@click.option("--files", "lists_files", is_flag=True, help="Print the names of its files.")
@click.option("--file", metavar="PATH", help="Print one of its files, such as references/a.md.")
@click.option("--chunk", metavar="ID", help="Print one chunk of its body.")
@options.all_projects
@options.index_dir
@options.header
@options.as_json(lambda m: m.SHOW)
def show_command(
    name: str,
    shows_body: bool,
    lists_files: bool,
    file: str | None,
    chunk: str | None,
    as_json: bool,
) -> None:
    """Show a skill, or part of it.

    NAME is its name, or ROOT:NAME if several roots have one of that name. It is read from the disk
    as it is now. An unknown name exits with 1 and suggests similar ones.
    """
    _check_parts({"--body": shows_body, "--files": lists_files, "--file": file, "--chunk": chunk})
    settings = read_settings()
    index = open_fresh(settings, say)
    document = index.find(name, scope_of(settings.selection))
    skill = index.read(document)
    if skill.content_hash != document.content_hash:
        say("note: its SKILL.md has changed since it was indexed")
    root = index.root_of(document)
    record_load(log_of(settings), index, document.doc_id, "show", settings.selection)
    # `list` parses no skill: the parser and its YAML are imported only to show one.
    from skillsearch.skills.chunks import parse_chunks

    if chunk is not None:
        _show_chunk(skill, chunk, root, as_json=as_json)
    elif file is not None:
        _show_file(skill, file, root, as_json=as_json)
    else:
        body = parse_chunks(skill.body)
        if as_json:
            emit_json(_record(skill, document, root, body, with_body=shows_body))
        elif shows_body:
            _show_body(body, root)
        else:
            rows = None if lists_files else _skill_rows(skill, document, root, body.chunks)
            _show_with_files(skill, rows)


def _check_parts(parts: Mapping[str, str | bool | None]) -> None:
    """Refuse options that each ask for another part of a skill."""
    used = [option for option, value in parts.items() if value not in (None, False)]
    refuse(len(used) > 1, f"{' and '.join(used)} ask for different things; use one of them.")


def _record(
    skill: Skill, document: Document, root: Root, body: ChunkedBody, *, with_body: bool
) -> dict[str, Json]:
    """Return the JSON form of a skill as it is now."""
    files, truncated = list_files(skill.path.parent)
    record: dict[str, Json] = {
        **_entry(document, root),
        "name": skill.name,
        "description": skill.description,
        "stale": skill.content_hash != document.content_hash,
        "frontmatter": dict(skill.metadata.frontmatter),
        "examples": [example._asdict() for example in document.examples],
        "files": list(files),
        "files_truncated": truncated,
    }
    if body.chunks:
        record["chunks"] = [{"id": c.id, "description": c.description} for c in body.chunks]
    if with_body:
        record["body"] = body.core
    return record


def _show_with_files(skill: Skill, rows: list[tuple[str, str]] | None) -> None:
    """Show rows about a skill and its files; without rows the names of the files alone."""
    files, truncated = list_files(skill.path.parent)
    say("note: the skill has more files than can be listed here" if truncated else "")
    if rows is None:
        emit_rows(zip(files), ("file",))
    else:
        show_rows(rows + [("file", path) for path in files], columns=("key", "value"))


def _show_body(body: ChunkedBody, root: Root) -> None:
    say(body_warning(root.trust, root.origin))
    click.echo(visible(body.core))
    if body.chunks:
        ids = ", ".join(text_chunk.id for text_chunk in body.chunks)
        say(f"note: the chunks {ids} are left out (--chunk ID prints one, --file SKILL.md all)")


def _show_chunk(skill: Skill, chunk_id: str, root: Root, *, as_json: bool) -> None:
    from skillsearch.skills.chunks import find_chunk

    chunk = find_chunk(skill, chunk_id)
    head = {"name": skill.name, "chunk": chunk.id, "description": chunk.description}
    _show_text(head, chunk.content, root, as_json=as_json)


def _show_text(record: Mapping[str, Json], text: str, root: Root, *, as_json: bool) -> None:
    if as_json:
        emit_json({**record, "text": text})
    else:
        say(body_warning(root.trust, root.origin))
        click.echo(visible(text), nl=not text.endswith("\n"))


def _show_file(skill: Skill, file: str, root: Root, *, as_json: bool) -> None:
    data = read_file(skill.path.parent, file)
    record: dict[str, Json] = {"name": skill.name, "file": file, "bytes": len(data)}
    with suppress(UnicodeDecodeError):
        if b"\0" not in data:
            _show_text(record, data.decode("utf-8-sig"), root, as_json=as_json)
            return
    if not as_json:
        size = counted(len(data), "byte")
        raise SkillError(f"The file {file!r} is not text ({size}); --json prints it as base64.")
    emit_json({**record, "base64": base64.b64encode(data).decode("ascii")})


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
    rows += [(f"example ({example.source})", example.text) for example in document.examples]
    rows += [("body", f"{counted(len(skill.body), 'character')} (--body prints it)")]
    return rows + [("chunk", ": ".join(filter(None, (c.id, c.description)))) for c in chunks]


@click.command("budget")
@options.roots(must_exist=True)
@options.index_dir
@click.option(
    "--context",
    "window",
    type=options.Count(0),
    metavar="TOKENS",
    default=WINDOW,
    show_default=True,
    help="Context window of the model; 0 if unknown.",
)
@click.option(
    "--host", "hosts", multiple=True, type=options.Choice(HOSTS), help="Only this host. Repeatable."
)
@options.all_projects
@options.as_json(lambda m: m.BUDGET | {"diagnostics": [m.Diagnostic]})
def budget_command(
    roots: tuple[NamedRoot, ...], window: int, hosts: tuple[str, ...], as_json: bool
) -> None:
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
        roots and read_flags()["index_dir"],
        "ROOT and --index-dir name different skills; use one of them.",
    )
    from skillsearch.budget.costs import measure, report_budget
    from skillsearch.embedders.embedder import COUNTED_BY, TokenCounter

    settings = read_settings()
    sources, problems = _sources(roots, settings)
    with progress_bars() as progress:
        skills, more = measure(sources, TokenCounter.load(), progress)
    report = report_budget(skills, n=settings.n, window=window or None, hosts=hosts or HOSTS)
    problems = (*problems, *more)
    if as_json:
        diagnostics = [item.to_dict() for item in problems]
        emit_json({**report.to_dict(), "counted_by": COUNTED_BY, "diagnostics": diagnostics})
    elif not skills:
        say("There are no skills to measure.")
    else:
        say(report.headline())
        _show_budget(report)
    if problems:
        _show_unmeasured(problems)


def _sources(
    roots: Sequence[NamedRoot], settings: Settings
) -> tuple[list[SkillFile], tuple[Diagnostic, ...]]:
    from skillsearch.budget.costs import sources_of_index, sources_of_roots
    from skillsearch.roots.bundles import local_roots

    if roots:
        return sources_of_roots(local_roots(roots)[0])
    sources = sources_of_index(open_index(settings), scope_of(settings.selection))
    library = library_folder().resolve()
    listed_by_hosts = [source for source in sources if source.root.path != library]
    if away := len(sources) - len(listed_by_hosts):
        say(f"note: {counted(away, 'skill')} of your library: found by search, listed by no host")
    return listed_by_hosts, ()


def _show_unmeasured(problems: Sequence[Diagnostic]) -> None:
    for item in problems[:_SHOWN]:
        say(describe(item))
    if len(problems) > _SHOWN:
        say(f"and {len(problems) - _SHOWN:,} more (--json lists all)")
    unread = sum(item.severity == "error" for item in problems)
    say(f"not measured: skills or folders: {unread:,}, documents: {len(problems) - unread:,}")


def _show_budget(report: BudgetReport) -> None:
    from skillsearch.budget.tables import claims, cut_skills, levels, listings
    from skillsearch.embedders.embedder import COUNTED_BY

    tables = levels(report), claims(report), listings(report)
    cuts = list(cut_skills(report))
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
