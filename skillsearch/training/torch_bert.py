"""A BERT in torch with its tokenizer, on a device and in the precision that is faster there."""

from __future__ import annotations

import timeit
from functools import cache
from typing import Any

from skillsearch.embedders.onnx_embedder import load_tokenizer
from skillsearch.embedders.torch_runtime import import_torch
from skillsearch.errors import TrainingError, importing
from skillsearch.training.bert_weights import BertWeights

torch = import_torch("train", "Training a model")
with importing("transformers", "train", "Training a model"):
    from transformers import BertConfig, BertModel


def build_bert(
    weights: BertWeights, device: str, attention: str, precision: str = "auto"
) -> tuple[Any, Any, bool]:
    """Build the BERT of some weights; raises TrainingError if torch cannot use the device.

    Attention is one that transformers knows, the precision as in `TrainingSettings`. Returns the
    model, still to get its weights, in evaluation mode; its tokenizer; whether to run in bfloat16.
    """
    tokenizer = load_tokenizer(weights.tokenizer)
    config = BertConfig(**weights.config, attn_implementation=attention)
    model = BertModel(config, add_pooling_layer=False).eval()
    try:
        model.to(device)
        return model, tokenizer, _chooses_half(device, precision)
    except (RuntimeError, AssertionError) as exc:
        raise TrainingError(f"torch cannot use the device {device!r}: {exc}") from exc


@cache
def _chooses_half(device: str, precision: str) -> bool:
    """Return whether to run in bfloat16: as asked for, or if a matrix product is faster so."""
    if precision != "auto":
        return precision == "bfloat16"

    def seconds(kind: Any) -> float:
        one = torch.ones(1_024, 384, device=device, dtype=kind)
        other = torch.ones(384, 1_536, device=device, dtype=kind)
        return min(timeit.repeat(lambda: float((one @ other)[0, 0]), number=1, repeat=6))

    return seconds(torch.bfloat16) < 0.8 * seconds(torch.float32)
