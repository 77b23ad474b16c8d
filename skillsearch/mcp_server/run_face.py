"""How a client sees what came of a command of a skill."""

from __future__ import annotations

from skillsearch.mcp_server.faces import Face, Record
from skillsearch.text.safe_text import one_line, visible


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


RUN_FACE = Face(dict, run_text)
