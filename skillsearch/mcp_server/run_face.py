"""How a client sees what came of a command of a skill."""

from __future__ import annotations

from skillsearch.mcp_server.faces import Face, Record, list_of, object_of
from skillsearch.safe_text import one_line, visible

_TEXT: Record = {"type": "string"}
_WHOLE: Record = {"type": "integer"}
_SWITCH: Record = {"type": "boolean"}
_FILE = object_of(
    {
        "name": _TEXT,
        "content": _TEXT,
        "mime_type": _TEXT,
        "size_bytes": _WHOLE,
        "truncated": _SWITCH,
        "ref": _TEXT,
    },
    "content",
)


def run_text(record: Record) -> str:
    """Write how a command ended, what it printed, and the files that came of it.

    Args:
        record: The result as of `RunResult.to_dict`.

    Returns:
        A line in brackets before each part that a model may take for another.
    """
    ended = "its time was over" if record["timed_out"] else f"exit code {record['exit_code']}"
    lines = [f"[{ended}, {record['duration_ms']} ms, executor {record['executor']}]"]
    lines += [visible(record["stdout"])] if record["stdout"] else []
    lines += ["[stderr]", visible(record["stderr"])] if record["stderr"] else []
    for file in record["output_files"]:
        cut = ", cut" if file["truncated"] else ""
        about = f"{file['mime_type']}, {file['size_bytes']} bytes{cut}"
        lines.append(f"[file {one_line(file['name'])}: {about}]")
        lines += [visible(file["content"])] if "content" in file else []
    lines += [f"[warning: {one_line(warning)}]" for warning in record.get("warnings", [])]
    return "\n".join(lines)


RUN_FACE = Face(
    object_of(
        {
            "stdout": _TEXT,
            "stderr": _TEXT,
            "exit_code": _WHOLE,
            "timed_out": _SWITCH,
            "duration_ms": _WHOLE,
            "executor": _TEXT,
            "output_files": list_of(_FILE),
            "primary_output": _FILE,
            "warnings": list_of(_TEXT),
        },
        "primary_output",
        "warnings",
    ),
    dict,
    run_text,
)
