"""Readers in our own form: the tokens of a pair, what their head sees, and how one is run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np

from skillsearch.embedders.embedding import head_of
from skillsearch.embedders.mapped_model import MappedModel
from skillsearch.embedders.onnx_embedder import map_ahead
from skillsearch.embedders.unigram import BEGIN, END, UnigramTokenizer
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.readers.reader import Logits, checked_logit

# Tokens of a request that are read, and of both texts together.
REQUEST_TOKENS = 80
MAX_TOKENS = 168
# What a token belongs to; special tokens to neither text.
NEITHER, REQUEST, SKILL = range(3)
HEAD = "head."  # begins the names of a reader's weights that an encoder does not have
# The input of a reader's head for a pair: vectors of the hidden size, and numbers next to them.
HEAD_VECTORS, HEAD_NUMBERS = 5, 4
# Both are brought to the scale of the vectors: products of unit vectors, and cosines.
PRODUCT_SCALE, NUMBER_SCALE = 20.0, 4.0
# Takes a cosine out of the reach of a maximum, of a minimum.
OUT_OF_REACH, BEYOND = 4.0, 9.0
STEM: Final = "reader"
OUTPUT = "logits"


@dataclass(frozen=True, slots=True, eq=False)
class MappedReader:
    """A reader in our own form, such as that of the package; it reads every language.

    Each text is run by itself, several side by side in threads, so that no logit depends on the
    other texts, as `MappedEmbedder` does.
    """

    name: str
    _model: MappedModel

    @classmethod
    def load(cls, folder: Path, *, manifest_sha256: str | None = None) -> Self:
        """Load a folder; see `MappedModel.load`."""
        model = MappedModel.load(folder, STEM, OUTPUT, manifest_sha256=manifest_sha256)
        return cls(model.settings.name, model)

    def read(self, request: str, texts: Sequence[str]) -> Logits:
        """Return the log-odds that the skill of each text fits, in order."""
        words, limit = self._model.words, self._model.settings.max_tokens

        def read_one(_position: int, text: str) -> float:
            pair = encode_pair(words.tokenizer, request, text, limit)
            parts = np.array(pair.parts, dtype=np.int64)
            logits = self._model.run({"rows": words.rows(pair.ids), "parts": parts})
            return checked_logit(self.name, logits)

        return np.array(list(map_ahead(read_one, texts)), dtype=np.float64)


class EncodedPair(NamedTuple):
    """The tokens of a request and a skill, with one before, between and behind them, and parts."""

    ids: Sequence[int]
    parts: Sequence[int]


def encode_pair(
    tokenizer: UnigramTokenizer, request: str, text: str, limit: int = MAX_TOKENS
) -> EncodedPair:
    """Return the tokens of a pair, each text cut to fit."""
    most = min(REQUEST_TOKENS, limit // 2)
    first, _ = tokenizer.encode(head_of(request, limit)[0], most)
    second, _ = tokenizer.encode(head_of(text, limit)[0], limit - len(first) - 3)
    parts = [NEITHER, *[REQUEST] * len(first), NEITHER, *[SKILL] * len(second), NEITHER]
    return EncodedPair([BEGIN, *first, END, *second, END], parts)
