"""``skillsearch list`` and ``skillsearch show``."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli.opening import open_index
from skillsearch.cli.options import command, index_dir_option, json_option
from skillsearch.cli.output import emit_json, emit_rows, is_terminal, say
from skillsearch.config import load_settings
from skillsearch.errors import SkillError, SkillSearchError
from skillsearch.skills.listing import list_files
from skillsearch.skills.resources import read_file
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types import JsonValue, Skill

if TYPE_CHECKING:
    from skillsearch.index.documents import Document
    from skillsearch.skills.chunks import ChunkedBody

_TABLE_CHARS = 400
"""More than fits on a line of any terminal."""
_OVERVIEW = ("license", "compatibility", "version", "tags", "triggers", "allowed_tools", "requires")


@command("list")
@index_dir_option
@json_option
def list_command(index_dir: Path | None, as_json: bool) -> None:
    """List the skills of the index: name, root and description."""
    index = open_index(load_settings(index_dir=index_dir))
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
        say("The index holds no skill.")


def complete_name(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Offer the names of the indexed skills to the shell; nothing where there is no index."""
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
    name: str,
    part: str | None,
    file: str | None,
    chunk: str | None,
    index_dir: Path | None,
    as_json: bool,
) -> None:
    """Show the skill called NAME (ROOT:NAME where several roots have it).

    It is read from the disk as it is now. An unknown name exits with 1 and names the nearest.
    """
    parts = {part: part, "file": file, "chunk": chunk}
    asked = [f"--{option}" for option, value in parts.items() if value is not None]
    if len(asked) > 1:
        raise click.UsageError(f"{' and '.join(asked)} ask for different things; use one of them.")
    index = open_index(load_settings(index_dir=index_dir))
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
    return {
        "name": document.name,
        "description": document.description,
        "doc_id": document.doc_id,
        "alias": document.alias,
        "root": document.root,
        "path": document.path,
        "hidden": document.hidden,
    }


def _record(skill: Skill, document: Document, *, with_body: bool) -> dict[str, JsonValue]:
    """Return the JSON form of a skill."""
    files, truncated = list_files(skill.path.parent)
    record = {
        **_entry(document),
        "name": skill.name,
        "description": skill.description,
        "stale": skill.content_hash != document.content_hash,
        "frontmatter": dict(skill.metadata.frontmatter),
        "files": list(files),
        "files_truncated": truncated,
    }
    if chunks := _parsed(skill).chunks:
        record["chunks"] = [{"id": each.id, "description": each.description} for each in chunks]
    return {**record, "body": _parsed(skill).core} if with_body else record


def _show_body(skill: Skill) -> None:
    """Print the body of a skill without its chunks, which are named on stderr."""
    body = _parsed(skill)
    click.echo(visible(body.core))
    if body.chunks:
        ids = ", ".join(chunk.id for chunk in body.chunks)
        say(f"note: left out are the chunks {ids} (--chunk ID prints one, --file SKILL.md all)")


def _show_overview(skill: Skill, document: Document, *, only_files: bool) -> None:
    """Print what a skill is, or only which files it has."""
    files, truncated = list_files(skill.path.parent)
    if truncated:
        say("note: the skill has more files than can be listed here")
    if only_files:
        emit_rows((file,) for file in files)
        return
    rows = [("name", skill.name), ("description", skill.description)]
    values = ((key, getattr(skill.metadata, key)) for key in _OVERVIEW)
    rows += [
        (k.replace("_", "-"), v if isinstance(v, str) else ", ".join(v)) for k, v in values if v
    ]
    rows += [("id", document.doc_id), ("path", str(skill.path))]
    rows += [("body", f"{len(skill.body):,} characters (--body prints it)")]
    rows += [
        ("chunk", ": ".join(filter(None, (each.id, each.description))))
        for each in _parsed(skill).chunks
    ]
    rows += [("file", file) for file in files]
    if is_terminal():
        from skillsearch.cli.tables import print_rows

        print_rows(rows)
    else:
        emit_rows(rows)


def _show_file(skill: Skill, path: str, *, as_json: bool) -> None:
    """Print one file of a skill; refuse one that is no text, save as JSON."""
    data = read_file(skill.path.parent, path)
    text = _as_text(data)
    record = {"name": skill.name, "file": path, "bytes": len(data)}
    if as_json and text is not None:
        emit_json({**record, "text": text})
    elif as_json:
        emit_json({**record, "base64": base64.b64encode(data).decode("ascii")})
    elif text is None:
        raise SkillError(
            f"The file {path!r} is no text ({len(data):,} bytes); --json prints it as base64."
        )
    else:
        click.echo(visible(text), nl=not text.endswith("\n"))


def _parsed(skill: Skill) -> ChunkedBody:
    """Take the chunks out of the body."""
    # `list` parses no skill: the parser and its YAML are imported only here.
    from skillsearch.skills.chunks import parse_chunks

    return parse_chunks(skill.body)


def _show_chunk(skill: Skill, chunk_id: str, *, as_json: bool) -> None:
    """Print one chunk of the body."""
    from skillsearch.skills.chunks import find_chunk

    chunk = find_chunk(skill, chunk_id)
    if as_json:
        about = {"chunk": chunk.id, "description": chunk.description}
        emit_json({"name": skill.name, **about, "text": chunk.content})
    else:
        click.echo(visible(chunk.content))


def _as_text(data: bytes) -> str | None:
    """Decode a text; None for anything else."""
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
