"""Answers ``initialize`` over stdio before the SDK is loaded, which takes two seconds.

A host waits for this answer with its start. The SDK gets the request too, and what it answers is
left out; so it decides all that follows. An unusual request is left to it alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from skillsearch._version import __version__
from skillsearch.types.json_values import Json, JsonObject

if TYPE_CHECKING:
    from skillsearch.mcp_server.session_tools import ServedToolset

SERVER_NAME = "skillsearch"
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The versions of the protocol that begin with a handshake, the latest last."""
SEARCH_FIRST = (
    "Proven instructions (skills) for many tasks. Before a task that is not trivial, call"
    " search_skills with what is to be done. If a skill fits, load it and follow it; if none"
    " does, go on without."
)
USE_TOOLS = (
    "Proven instructions (skills) for many tasks. Before a task that is not trivial, see whether"
    " one of the skills that the tools name fits. If one does, load it and follow it."
)
_CAPABILITIES: Mapping[str, tuple[type, tuple[str, ...]]] = {
    "roots": (bool, ("listChanged",)),
    "sampling": (dict, ("context", "tools")),
    "elicitation": (dict, ("form", "url")),
}
"""Capabilities of usual clients: the type of what each may hold, and the names of that."""
_MOST_BYTES = 64 << 10


class Handshake(NamedTuple):
    """What a server says of itself: its instructions, and what it can do.

    Attributes:
        row: Its toolset.
        tells_changes: Whether it tells clients of changes as they come.
    """

    row: ServedToolset
    tells_changes: bool

    @property
    def instructions(self) -> str:
        """What a model is told of the server as a whole."""
        return SEARCH_FIRST if self.row.searches else USE_TOOLS

    @property
    def tools_change(self) -> bool:
        """Whether it tells of other definitions of tools."""
        return self.tells_changes and self.row.names_skills

    def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a line that is a usual ``initialize``, or None."""
        if len(line) > _MOST_BYTES:
            return None
        try:
            request = json.loads(line.decode())
            json.dumps(
                request, ensure_ascii=False
            ).encode()  # not half a character, as of "\\ud800"
        except (ValueError, RecursionError):
            return None
        if not _is_usual(request):
            return None
        wanted = request["params"]["protocolVersion"]
        version = wanted if wanted in VERSIONS else VERSIONS[-1]
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": self._result(version)}
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    def _result(self, version: str) -> JsonObject:
        capabilities: JsonObject = {
            "completions": {},
            "resources": {"listChanged": self.tells_changes, "subscribe": False},
            "tools": {"listChanged": self.tools_change},
        }
        if self.row.has_prompt or self.row.task_tools:
            capabilities["prompts"] = {"listChanged": False}
        return {
            "capabilities": capabilities,
            "instructions": self.instructions,
            "protocolVersion": version,
            "serverInfo": {"name": SERVER_NAME, "version": __version__},
        }


def _is_usual(request: Json) -> bool:
    """Return whether a message is a request to initialize that the SDK accepts beyond doubt."""
    if not isinstance(request, dict) or request.keys() != {"jsonrpc", "id", "method", "params"}:
        return False
    number, params = request["id"], request["params"]
    is_id = isinstance(number, str) or (type(number) is int and 0 <= number < 1 << 53)
    is_asked = (request["jsonrpc"], request["method"]) == ("2.0", "initialize")
    if not is_id or not is_asked or not isinstance(params, dict):
        return False
    if params.keys() != {"protocolVersion", "capabilities", "clientInfo"}:
        return False
    client, capabilities = params["clientInfo"], params["capabilities"]
    return (
        isinstance(params["protocolVersion"], str)
        and isinstance(client, dict)
        and {"name", "version"} <= client.keys() <= {"name", "version", "title", "websiteUrl"}
        and all(isinstance(value, str) for value in client.values())
        and isinstance(capabilities, dict)
        and all(_is_known(*item) for item in capabilities.items())
    )


def _is_known(name: str, capability: Json) -> bool:
    if name not in _CAPABILITIES or not isinstance(capability, dict):
        return False
    kind, names = _CAPABILITIES[name]
    return capability.keys() <= set(names) and all(
        isinstance(value, kind) for value in capability.values()
    )
