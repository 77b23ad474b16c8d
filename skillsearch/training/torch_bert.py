"""A BERT over rows of words in torch, on a device and in the precision that is faster there."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from skillsearch.embedders.torch_runtime import import_torch
from skillsearch.errors import TrainingError, importing
from skillsearch.training.bert_weights import BertWeights

torch = import_torch("train", "Training a model")
with importing("transformers", "train", "Training a model"):
    from transformers import BertConfig, BertModel

if TYPE_CHECKING:
    from skillsearch.embedders.torch_runtime import Tensor

_INNER = "encoder.layer.0.intermediate.dense.bias"
_NOT_OURS = ("embeddings.word_", "embeddings.position_", "embeddings.token_type_")


class TorchBert:
    """The layers of some weights; words, positions and the first layers are frozen."""

    def __init__(
        self, weights: BertWeights, *, device: str, precision: str = "auto", frozen_layers: int = 0
    ) -> None:
        """Build it without dropout; TrainingError if torch cannot use the device.

        The precision is as in `skillsearch.training.plan.TrainingSettings`.
        """
        self._words, self._positions = weights.words, weights.positions
        config = BertConfig(
            vocab_size=1,
            type_vocab_size=1,
            max_position_embeddings=len(weights.positions),
            hidden_size=weights.words.dimensions,
            intermediate_size=len(weights.tensors[_INNER]),
            num_hidden_layers=weights.layers,
            num_attention_heads=weights.heads,
            layer_norm_eps=weights.epsilon,
            # On a CPU the other kind is slower, and in bfloat16 far slower.
            attn_implementation="eager" if device == "cpu" else "sdpa",
        )
        self.model = BertModel(config, add_pooling_layer=False).eval()
        for name, parameter in self.model.named_parameters():
            if name.startswith(_NOT_OURS):  # what they add is in the rows
                torch.nn.init.zeros_(parameter)
        put(self.named(), weights.tensors)
        count = min(frozen_layers, weights.layers - 1)  # something has to learn
        for part in (self.model.embeddings, *self.model.encoder.layer[:count]):
            part.requires_grad_(requires_grad=False)
        try:
            self.model.to(device)
            self.is_half = _chooses_half(device, precision)
        except (RuntimeError, AssertionError) as exc:
            raise TrainingError(f"torch cannot use the device {device!r}: {exc}") from exc

    @property
    def device(self) -> Any:
        """Return the device of torch that it is on."""
        return self.model.device

    def named(self) -> dict[str, Tensor]:
        """Return the parameters under the names of `BertWeights`."""
        named = self.model.named_parameters()
        return {name: part for name, part in named if not name.startswith(_NOT_OURS)}

    def hidden(self, texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Return the vectors of the tokens of texts, (b, t, d), and where there are some."""
        counts = torch.tensor(list(map(len, texts)))
        longest = int(counts.max())
        rows = np.zeros((len(texts), longest, self._words.dimensions), np.float32)
        for row, ids in zip(rows, texts, strict=True):
            row[: len(ids)] = self._words.rows(ids) + self._positions[: len(ids)]
        mask = torch.arange(longest) < counts[:, None]
        # Without a mask attention takes half the time.
        used = None if mask.all() else mask.long().to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.is_half):
            inputs = torch.from_numpy(rows).to(self.device)
            vectors = self.model(inputs_embeds=inputs, attention_mask=used).last_hidden_state
        return vectors.float(), mask.to(self.device)

    def in_chunks(
        self,
        texts: Sequence[Sequence[int]],
        size: int,
        run: Callable[[Sequence[int], Tensor, Tensor], Tensor],
    ) -> Tensor:
        """Return what `run` makes of each text, those of similar length computed together.

        It is called with the rows of some texts, and what `hidden` returns of them.
        """
        order = torch.argsort(torch.tensor(list(map(len, texts))), stable=True)
        parts = []
        for rows in order.split(size):
            parts.append(run(rows.tolist(), *self.hidden([texts[row] for row in rows])))
        return torch.cat(parts)[torch.argsort(order).to(self.device)]


def put(named: Mapping[str, Tensor], tensors: Mapping[str, Any]) -> None:
    """Load the weights that there are, arrays or tensors, into parameters of these names."""
    with torch.no_grad():
        for name, parameter in named.items():
            if name in tensors:
                value = tensors[name]
                parameter.copy_(value if torch.is_tensor(value) else torch.tensor(value))


@cache
def _chooses_half(device: str, precision: str) -> bool:
    """Return whether to run in bfloat16: as asked for, or if a matrix product is faster so."""
    if precision != "auto":
        return precision == "bfloat16"

    def seconds(dtype: Any) -> float:
        matrix = torch.ones(1_024, 384, device=device, dtype=dtype)
        other = torch.ones(384, 1_536, device=device, dtype=dtype)
        return min(timeit.repeat(lambda: float((matrix @ other)[0, 0]), number=1, repeat=6))

    return seconds(torch.bfloat16) < 0.8 * seconds(torch.float32)
