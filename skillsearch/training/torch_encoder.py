"""Weights as a model of sentence-transformers that can be trained: tokens in, unit vectors out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skillsearch.config import cache_dir
from skillsearch.embedders.embedding import Role, head_of
from skillsearch.embedders.onnx_embedder import load_tokenizer
from skillsearch.environ import Variables, forbid_telemetry
from skillsearch.errors import MissingDependencyError, TrainingError
from skillsearch.training.bert_weights import BertWeights
from skillsearch.training.settings import TrainingSettings

forbid_telemetry()
try:
    with Variables(TORCHINDUCTOR_CACHE_DIR=str(cache_dir() / "torch")):  # made at the import
        import torch
        from safetensors.torch import save_file
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import (
            Normalize,
            Pooling,
            Transformer,
        )
except ImportError as exc:
    raise MissingDependencyError("sentence-transformers", "train", "Training an embedder") from exc

CHUNK = 32
"""Texts of similar length that are run together on a CPU. It gains nothing from more of them, and
loses what the short ones are padded with."""
_TOKENS = 256
"""Tokens of a text that count once the model is in use."""
_WORDS = "embeddings.word_embeddings.weight"


@dataclass(frozen=True, slots=True, eq=False)
class TorchEncoder:
    """A BERT with mean pooling and unit length, without dropout.

    Attributes:
        model: The ``SentenceTransformer``.
        is_half: Whether its layers are run in bfloat16; the weights are float32.
    """

    model: Any
    is_half: bool
    _tokenizer: Any

    @classmethod
    def load(cls, weights: BertWeights, settings: TrainingSettings, scratch: Path) -> TorchEncoder:
        """Build a model.

        Args:
            weights: Its weights.
            settings: Where it runs, in which precision, and what of it is trained.
            scratch: A folder that is removed later.

        Returns:
            The encoder.

        Raises:
            TrainingError: When torch cannot use the device.
        """
        folder = scratch / "model"
        _write_hugging_face(weights, folder)
        transformer = Transformer(
            str(folder),
            model_kwargs={
                # On a CPU the other kind of attention is slower, and in bfloat16 far slower.
                "attn_implementation": "eager" if settings.device == "cpu" else "sdpa",
                "add_pooling_layer": False,
                "local_files_only": True,
            },
            config_kwargs={"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
            processor_kwargs={"local_files_only": True},
        )
        # bfloat16 is enough for the layers, and too little for the mean of their vectors.
        transformer.register_forward_hook(_in_float32)
        size = int(weights.config["hidden_size"])
        modules = [transformer, Pooling(size, pooling_mode="mean"), Normalize()]
        try:
            model = SentenceTransformer(modules=modules, device=settings.device)
            is_half = _chooses_half(settings)
        except (RuntimeError, AssertionError) as exc:
            raise TrainingError(f"torch cannot use the device {settings.device!r}: {exc}") from exc
        if settings.freeze_words:
            model.get_parameter(f"0.auto_model.{_WORDS}").requires_grad = False
        return cls(model, is_half, load_tokenizer(folder / "tokenizer.json"))

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Return a copy of the weights, under their own names."""
        state = self.model[0].auto_model.state_dict()
        floats = {name: one for name, one in state.items() if one.is_floating_point()}
        return {name: one.detach().float().cpu().numpy().copy() for name, one in floats.items()}

    def put(self, tensors: Mapping[str, NDArray[np.float32]]) -> None:
        """Take over weights that `tensors` returned."""
        state = {name: torch.from_numpy(np.array(one)) for name, one in tensors.items()}
        self.model[0].auto_model.load_state_dict(state, strict=False)

    def tokens(self, texts: Iterable[str], limit: int) -> dict[str, Any]:
        """Return the tokens of texts, padded, and where they are no padding."""
        limit = min(limit, self.model[0].auto_model.config.max_position_embeddings)
        self._tokenizer.enable_truncation(limit)
        found = self._tokenizer.encode_batch([head_of(text, limit)[0] for text in texts])
        pad = torch.nn.utils.rnn.pad_sequence
        ids = [torch.tensor(one.ids) for one in found]
        mask = [torch.ones_like(one) for one in ids]
        return {"input_ids": pad(ids, True), "attention_mask": pad(mask, True)}

    def encode(self, texts: Sequence[str], role: Role = "passage") -> NDArray[np.float32]:
        """Embed texts, whatever their role; float32, one unit row each."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        size = self.model[1].embedding_dimension
        rows = np.zeros((len(texts), size), np.float32)
        device = self.model.device
        half = torch.autocast(device.type, torch.bfloat16, enabled=self.is_half)
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad(), half:
            for begin in range(0, len(order), CHUNK):
                places = order[begin : begin + CHUNK]
                tokens = self.tokens((texts[place] for place in places), _TOKENS)
                on_device = {name: one.to(device) for name, one in tokens.items()}
                rows[places] = self.model(on_device)["sentence_embedding"].float().cpu().numpy()
        self.model.train(was_training)
        return rows


def _write_hugging_face(weights: BertWeights, folder: Path) -> None:
    """Write weights in the only form that their library reads."""
    folder.mkdir()
    tensors = {name: torch.from_numpy(np.array(one)) for name, one in weights.tensors.items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = {**weights.config, "architectures": ["BertModel"]}
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": _TOKENS}
    files = {"config.json": config, "tokenizer_config.json": tokenizer}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / "tokenizer.json").write_bytes(weights.tokenizer)


def _in_float32(_module: Any, _inputs: Any, features: dict[str, Any]) -> dict[str, Any]:
    """Widen the vectors of the tokens."""
    return {**features, "token_embeddings": features["token_embeddings"].float()}


def _chooses_half(settings: TrainingSettings) -> bool:
    """Tell whether to run in bfloat16: as asked for, else where a product of matrices is faster so.

    It is tried, for no list of processors would be complete; those made for it are 2 to 16 times
    faster, the others slower.
    """
    if settings.precision != "auto":
        return settings.precision == "bfloat16"
    seconds = {}
    for kind in (torch.float32, torch.bfloat16):
        one = torch.ones(1_024, 384, device=settings.device, dtype=kind)
        other = torch.ones(384, 1_536, device=settings.device, dtype=kind)
        tries = []
        for _ in range(6):
            began = time.perf_counter()
            float((one @ other)[0, 0])
            tries.append(time.perf_counter() - began)
        seconds[kind] = min(tries)
    return seconds[torch.bfloat16] < 0.8 * seconds[torch.float32]
