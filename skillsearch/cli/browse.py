"""``skillsearch list`` and ``skillsearch show``."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import click

from skillsearch.cli.options import Flags, command, index_dir_option, json_option
from skillsearch.cli.output import emit_json, emit_rows, is_terminal, say, show_rows
from skillsearch.config import load_settings
from skillsearch.errors import SkillError, SkillSearchError
from skillsearch.index.opening import open_index
from skillsearch.skills.resources import list_files, read_file
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types import JsonValue, Skill

if TYPE_CHECKING:
    from skillsearch.index.documents import Document
    from skillsearch.skills.chunks import ChunkedBody

_TABLE_CHARS = 400
"""More than fits on a line of any terminal."""
_ENTRY = ("name", "description", "doc_id", "alias", "root", "path", "hidden")
_OVERVIEW = ("license", "compatibility", "version", "tags", "triggers", "allowed_tools", "requires")


@command("list")
@index_dir_option
@json_option
def list_command(flags: Flags, as_json: bool) -> None:
    """List the skills of the index: name, root and description."""
    index = open_index(load_settings(**flags))
    documents = list(index.documents())
    if as_json:
        skills = [_entry(document) for document in documents]
        emit_json({"count": len(skills), "generation": index.generation, "skills": skills})
    elif is_terminal():
        from skillsearch.cli.tables import print_rows

        rows = [(d.name, d.alias, one_line(d.description, _TABLE_CHARS)) for d in documents]
        print_rows(rows, ("name", "root", "description"), is_cut=True)
    else:
        emit_rows((d.name, d.alias, d.description) for d in documents)
    if not documents:
        say("The index holds no skills.")


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
@click.option("--body", "part", flag_value="body", help="Print the body, without its chunks.")
@click.option("--files", "part", flag_value="files", help="Print the names of its files.")
@click.option("--file", metavar="PATH", help="Print one of its files, such as references/a.md.")
@click.option("--chunk", metavar="ID", help="Print one chunk of its body.")
@index_dir_option
@json_option
def show_command(
    flags: Flags,
    name: str,
    part: str | None,
    file: str | None,
    chunk: str | None,
    as_json: bool,
) -> None:
    """Show a skill, or part of it.

    NAME is its name, or ROOT:NAME if several roots have one of that name. It is read from the disk
    as it is now. An unknown name exits with 1 and suggests similar ones.
    """
    parts = {part: part, "file": file, "chunk": chunk}
    asked = [f"--{option}" for option, value in parts.items() if value is not None]
    if len(asked) > 1:
        raise click.UsageError(f"{' and '.join(asked)} ask for different things; use one of them.")
    index = open_index(load_settings(**flags))
    document = index.find(name)
    skill = index.get(document.doc_id if ":" in name else name)
    if skill.content_hash != document.content_hash:
        say("note: its SKILL.md has changed since it was indexed")
    if file is not None:
        _show_file(skill, file, as_json=as_json)
    elif chunk is not None:
        _show_chunk(skill, chunk, as_json=as_json)
    elif as_json:
        emit_json(_record(skill, document, with_body=part == "body"))
    elif part == "body":
        _show_body(skill)
    else:
        _show_overview(skill, document, only_files=part == "files")


def _entry(document: Document) -> dict[str, JsonValue]:
    """Return the JSON form of one line of the list."""
    return {key: getattr(document, key) for key in _ENTRY}


def _record(skill: Skill, document: Document, *, with_body: bool) -> dict[str, JsonValue]:
    """Return the JSON form of a skill."""
    files, truncated = list_files(skill.path.parent)
    body = _parsed(skill)
    record = {
        **_entry(document),
        "name": skill.name,
        "description": skill.description,
        "stale": skill.content_hash != document.content_hash,
        "frontmatter": dict(skill.metadata.frontmatter),
        "files": list(files),
        "files_truncated": truncated,
    }
    if body.chunks:
        record["chunks"] = [
            {"id": each.id, "description": each.description} for each in body.chunks
        ]
    return {**record, "body": body.core} if with_body else record


def _show_body(skill: Skill) -> None:
    """Print the body of a skill, and on stderr the names of its chunks, which are left out."""
    body = _parsed(skill)
    click.echo(visible(body.core))
    if body.chunks:
        ids = ", ".join(chunk.id for chunk in body.chunks)
        say(f"note: the chunks {ids} are left out (--chunk ID prints one, --file SKILL.md all)")


def _show_overview(skill: Skill, document: Document, *, only_files: bool) -> None:
    """Print what a skill is, or only the names of its files."""
    files, truncated = list_files(skill.path.parent)
    if truncated:
        say("note: the skill has more files than can be listed here")
    if only_files:
        emit_rows((file,) for file in files)
        return
    rows = [("name", skill.name), ("description", skill.description)]
    for key in _OVERVIEW:
        if value := getattr(skill.metadata, key):
            text = value if isinstance(value, str) else ", ".join(value)
            rows.append((key.replace("_", "-"), text))
    rows += [("id", document.doc_id), ("path", str(skill.path))]
    rows += [("body", f"{len(skill.body):,} characters (--body prints it)")]
    for chunk in _parsed(skill).chunks:
        rows.append(("chunk", ": ".join(filter(None, (chunk.id, chunk.description)))))
    show_rows(rows + [("file", file) for file in files])


def _show_file(skill: Skill, path: str, *, as_json: bool) -> None:
    """Print one file of a skill; anything but text only as JSON."""
    data = read_file(skill.path.parent, path)
    text = _as_text(data)
    record = {"name": skill.name, "file": path, "bytes": len(data)}
    if as_json and text is not None:
        emit_json({**record, "text": text})
    elif as_json:
        emit_json({**record, "base64": base64.b64encode(data).decode("ascii")})
    elif text is None:
        raise SkillError(
            f"The file {path!r} is not text ({len(data):,} bytes); --json prints it as base64."
        )
    else:
        click.echo(visible(text), nl=not text.endswith("\n"))


def _show_chunk(skill: Skill, chunk_id: str, *, as_json: bool) -> None:
    """Print one chunk of the body."""
    from skillsearch.skills.chunks import find_chunk

    chunk = find_chunk(skill, chunk_id)
    if as_json:
        about = {"chunk": chunk.id, "description": chunk.description}
        emit_json({"name": skill.name, **about, "text": chunk.content})
    else:
        click.echo(visible(chunk.content))


def _parsed(skill: Skill) -> ChunkedBody:
    # `list` parses no skill: the parser and its YAML are imported only here.
    from skillsearch.skills.chunks import parse_chunks

    return parse_chunks(skill.body)


def _as_text(data: bytes) -> str | None:
    """Return the text of a file; None if it is not UTF-8 text."""
    try:
        return None if b"\0" in data else data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
