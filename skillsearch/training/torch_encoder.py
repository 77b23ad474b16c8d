"""A BERT in torch that embeds texts, quietly and without a network."""

from __future__ import annotations

import contextlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from skillsearch.training.bert_weights import MAX_TOKENS, BertWeights, write_hugging_face
from skillsearch.training.plan import TrainingSettings

forbid_telemetry()
try:
    with Variables(TORCHINDUCTOR_CACHE_DIR=str(cache_dir() / "torch")):  # made at the import
        import torch
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer import modules
        from transformers.utils import logging as transformers_logging
except ImportError as exc:
    raise MissingDependencyError("sentence-transformers", "train", "Training an embedder") from exc

Arrays = Mapping[str, NDArray[Any]]
Encode = Callable[[Sequence[str], Role], NDArray[np.float32]]
"""Texts in a role → their unit vectors, float32, one row each."""
CHUNK = 32
"""Texts of similar length that run together on a CPU, which gains nothing from more of them and
loses time on padding."""
_WORDS = "embeddings.word_embeddings.weight"


@dataclass(frozen=True, slots=True, eq=False)
class TorchEncoder:
    """A BERT with mean pooling and unit length, without dropout; it may run in bfloat16."""

    model: Any
    is_half: bool
    _tokenizer: Any

    @classmethod
    @contextlib.contextmanager
    def load(cls, weights: BertWeights, settings: TrainingSettings) -> Iterator[TorchEncoder]:
        """Build a model by the settings; raises TrainingError if torch cannot use the device."""
        with tempfile.TemporaryDirectory(prefix="skillsearch-") as scratch, _quietly():
            folder = Path(scratch) / "model"
            write_hugging_face(weights, folder)
            transformer = modules.Transformer(
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
            pooling = modules.Pooling(int(weights.config["hidden_size"]), pooling_mode="mean")
            parts = [transformer, pooling, modules.Normalize()]
            try:
                model = SentenceTransformer(modules=parts, device=settings.device)
                is_half = _chooses_half(settings)
            except (RuntimeError, AssertionError) as exc:
                raise TrainingError(
                    f"torch cannot use the device {settings.device!r}: {exc}"
                ) from exc
            if settings.freeze_words:
                model.get_parameter(f"0.auto_model.{_WORDS}").requires_grad = False
            yield cls(model, is_half, load_tokenizer(folder / "tokenizer.json"))

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Return a copy of the weights under their names."""
        state = self.model[0].auto_model.state_dict()
        floats = {name: one for name, one in state.items() if one.is_floating_point()}
        return {name: one.detach().float().cpu().numpy().copy() for name, one in floats.items()}

    def put(self, tensors: Arrays) -> None:
        """Load weights that `tensors` returned."""
        state = {name: torch.from_numpy(np.array(one)) for name, one in tensors.items()}
        self.model[0].auto_model.load_state_dict(state, strict=False)

    def tokens(self, texts: Iterable[str], limit: int) -> dict[str, Any]:
        """Return the tokens of texts, padded, with their mask."""
        limit = min(limit, self.model[0].auto_model.config.max_position_embeddings)
        self._tokenizer.enable_truncation(limit)
        found = self._tokenizer.encode_batch([head_of(text, limit)[0] for text in texts])
        pad = torch.nn.utils.rnn.pad_sequence
        ids = [torch.tensor(one.ids) for one in found]
        mask = [torch.ones_like(one) for one in ids]
        return {"input_ids": pad(ids, True), "attention_mask": pad(mask, True)}

    def embed(self, texts: Sequence[str], limit: int) -> Any:
        """Return the vectors of texts, embedding texts of similar length together."""
        tokens = self.tokens(texts, limit)
        ids, mask = (tokens[name].to(self.model.device) for name in ("input_ids", "attention_mask"))
        lengths = mask.sum(dim=1)
        order = torch.argsort(lengths, stable=True)
        parts = []
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=self.is_half):
            for rows in order.split(CHUNK if ids.device.type == "cpu" else len(ids)):
                longest = int(lengths[rows].max())
                part = {"input_ids": ids[rows, :longest], "attention_mask": mask[rows, :longest]}
                parts.append(self.model(part)["sentence_embedding"].float())
        return torch.cat(parts)[torch.argsort(order)]

    def encode(self, texts: Sequence[str], role: Role = "passage") -> NDArray[np.float32]:
        """Embed texts, whatever their role; float32, one unit row each."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        rows = np.zeros((len(texts), self.model[1].embedding_dimension), np.float32)
        device = self.model.device
        half = torch.autocast(device.type, torch.bfloat16, enabled=self.is_half)
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad(), half:
            for begin in range(0, len(order), CHUNK):
                places = order[begin : begin + CHUNK]
                tokens = self.tokens((texts[place] for place in places), MAX_TOKENS)
                on_device = {name: one.to(device) for name, one in tokens.items()}
                rows[places] = self.model(on_device)["sentence_embedding"].float().cpu().numpy()
        self.model.train(was_training)
        return rows


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    level = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()


def _in_float32(_module: Any, _inputs: Any, features: dict[str, Any]) -> dict[str, Any]:
    return {**features, "token_embeddings": features["token_embeddings"].float()}


def _chooses_half(settings: TrainingSettings) -> bool:
    """Return whether to run in bfloat16: as asked for, or if a matrix product is faster so."""
    if settings.precision != "auto":
        return settings.precision == "bfloat16"
    seconds = []
    for kind in (torch.float32, torch.bfloat16):
        one = torch.ones(1_024, 384, device=settings.device, dtype=kind)
        other = torch.ones(384, 1_536, device=settings.device, dtype=kind)
        tries = []
        for _ in range(6):
            began = time.perf_counter()
            float((one @ other)[0, 0])
            tries.append(time.perf_counter() - began)
        seconds.append(min(tries))
    return seconds[1] < 0.8 * seconds[0]
