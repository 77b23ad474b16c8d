"""A model that asks for tools, in the protocol of each maker; a part of `check_mcp`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, TypeAlias

Calls: TypeAlias = Mapping[str, Mapping[str, str]]
"""Name of a tool → the arguments of its call."""
Event: TypeAlias = dict[str, Any]

WRITTEN = '{"digest": "0", "examples": []}'
"""What the model writes in the end."""
_RESULTS = re.compile("tool_result|function_call_output|functionResponse|tool_call_id")


class Model(ThreadingHTTPServer):
    """Asks for tools until it is sent results of some, then writes.

    Attributes:
        calls: What it asks for.
        prompts: What it was sent.
        offered: The names of the tools that it was offered.
    """

    def __init__(self) -> None:
        """Listen on a free port."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.begin({})

    def begin(self, calls: Calls) -> None:
        """Forget what it was sent, and ask for these tools from now on."""
        self.calls = calls
        self.prompts: list[str] = []
        self.offered: set[str] = set()

    @property
    def url(self) -> str:
        """Where it is asked."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def answering() -> Iterator[Model]:
    """Serve a model."""
    with Model() as model:
        Thread(target=model.serve_forever, daemon=True).start()
        try:
            yield model
        finally:
            model.shutdown()


class _Handler(BaseHTTPRequestHandler):
    """Answers requests to the model."""

    server: Model

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Know no models."""
        self._send(b'{"data": [], "models": []}', "application/json")

    def do_POST(self) -> None:
        """Answer as the maker of the host does."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = request.get("messages") or request.get("input") or request.get("contents")
        prompt = json.dumps(messages)
        self.server.prompts.append(prompt)
        self.server.offered |= tool_names(request.get("tools") or [])
        kind = next(kind for kind in ANSWERS if kind in self.path)
        events = ANSWERS[kind]({} if _RESULTS.search(prompt) else self.server.calls)
        if self.path.endswith(":generateContent"):
            self._send(json.dumps(next(events)).encode(), "application/json")
        else:
            self._send("".join(map(_lines, events)).encode(), "text/event-stream")

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _lines(event: Event) -> str:
    """Return an event as it is streamed."""
    head = f"event: {event['type']}\n" if "type" in event else ""
    return f"{head}data: {json.dumps(event)}\n\n"


def tool_names(tools: Sequence[Event]) -> set[str]:
    """Return the names of offered tools, wherever a protocol has them."""
    declared = [inner for tool in tools for inner in tool.get("functionDeclarations", ())]
    all_tools = (*tools, *declared)
    names = (tool.get("name") or tool.get("function", {}).get("name") for tool in all_tools)
    return {str(name) for name in names if name}


def _messages(calls: Calls) -> Iterator[Event]:
    """Answer as the Messages API of Anthropic."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
    yield {"type": "message_start", "message": message | {"stop_reason": None, "usage": usage}}
    blocks: list[tuple[Event, Event]] = [
        (
            {"type": "tool_use", "id": f"t{index}", "name": name, "input": {}},
            {"type": "input_json_delta", "partial_json": json.dumps(arguments)},
        )
        for index, (name, arguments) in enumerate(calls.items())
    ] or [({"type": "text", "text": ""}, {"type": "text_delta", "text": WRITTEN})]
    for index, (block, delta) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": reason, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def _responses(calls: Calls) -> Iterator[Event]:
    """Answer as the Responses API of OpenAI."""
    content = [{"type": "output_text", "text": WRITTEN, "annotations": []}]
    items: list[Event] = [
        {"type": "function_call", "id": f"f{name}", "call_id": name, "name": name}
        | {"arguments": json.dumps(arguments)}
        for name, arguments in calls.items()
    ] or [{"type": "message", "id": "m", "role": "assistant", "content": content}]
    response: Event = {"id": "r", "object": "response", "output": items, "status": "completed"}
    response["usage"] = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    yield {"type": "response.created", "response": response | {"output": []}}
    for index, item in enumerate(items):
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": response}


def _contents(calls: Calls) -> Iterator[Event]:
    """Answer as the API of Gemini."""
    asks = [{"functionCall": {"name": name, "args": dict(args)}} for name, args in calls.items()]
    content: Event = {"role": "model", "parts": asks or [{"text": WRITTEN}]}
    candidate: Event = {"content": content, "finishReason": "STOP", "index": 0}
    yield {"candidates": [candidate]}


def _completions(calls: Calls) -> Iterator[Event]:
    """Answer as the Chat Completions API of OpenAI."""
    asks: list[Event] = [
        {"index": index, "id": name, "type": "function"}
        | {"function": {"name": name, "arguments": json.dumps(arguments)}}
        for index, (name, arguments) in enumerate(calls.items())
    ]
    delta: Event = {"role": "assistant"}
    delta |= {"tool_calls": asks} if asks else {"content": WRITTEN}
    about = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    yield about | {"choices": [{"index": 0, "delta": delta}]}
    reason = "tool_calls" if asks else "stop"
    yield about | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


ANSWERS: Mapping[str, Callable[[Calls], Iterator[Event]]] = {
    "/messages": _messages,
    "/responses": _responses,
    "enerateContent": _contents,
    "/chat/completions": _completions,
}
"""Part of the path of a request → what answers it."""
