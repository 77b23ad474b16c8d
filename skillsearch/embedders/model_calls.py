"""What every embedder with a model needs: its library's errors as ours, and texts in threads."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from skillsearch.embedders.embedding import EmbeddedText
from skillsearch.errors import EmbedderError

MAX_WORKERS = 8
AHEAD = 8
"""Texts given to each worker before their results are taken: enough to keep it busy."""


@contextlib.contextmanager
def errors_of(library: str, model: Path | str) -> Iterator[None]:
    """Turn whatever a library raises about a model into ours, with its own words kept.

    Args:
        library: Its name, for the message.
        model: What it was to use.

    Yields:
        Nothing.

    Raises:
        EmbedderError: When anything was raised.
    """
    try:
        yield
    except Exception as exc:  # These libraries' errors share no other base class.
        raise EmbedderError(f"{library} cannot use {model}: {exc}") from exc


def map_ahead(
    function: Callable[[int, str], EmbeddedText], texts: Sequence[str]
) -> Iterator[EmbeddedText]:
    """Call `function` for every text in threads, a few ahead of what is taken.

    Args:
        function: Embeds one text, given its position; called from several threads.
        texts: The texts.

    Yields:
        The results, in the order of the texts.
    """
    workers = min(os.cpu_count() or 1, MAX_WORKERS, len(texts))
    if workers <= 1:
        yield from map(function, range(len(texts)), texts)
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="skillsearch-embed")
    waiting: deque[Future[EmbeddedText]] = deque()
    try:
        for position, text in enumerate(texts):
            waiting.append(pool.submit(function, position, text))
            if len(waiting) >= AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
