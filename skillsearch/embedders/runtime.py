"""Run embedding models: sessions of ONNX Runtime, texts in threads, and their errors as ours.

The only importer of onnxruntime beside training.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillsearch.embedders.embedding import EmbeddedText
from skillsearch.environ import forbid_telemetry
from skillsearch.errors import EmbedderError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_WORKERS = 8
# Texts given to each worker before their results are taken: enough to keep it busy.
AHEAD = 8


@contextlib.contextmanager
def errors_of(library: str, model: Path | str) -> Iterator[None]:
    """Turn whatever a library raises about a model into an EmbedderError that keeps its words."""
    try:
        yield
    except Exception as exc:  # These libraries' errors share no other base class.
        raise EmbedderError(f"{library} cannot use {model}: {exc}") from exc


def open_session(model: Path, weights: Mapping[str, NDArray[Any]] | None = None) -> Any:
    """Open an ONNX model on the CPU, one thread a text, as an ``InferenceSession``.

    `weights` are the values of constants that the model keeps outside itself, by name; they are
    copied. Without them its own files hold them.
    """
    forbid_telemetry()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # A pattern kept for every length of text gains nothing.
    with errors_of("ONNX Runtime", model):
        if weights is not None:
            values = [onnxruntime.OrtValue.ortvalue_from_numpy(part) for part in weights.values()]
            options.add_external_initializers(list(weights), values)
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def map_ahead(
    function: Callable[[int, str], EmbeddedText], texts: Sequence[str]
) -> Iterator[EmbeddedText]:
    """Yield the result for each position and text, in order, computed in threads a few ahead."""
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
