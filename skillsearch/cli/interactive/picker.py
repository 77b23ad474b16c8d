"""The picker of ``skillsearch find``: drawn on the terminal, whatever stdout is.

Keys never wait: one search at a time runs in a thread, and a reader reads only if typing pauses.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import Output, create_output
from rich.cells import cell_len
from rich.text import Text

from skillsearch.cli.tables import make_console
from skillsearch.errors import SkillSearchError
from skillsearch.settings.values import MAX_QUERY_CHARS
from skillsearch.text.provenance import shown_name, source_tag
from skillsearch.text.safe_text import one_line, visible
from skillsearch.text.states import MAY_FIT, ONLY_MAY_FIT
from skillsearch.types.answers import Hit, SearchResult

PAUSES = (0.05, 0.5)
"""Seconds without a key until the first search begins, and after it a slower one, with a reader."""
STANDING_SECONDS = 2.0
"""Seconds without a key after the last search, from which on its answer was read."""
_ESCAPE_SECONDS = 0.05  # after which Esc is a key of its own, not the begin of another
_DESCRIPTION_LINES, _BODY_LINES = 3, 40
_KEYS = {"up": -1, "c-p": -1, "down": 1, "c-n": 1}
_HELP = "Type what is to be done; Up and Down choose, Enter takes, Esc leaves."

RunSearch = Callable[[str], SearchResult]


@contextlib.contextmanager
def terminal() -> Iterator[tuple[Input, Output]]:
    """Open the terminal of stderr or stdin, or else that of the session; OSError if none."""
    name = next((os.ttyname(number) for number in (2, 0) if os.isatty(number)), "/dev/tty")
    with Path(name).open(encoding="utf-8") as keys, Path(name).open("w", encoding="utf-8") as out:
        yield create_input(keys), create_output(out)


class Picker:
    """A request that is being typed, the skills that fit or may fit it, and the chosen one."""

    def __init__(
        self, searches: Sequence[RunSearch], body: Callable[[str], str], status: str
    ) -> None:
        self._searches = searches
        self._body = cache(body)
        self._status = f"{status} {_HELP}"
        self._result: SearchResult | None = None
        self.standing: SearchResult | None = None
        """The answer that was read: the user chose from it, or it stood without a key."""
        self._signal = 0
        self._answered = ""
        self._chosen = 0
        self._kept = ""
        self._is_taken = False
        self._wakes = asyncio.Event()
        self._buffer = Buffer(multiline=False, on_text_changed=lambda _: self._wakes.set())

    def pick(self, text: str, keys: Input, screen: Output) -> Hit | None:
        """Let the user choose; None if they leave."""
        request = Window(BufferControl(self._buffer, [BeforeInput("> ", "bold")]), height=1)
        rows = [
            request,
            Window(FormattedTextControl(lambda: [("dim", self._state())]), height=1),
            Window(FormattedTextControl(self._list), height=self._list_height),
            Window(char="─", height=1, style="dim"),
            Window(FormattedTextControl(self._preview)),
        ]
        bound = KeyBindings()
        for key in ("escape", "c-c", "c-d", "<sigint>"):
            bound.add(key)(lambda _event: self._end())
        for key, step in _KEYS.items():
            bound.add(key)(lambda _event, step=step: self._move(step))
        bound.add("enter")(lambda _event: self._take())
        layout = Layout(HSplit(rows), request)
        self._app: Application[Hit | None] = Application(
            layout, key_bindings=bound, full_screen=True, input=keys, output=screen
        )
        self._app.ttimeoutlen = self._app.timeoutlen = _ESCAPE_SECONDS
        self._buffer.document = Document(text)
        try:
            with contextlib.suppress(EOFError):  # the terminal is gone
                return self._app.run(self._begin, set_exception_handler=False)
            return None
        finally:
            if self._signal:
                signal.raise_signal(self._signal)

    def _begin(self) -> None:
        def fail(_loop: object, context: dict[str, Any]) -> None:
            self._end(exception=context.get("exception") or RuntimeError(context["message"]))

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(fail)
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
                loop.add_signal_handler(number, self._end, number)
        self._app.create_background_task(self._follow())

    def _end(self, number: int = 0, exception: BaseException | None = None) -> None:
        """Give the terminal back as it was; `pick` then lets a signal do what it does."""
        self._signal = number
        if not self._app.is_done:
            self._app.exit(**({"exception": exception} if exception else {"result": None}))

    def _move(self, step: int) -> None:
        """Choose another skill; it stays chosen if a reader orders the list anew."""
        self._chosen = max(0, min(self._chosen + step, len(self._hits) - 1))
        self._kept = self._hits[self._chosen].doc_id if self._hits else ""

    def _take(self) -> None:
        """Take the chosen skill, once the text as it is has an answer."""
        self._is_taken = self._answered != self._text
        if self._hits and not self._is_taken:
            self.standing = self._result
            self._app.exit(result=self._hits[self._chosen])

    @property
    def _text(self) -> str:
        return one_line(self._buffer.text)[:MAX_QUERY_CHARS]

    @property
    def _hits(self) -> tuple[Hit, ...]:
        return self._result.shown if self._result is not None else ()

    async def _follow(self) -> None:
        """Search whenever the text has changed, each time typing has paused for longer."""
        while await self._wakes.wait():
            self._wakes.clear()
            self.standing = None
            for search, pause in zip(self._searches, PAUSES, strict=False):
                if await self._is_typed_on(pause):
                    break
                await self._ask(search)
            else:
                if not await self._is_typed_on(STANDING_SECONDS):
                    self.standing = self._result

    async def _is_typed_on(self, pause: float) -> bool:
        """Wait for a key for some seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wakes.wait(), pause)
        return self._wakes.is_set()

    async def _ask(self, search: RunSearch) -> None:
        text = self._text
        status = _HELP
        result = None
        try:
            result = await asyncio.to_thread(search, text) if text else None
        except (SkillSearchError, OSError) as exc:
            status = one_line(str(exc))
        self._kept = self._kept if text == self._answered else ""
        self._answered, self._result, self._status = text, result, status
        ids = [hit.doc_id for hit in self._hits]
        self._chosen = ids.index(self._kept) if self._kept in ids else 0
        if self._is_taken:
            self._take()
        self._app.invalidate()

    def _state(self) -> str:
        if self._result is None:
            return self._status
        fits, may = len(self._result.hits), len(self._result.perhaps)
        parts = [f"Fits: {fits}"] if fits else [] if may else ["No skill fits"]
        parts += [f"{MAY_FIT if fits else ONLY_MAY_FIT} ({may})"] if may else []
        return ". ".join(parts)

    @property
    def _width(self) -> int:
        return self._app.output.get_size().columns

    def _list_height(self) -> int:
        return max(1, min(len(self._hits), self._app.output.get_size().rows // 2 - 2))

    def _list(self) -> StyleAndTextTuples:
        names = [Text(shown_name(hit)) for hit in self._hits]
        room = min(max((cell_len(name.plain) for name in names), default=0), self._width // 3)
        lines: StyleAndTextTuples = []
        for row, (hit, name) in enumerate(zip(self._hits, names, strict=True)):
            name.truncate(room, overflow="ellipsis", pad=True)
            is_chosen, is_fit = row == self._chosen, row < len(self._result or ())
            begin = f"{'>' if is_chosen else ' '} {'fits' if is_fit else 'may '} {hit.score:.2f}"
            line = Text(f"{begin}  {name}  {one_line(hit.description)}")
            line.truncate(self._width, overflow="ellipsis", pad=True)
            style = "reverse" if is_chosen else "" if is_fit else "ansiyellow"
            if is_chosen:
                lines.append(("[SetCursorPosition]", ""))
            lines += [(style, line.plain), ("", "\n")]
        return lines[:-1]

    def _preview(self) -> StyleAndTextTuples:
        if not self._hits:
            return []
        hit = self._hits[self._chosen]
        described = self._wrap(hit.description).split("\n")[:_DESCRIPTION_LINES]
        matched = hit.explain.matched_terms.values() if hit.explain else ()
        terms = dict.fromkeys(term for field in matched for term in field)
        lines = [("bold", f"{shown_name(hit)} {source_tag(hit)}"), ("", "\n".join(described))]
        lines += [
            ("dim", self._wrap(hit.path)),
            ("dim", self._wrap(f"terms: {', '.join(terms)}")),
        ]
        body = visible(self._body(hit.doc_id)).strip("\n").split("\n")[:_BODY_LINES]
        lines += [("", ""), *(("", self._wrap(line.expandtabs(4))) for line in body)]
        return [part for line in lines for part in (line, ("", "\n"))]

    def _wrap(self, text: str) -> str:
        lines = Text(visible(text).replace("\n", " ")).wrap(make_console(), self._width)
        return "\n".join(line.plain for line in lines)
