"""Our tools as MCP tools: their definitions, and what a client gets to read of their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from mcp_types import Tool as McpTool

from skillsearch.agents.prompt import render_body, render_chunks
from skillsearch.agents.tools.failures import failure
from skillsearch.agents.tools.schemas import arguments_schema
from skillsearch.agents.tools.tool import Tool
from skillsearch.mcp_server.faces import Face, Record
from skillsearch.mcp_server.run_face import RUN_FACE
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types import IndexProgress, JsonValue

MAX_QUERY_BYTES = 4096
"""Some 600 words: a task, not the document that it is about."""
NO_HIT = "No skill fits; go on without one."
FOUND_BY_WORDS = "Found by words alone"
ERROR_KEY = "skillsearch/error"
"""Where the metadata of a failed call keep the error for programs."""


def definition(tool: Tool) -> McpTool:
    """Return the definition of a tool, which many hosts copy into every prompt.

    So it has no schema of the results, which would double it: the text of a result says what it
    is, and its structured content has the same under the names of the Python interface.

    Args:
        tool: The tool.

    Returns:
        What ``tools/list`` tells of it.
    """
    hints = ToolAnnotations(read_only_hint=tool.read_only, open_world_hint=False)
    return McpTool(
        name=tool.name,
        title=tool.name.replace("_", " ").capitalize(),
        description=tool.description,
        input_schema=arguments_schema(tool.arguments),
        annotations=hints,
    )


def refusal(arguments: Mapping[str, JsonValue]) -> Record | None:
    """Return the answer to arguments that no tool is to see; None where there is nothing to say."""
    query = arguments.get("query")
    if isinstance(query, str) and len(query.encode("utf-8", "replace")) > MAX_QUERY_BYTES:
        return failure(
            "invalid-arguments",
            f"query is longer than {MAX_QUERY_BYTES:,} bytes.",
            "Say in a sentence what is to be done.",
        )
    return None


def result_of(answer: Mapping[str, Any], face: Face) -> CallToolResult:
    """Return what a client gets of the answer of a `Toolset`.

    Args:
        answer: ``{"result": ...}`` or ``{"error": ...}``; with an `IndexProgress` as ``progress``
            if words alone were searched.
        face: How results of the tool are seen.

    Returns:
        Text, and beside it the result as structured content or the error as metadata.
    """
    if "error" in answer:
        error = answer["error"]
        text = TextContent(type="text", text=_error_text(error))
        return CallToolResult(content=[text], is_error=True, _meta={ERROR_KEY: error})
    record = face.structured(answer["result"])
    if "progress" in answer:
        record |= _words_only(answer["progress"], is_empty=record.get("skills") == [])
    text = TextContent(type="text", text=face.text(record))
    return CallToolResult(content=[text], structured_content=record)


def session_of(ctx: ServerRequestContext[Any, Any]) -> str:
    """Return what tells a client from others, if the transport knows that."""
    return "" if ctx.request is None else str(ctx.request.headers.get(MCP_SESSION_ID_HEADER, ""))


def face_of(toolset: str, tool: str) -> Face:
    """Return how the results of a tool are seen; that of another toolset is ``{"result": ...}``."""
    return _FACES.get(tool, _PLAIN) if toolset == "default" else _PLAIN


def _error_text(error: Mapping[str, Any]) -> str:
    """Say what was wrong, the next step, and what else is known."""
    told = {"code", "message", "next_step"}
    lines = [f"{error['message']} {error['next_step']}"]
    for key, value in error.items():
        if key not in told:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            lines.append(f"{key}: {shown}")
    return "\n".join(lines)


def _words_only(progress: IndexProgress, *, is_empty: bool) -> Record:
    """Say that an answer is by words alone, and when there will be another."""
    found = "Nothing was found by words alone, which is not final" if is_empty else FOUND_BY_WORDS
    retry = "Search" if is_empty else "If none fits, search"
    left = progress.seconds_left
    return {
        "note": f"{found}: meaning is still being indexed ({progress.share:.0%})."
        f" {retry} again {progress.when}.",
        "words_only": {
            "indexed": round(progress.share, 4),
            "seconds_left": None if left is None else round(left, 1),
        },
    }


def _skills(found: list[Record]) -> Record:
    """Name the list of hits; say so where there is none."""
    return {"skills": found} if found else {"skills": [], "note": NO_HIT}


def _search_text(record: Record) -> str:
    """Write a line for each hit, and the note if there is one."""
    note = [record["note"]] if "note" in record else []
    return "\n".join([*map(_hit_line, record["skills"]), *note])


def _hit_line(hit: Record) -> str:
    """Write name, score, description, and the chunk that fits best."""
    chunk = f" [chunk {one_line(hit['chunk'])}]" if "chunk" in hit else ""
    return f"{hit['name']} ({hit['score']:.2f}): {hit['description']}{chunk}"


def _body_text(record: Record) -> str:
    """Write a body so that nothing in it can pass for a line of ours, and what else to know."""
    lines = [
        render_body(
            record["name"],
            record["body"],
            directory=record["directory"],
            files=record["files"],
            files_truncated=record["files_truncated"],
        )
    ]
    if record.get("body_truncated"):
        lines.append("The body is cut here; the rest is in SKILL.md.")
    if record.get("requires"):
        lines.append(f"Needs these skills too: {', '.join(record['requires'])}")
    chunks = [(chunk["id"], chunk["description"]) for chunk in record.get("chunks", [])]
    return "\n".join(filter(None, [*lines, render_chunks(chunks)]))


def _page_text(record: Record) -> str:
    """Write a page of a file; before it, where it is no whole text, what it is."""
    is_text = record["encoding"] == "text"
    content = visible(record["content"]) if is_text else record["content"]
    is_whole = record["offset"] == 0 and record["next_offset"] is None
    if is_text and is_whole:
        return content
    form = "" if is_text else ", as base64"
    next_step = "the end" if record["next_offset"] is None else f"next: {record['next_offset']}"
    head = f"[from byte {record['offset']} of {record['size']}{form}; {next_step}]"
    return f"{head}\n{content}"


def _list_text(record: Record) -> str:
    """Write a line for each skill, and how to go on."""
    lines = [f"{skill['name']}: {skill['description']}" for skill in record["skills"]]
    if record["next_cursor"] is not None:
        lines.append(f"[{record['total']} skills; next_cursor: {one_line(record['next_cursor'])}]")
    return "\n".join(lines) or "There are no skills."


def _plain_text(record: Record) -> str:
    """Write a result that is text as it is, and any other as JSON; behind it the note."""
    result = record["result"]
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    return f"{text}\n\n{record['note']}" if "note" in record else text


_FACES = {
    "search_skills": Face(_skills, _search_text),
    "load_skill": Face(dict, _body_text),
    "read_skill_file": Face(dict, _page_text),
    "list_skills": Face(dict, _list_text),
    "run_skill_script": RUN_FACE,
}
_PLAIN = Face(lambda result: {"result": result}, _plain_text)
