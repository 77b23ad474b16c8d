"""The weights of a model in our own form, an embedder or a reader, in float32; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.word_table import WordTable
from skillsearch.errors import TrainingError
from skillsearch.readers.mapped_reader import HEAD

Tensors = Mapping[str, NDArray[np.float32]]


class Neutral(NamedTuple):
    """What is taken out of unit vectors: a `centre`, then directions by the matrix `apart`."""

    centre: NDArray[np.float32]
    apart: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class BertWeights:
    """A BERT over the rows of a `WordTable`, with tensors under Hugging Face's names.

    `positions`, with the only token type in them, are added to the rows: as many as tokens can be
    read. A reader has a head (see `skillsearch.training.cross_encoder`), an embedder may be made
    `neutral`. The `factors`, by matrix of the graph, are divided out of its input and multiplied
    into it before it gets 8 bits. Raises TrainingError if a number is not finite.
    """

    words: WordTable
    tensors: Tensors
    positions: NDArray[np.float32]
    heads: int
    epsilon: float
    neutral: Neutral | None = None
    factors: Tensors = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, tensor in self.tensors.items():
            if not np.isfinite(tensor).all():
                raise TrainingError(f"{name} has values that are not finite")

    @property
    def is_reader(self) -> bool:
        """Return whether they have a head."""
        return any(name.startswith(HEAD) for name in self.tensors)

    @property
    def layers(self) -> int:
        """Return the number of layers."""
        return sum(name.endswith("intermediate.dense.bias") for name in self.tensors)


def average(begin: BertWeights, tuned: BertWeights, share: float) -> BertWeights:
    """Average weights with those they were tuned from, as Wortsman et al. (2022) do.

    A tensor that was not trained stays as it is, to the bit.
    """
    tensors = {
        name: old
        if (new := tuned.tensors[name]) is old
        else ((1 - share) * old + share * new).astype(np.float32)
        for name, old in begin.tensors.items()
    }
    return replace(begin, tensors=tensors)
