"""``skillsearch list``, ``families`` and ``show``: what there is."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from skillsearch.cli import options
from skillsearch.cli.app import refuse
from skillsearch.cli.options import read_flags, read_settings
from skillsearch.cli.output import emit_json, emit_rows, is_terminal, say, show_rows
from skillsearch.errors import SkillError, SkillSearchError
from skillsearch.index.opening import open_fresh, open_index
from skillsearch.index.roots.scope import scope_of
from skillsearch.settings.config import load_settings
from skillsearch.settings.table import Settings
from skillsearch.skills.resources import list_files, read_file
from skillsearch.text.provenance import body_warning, tag_of
from skillsearch.text.safe_text import counted, one_line, visible
from skillsearch.types.json_values import Json
from skillsearch.types.skills import Root, Skill
from skillsearch.usage.recording import log_of, record_load

if TYPE_CHECKING:
    from skillsearch.index.documents.document import Document
    from skillsearch.skills.chunks import Chunk, ChunkedBody

_ENTRY = ("name", "description", "doc_id", "alias", "root", "path", "hidden", "tags")
_SOURCE = ("trust", "origin")
_OVERVIEW = ("license", "compatibility", "version", "tags", "triggers", "allowed_tools", "requires")


@click.command("list")
@options.selecting
@options.index_dir
@options.header
@options.as_json(lambda: options.models.LIST)
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
@options.as_json(lambda: options.models.FAMILIES)
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
@options.backend
@options.header
@options.as_json(lambda: options.models.SHOW)
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
    as it is now, or from Milvus as it was indexed. An unknown name exits with 1 and suggests
    similar ones.
    """
    parts = {"--body": shows_body, "--files": lists_files, "--file": file, "--chunk": chunk}
    used = [option for option, value in parts.items() if value not in (None, False)]
    refuse(len(used) > 1, f"{' and '.join(used)} ask for different things; use one of them.")
    document, skill, root = _load(name, read_settings())
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


def _load(name: str, settings: Settings) -> tuple[Document, Skill, Root]:
    """Read a skill, and record that as usage."""
    log = log_of(settings, "show")
    if settings.is_remote:
        from skillsearch.remote.opening import open_in_milvus

        with open_in_milvus(settings) as remote:
            document, skill = remote.find(name), remote.get(name)
            record_load(log, remote, document.doc_id, settings.selection)
            return document, skill, remote.root_of(document)
    index = open_fresh(settings, say)
    document = index.find(name, scope_of(settings.selection))
    skill = index.read(document)
    if skill.content_hash != document.content_hash:
        say("note: its SKILL.md has changed since it was indexed")
    record_load(log, index, document.doc_id, settings.selection)
    return document, skill, index.root_of(document)


def _files_of(skill: Skill) -> tuple[tuple[str, ...], bool]:
    """List the files of a skill as `list_files` does; none if its folder is on another machine."""
    folder = skill.path.parent
    return list_files(folder) if folder.exists() else ((), False)


def _record(
    skill: Skill, document: Document, root: Root, body: ChunkedBody, *, with_body: bool
) -> dict[str, Json]:
    """Return the JSON form of a skill as it is now."""
    files, truncated = _files_of(skill)
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
    files, truncated = _files_of(skill)
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
