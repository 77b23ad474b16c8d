"""The results of the default tools as text, for hosts that show text and not objects."""

from __future__ import annotations

from skillsearch.agents.prompt import overview_line, render_body, render_chunks
from skillsearch.text.provenance import body_warning
from skillsearch.text.safe_text import counted, one_line, visible
from skillsearch.text.states import note_for_model
from skillsearch.types.json_values import (
    JsonObject,
    checked,
    choice_of,
    objects_of,
    text_of,
    texts_of,
)
from skillsearch.types.skills import TRUSTS

_Record = JsonObject


def search_text(record: _Record) -> str:
    """Write a line for each skill, those that may fit below a line that says so; the note last."""
    fits, perhaps = (list(map(_hit_line, objects_of(record[key]))) for key in ("skills", "perhaps"))
    lines = list(fits)
    note = text_of(record.get("note", ""))
    if perhaps:
        head = note_for_model(fits=bool(fits), perhaps=True)
        lines += [head, *perhaps]
        note = note if note != head else ""
    return "\n".join(filter(None, [*lines, *texts_of(record.get("left_out", [])), note]))


def _hit_line(hit: _Record) -> str:
    chunk = f" [chunk {one_line(text_of(hit['chunk']))}]" if "chunk" in hit else ""
    return overview_line(hit, f"({hit['score']:.2f})") + chunk


def body_text(record: _Record) -> str:
    """Write a body so that nothing in it can pass for a line of ours, and what else to know."""
    trust = choice_of(record.get("trust", "vetted"), TRUSTS)
    body = render_body(
        text_of(record["name"]),
        text_of(record["body"]),
        directory=text_of(record["directory"]),
        files=texts_of(record["files"]),
        files_truncated=bool(record["files_truncated"]),
        note=body_warning(trust, text_of(record.get("origin", ""))),
    )
    lines = [body]
    if requires := texts_of(record.get("requires", [])):
        lines.append(f"Needs these skills too: {', '.join(requires)}")
    chunks = [
        (text_of(chunk["id"]), text_of(chunk["description"]))
        for chunk in objects_of(record.get("chunks", []))
    ]
    left_out = texts_of(record.get("left_out", []))
    return "\n".join(filter(None, [*lines, render_chunks(chunks), *left_out]))


def page_text(record: _Record) -> str:
    """Write a page of a file, after a head if it is not a whole text."""
    is_text, offset, then = record["encoding"] == "text", record["offset"], record["next_offset"]
    content = text_of(record["content"])
    content = visible(content) if is_text else content
    if is_text and offset == 0 and then is None:
        return content
    form = "" if is_text else ", as base64"
    next_step = "the end" if then is None else f"next: {then}"
    return f"[from byte {offset} of {record['size']}{form}; {next_step}]\n{content}"


def list_text(record: _Record) -> str:
    """Write a line for each skill of a page, and how to go on."""
    lines = list(map(overview_line, objects_of(record["skills"])))
    if record["next_cursor"] is not None:
        cursor = one_line(text_of(record["next_cursor"]))
        lines.append(f"[{record['total']} skills; next_cursor: {cursor}]")
    return "\n".join(lines) or "There are no skills."


def run_text(record: _Record) -> str:
    """Write the result of a command, with a line in brackets before each part of its output."""
    ended = "timed out" if record["timed_out"] else f"exit code {record['exit_code']}"
    lines = [f"[{ended}, {record['duration_ms']} ms, executor {record['executor']}]"]
    stdout, stderr = (visible(text_of(record[name])) for name in ("stdout", "stderr"))
    lines += [stdout] if stdout else []
    lines += ["[stderr]", stderr] if stderr else []
    for file in objects_of(record["output_files"]):
        cut = ", cut" if file["truncated"] else ""
        about = f"{file['mime_type']}, {counted(checked(file['size_bytes'], int), 'byte')}{cut}"
        lines.append(f"[file {one_line(text_of(file['name']))}: {about}]")
        lines += [visible(text_of(file["content"]))] if "content" in file else []
    lines += [f"[warning: {one_line(warning)}]" for warning in texts_of(record.get("warnings", []))]
    return "\n".join(lines)
