"""``skillsearch list`` and ``skillsearch show``."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import click

from skillsearch.cli import options
from skillsearch.cli.output import emit_json, emit_rows, say, show_rows
from skillsearch.config import load_settings
from skillsearch.errors import SkillError, SkillSearchError
from skillsearch.index.opening import open_index
from skillsearch.skills.resources import list_files, read_file
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types import JsonValue, Skill

if TYPE_CHECKING:
    from skillsearch.index.documents import Document

_ENTRY = ("name", "description", "doc_id", "alias", "root", "path", "hidden")
_OVERVIEW = ("license", "compatibility", "version", "tags", "triggers", "allowed_tools", "requires")


@options.command("list")
@options.index_dir
@options.as_json
def list_command(asked: options.Asked) -> None:
    """List the skills of the index: name, root and description."""
    index = open_index(asked.settings)
    documents = list(index.documents())
    if asked.as_json:
        skills = [{key: getattr(each, key) for key in _ENTRY} for each in documents]
        emit_json({"count": len(skills), "generation": index.generation, "skills": skills})
    else:
        rows = ((each.name, each.alias, each.description) for each in documents)
        show_rows(rows, ("name", "root", "description"), is_cut=True)
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


@options.command("show")
@click.argument("name", shell_complete=complete_name)
@options.option("--body part", "Print the body, without its chunks.", flag_value="body")
@options.option("--files part", "Print the names of its files.", flag_value="files")
@options.option("--file PATH", "Print one of its files, such as references/a.md.")
@options.option("--chunk ID", "Print one chunk of its body.")
@options.index_dir
@options.as_json
def show_command(asked: options.Asked) -> None:
    """Show a skill, or part of it.

    NAME is its name, or ROOT:NAME if several roots have one of that name. It is read from the disk
    as it is now. An unknown name exits with 1 and suggests similar ones.
    """
    parts = {asked.part: asked.part, "file": asked.file, "chunk": asked.chunk}
    given = [f"--{option}" for option, value in parts.items() if value is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} ask for different things; use one of them.")
    index = open_index(asked.settings)
    document = index.find(asked.name)
    skill = index.get(document.doc_id if ":" in asked.name else asked.name)
    if skill.content_hash != document.content_hash:
        say("note: its SKILL.md has changed since it was indexed")
    if asked.file is not None or asked.chunk is not None:
        _show_part(skill, asked)
    else:
        _show_skill(skill, document, asked)


def _show_part(skill: Skill, asked: options.Asked) -> None:
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
        click.echo(visible(record["text"]), nl=not record["text"].endswith("\n"))
    else:
        raise SkillError(
            f"The file {asked.file!r} is not text ({record['bytes']:,} bytes); --json prints it "
            "as base64."
        )


def _show_skill(skill: Skill, document: Document, asked: options.Asked) -> None:
    # `list` parses no skill: the parser and its YAML are imported only here.
    from skillsearch.skills.chunks import parse_chunks

    files, truncated = list_files(skill.path.parent)
    body = parse_chunks(skill.body)
    if asked.as_json:
        record = {
            **{key: getattr(document, key) for key in _ENTRY},
            "name": skill.name,
            "description": skill.description,
            "stale": skill.content_hash != document.content_hash,
            "frontmatter": dict(skill.metadata.frontmatter),
            "files": list(files),
            "files_truncated": truncated,
        }
        if body.chunks:
            record["chunks"] = [{"id": c.id, "description": c.description} for c in body.chunks]
        emit_json({**record, "body": body.core} if asked.part == "body" else record)
        return
    if asked.part == "body":
        click.echo(visible(body.core))
        if body.chunks:
            ids = ", ".join(chunk.id for chunk in body.chunks)
            say(f"note: the chunks {ids} are left out (--chunk ID prints one, --file SKILL.md all)")
        return
    if truncated:
        say("note: the skill has more files than can be listed here")
    if asked.part == "files":
        emit_rows((file,) for file in files)
        return
    rows = [("name", skill.name), ("description", skill.description)]
    for key in _OVERVIEW:
        if value := getattr(skill.metadata, key):
            text = value if isinstance(value, str) else ", ".join(value)
            rows.append((key.replace("_", "-"), text))
    rows += [("id", document.doc_id), ("path", str(skill.path))]
    rows += [("body", f"{len(skill.body):,} characters (--body prints it)")]
    for chunk in body.chunks:
        rows.append(("chunk", ": ".join(filter(None, (chunk.id, chunk.description)))))
    show_rows(rows + [("file", file) for file in files])
