"""The results of the default tools as text, for hosts that show text and not objects."""

from __future__ import annotations

from skillsearch.agents.prompt import overview_line, render_body, render_chunks
from skillsearch.text.provenance import body_warning
from skillsearch.text.safe_text import counted, one_line, visible
from skillsearch.text.states import note_for_model
from skillsearch.types import JsonValue

_Record = dict[str, JsonValue]


def search_text(record: _Record) -> str:
    """Write a line for each skill, those that may fit below a line that says so; the note last."""
    fits, perhaps = (list(map(_hit_line, record[key])) for key in ("skills", "perhaps"))
    lines, note = list(fits), record.get("note", "")
    if perhaps:
        head = note_for_model(fits=bool(fits), perhaps=True)
        lines += [head, *perhaps]
        note = note if note != head else ""
    return "\n".join([*lines, note] if note else lines)


def _hit_line(hit: _Record) -> str:
    chunk = f" [chunk {one_line(hit['chunk'])}]" if "chunk" in hit else ""
    return overview_line(hit, f"({hit['score']:.2f})") + chunk


def body_text(record: _Record) -> str:
    """Write a body so that nothing in it can pass for a line of ours, and what else to know."""
    folder = {key: record[key] for key in ("directory", "files", "files_truncated")}
    note = body_warning(record.get("trust", "vetted"), record.get("origin", ""))
    lines = [render_body(record["name"], record["body"], **folder, note=note)]
    if record.get("body_truncated"):
        lines.append("The body is cut here; the rest is in SKILL.md.")
    if record.get("requires"):
        lines.append(f"Needs these skills too: {', '.join(record['requires'])}")
    chunks = [(chunk["id"], chunk["description"]) for chunk in record.get("chunks", [])]
    return "\n".join(filter(None, [*lines, render_chunks(chunks)]))


def page_text(record: _Record) -> str:
    """Write a page of a file, after a head if it is not a whole text."""
    is_text, offset, then = record["encoding"] == "text", record["offset"], record["next_offset"]
    content = visible(record["content"]) if is_text else record["content"]
    if is_text and offset == 0 and then is None:
        return content
    form = "" if is_text else ", as base64"
    next_step = "the end" if then is None else f"next: {then}"
    return f"[from byte {offset} of {record['size']}{form}; {next_step}]\n{content}"


def list_text(record: _Record) -> str:
    """Write a line for each skill of a page, and how to go on."""
    lines = list(map(overview_line, record["skills"]))
    if record["next_cursor"] is not None:
        lines.append(f"[{record['total']} skills; next_cursor: {one_line(record['next_cursor'])}]")
    return "\n".join(lines) or "There are no skills."


def run_text(record: _Record) -> str:
    """Write the result of a command, with a line in brackets before each part of its output."""
    ended = "timed out" if record["timed_out"] else f"exit code {record['exit_code']}"
    lines = [f"[{ended}, {record['duration_ms']} ms, executor {record['executor']}]"]
    lines += [visible(record["stdout"])] if record["stdout"] else []
    lines += ["[stderr]", visible(record["stderr"])] if record["stderr"] else []
    for file in record["output_files"]:
        cut = ", cut" if file["truncated"] else ""
        about = f"{file['mime_type']}, {counted(file['size_bytes'], 'byte')}{cut}"
        lines.append(f"[file {one_line(file['name'])}: {about}]")
        lines += [visible(file["content"])] if "content" in file else []
    lines += [f"[warning: {one_line(warning)}]" for warning in record.get("warnings", [])]
    return "\n".join(lines)
