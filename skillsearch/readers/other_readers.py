"""Readers of others: cross-encoders in ONNX form, and those of sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedding import head_of
from skillsearch.embedders.model_files import ModelConfig, weight_files
from skillsearch.embedders.onnx_embedder import MODEL_FILES, load_output, load_tokenizer, map_ahead
from skillsearch.embedders.word_table import WORDS_NAME
from skillsearch.errors import EmbedderError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.readers.mapped_reader import MAX_TOKENS, OUTPUT, STEM
from skillsearch.readers.reader import Logits, checked_logit, no_logit

if TYPE_CHECKING:
    from skillsearch.embedders.onnx_embedder import Encoding


@dataclass(frozen=True, slots=True, eq=False)
class OnnxReader:
    """A cross-encoder of others in ONNX form, on the CPU; each text is run by itself."""

    name: str
    _max_tokens: int
    _encode: Callable[[str, str], Encoding]
    _run: Callable[[Encoding], float]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load one of `MODEL_FILES` with one logit, and the tokenizer.json that joins the pair.

        Settings and digests are as in `ModelConfig.read`. An EmbedderError if a file is missing or
        unusable.
        """
        path = next((folder / name for name in MODEL_FILES if (folder / name).is_file()), None)
        file = folder / "tokenizer.json"
        if path is None or not file.is_file():
            raise EmbedderError(
                f"{folder} is not a reader: it needs {WORDS_NAME} and {STEM}.onnx, or "
                f"tokenizer.json and one of {', '.join(MODEL_FILES)}; load a CrossEncoder's folder "
                f"as st:{folder}"
            )
        settings = ModelConfig.read(folder)
        for weights in (path, file, *weight_files(path)):
            settings.verify(weights)
        limit = settings.max_tokens
        encode = load_tokenizer(file, limit).encode
        next_step = f", expected {OUTPUT!r}; export one for sequence classification with one label"
        _, run = load_output(path, [OUTPUT], "a cross-encoder that we know", next_step)
        return cls(settings.name, limit, encode, lambda pair: checked_logit(path, run(pair)))

    def read(self, request: str, texts: Sequence[str]) -> Logits:
        """Return the log-odds that the skill of each text fits, in order."""
        head, _ = head_of(request, self._max_tokens)

        def read_one(_position: int, text: str) -> float:
            return self._run(self._encode(head, head_of(text, self._max_tokens)[0]))

        return np.array(list(map_ahead(read_one, texts)), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class CrossEncoderReader:
    """A CrossEncoder of sentence-transformers, on the CPU or another device; the extra ``st``."""

    name: str
    _predict: Callable[[Sequence[tuple[str, str]]], NDArray[np.floating]]

    def read(self, request: str, texts: Sequence[str]) -> Logits:
        """Return the log-odds that the skill of each text fits, in order.

        An EmbedderError if the model returns no finite number for one of them.
        """
        head = head_of(request, MAX_TOKENS)[0]
        pairs = [(head, head_of(text, MAX_TOKENS)[0]) for text in texts]
        logits = self._predict(pairs) if pairs else np.zeros(0)
        if logits.shape != (len(texts),) or not np.isfinite(logits).all():
            raise EmbedderError(no_logit(self.name, logits))
        return logits.astype(np.float64)
