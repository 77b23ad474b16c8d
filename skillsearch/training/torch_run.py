"""A BERT in torch, and a run that trains it: validation, checkpoints, and when it ends."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skillsearch.config import cache_dir
from skillsearch.embedders.embedding import Role, head_of
from skillsearch.embedders.onnx_embedder import load_tokenizer
from skillsearch.environ import Variables, forbid_telemetry
from skillsearch.errors import MissingDependencyError, TrainingError
from skillsearch.training.bert_weights import MAX_TOKENS, BertWeights, write_hugging_face
from skillsearch.training.checkpoint import Arrays, load_checkpoint, save_checkpoint
from skillsearch.training.plan import TrainingSettings

forbid_telemetry()
try:
    with Variables(TORCHINDUCTOR_CACHE_DIR=str(cache_dir() / "torch")):  # made at the import
        import torch
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer import modules
except ImportError as exc:
    raise MissingDependencyError("sentence-transformers", "train", "Training an embedder") from exc

if TYPE_CHECKING:
    from skillsearch.types import Progress

logger = logging.getLogger(__name__)

Encode = Callable[[Sequence[str], Role], NDArray[np.float32]]
"""Texts in a role → their unit vectors, float32, one row each."""
Check = Callable[[Encode], float]
"""Validates an encoder on held-out queries; higher is better."""
CHUNK = 32
"""Texts of similar length that run together on a CPU, which gains nothing from more of them and
loses time on padding."""
_WORDS = "embeddings.word_embeddings.weight"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
_SKIPPED = 2
"""The first steps are slower: memory is allocated, code is compiled."""


@dataclass(frozen=True, slots=True, eq=False)
class TorchEncoder:
    """A BERT with mean pooling and unit length, without dropout, as a ``SentenceTransformer``.

    If `is_half`, its layers run in bfloat16; the weights are float32.
    """

    model: Any
    is_half: bool
    _tokenizer: Any

    @classmethod
    def load(cls, weights: BertWeights, settings: TrainingSettings, scratch: Path) -> TorchEncoder:
        """Build a model as the settings say; `scratch` is a temporary folder.

        Raises TrainingError if torch cannot use the device.
        """
        folder = scratch / "model"
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
        try:
            model = SentenceTransformer(
                modules=[transformer, pooling, modules.Normalize()], device=settings.device
            )
            is_half = _chooses_half(settings)
        except (RuntimeError, AssertionError) as exc:
            raise TrainingError(f"torch cannot use the device {settings.device!r}: {exc}") from exc
        if settings.freeze_words:
            model.get_parameter(f"0.auto_model.{_WORDS}").requires_grad = False
        return cls(model, is_half, load_tokenizer(folder / "tokenizer.json"))

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
        """Return the vectors of texts, those of similar length embedded together."""
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


class TorchRun:
    """The steps of a training."""

    def __init__(
        self,
        encoder: TorchEncoder,
        settings: TrainingSettings,
        key: str,
        *,
        check: Check | None = None,
        checkpoints: Path | None = None,
        progress: Progress | None = None,
        deadline: float | None = None,
    ) -> None:
        """Start at the first step, or at the checkpoint of the run with this key.

        Other arguments are as in `skillsearch.training.contrastive.train`. Raises TrainingError if
        the checkpoint cannot be used.
        """
        self.encoder = encoder
        self.was_interrupted = False
        self.values: dict[int, float] = {}
        self.step = 0
        self._settings, self._key = settings, key
        self._check, self._folder, self._progress = check, checkpoints, progress
        self._deadline = deadline
        self._best: Arrays = {}
        self._times: list[float] = []
        self._began = 0.0
        self._trained = [one for one in encoder.model.parameters() if one.requires_grad]
        self._optimizer = torch.optim.AdamW(self._trained, weight_decay=settings.weight_decay)
        if checkpoints and (state := load_checkpoint(checkpoints, key)):
            self._restore(state)

    @property
    def seconds(self) -> float:
        """Seconds of the fastest step, least disturbed by other load; 0 if too few were done."""
        return min(self._times[_SKIPPED:], default=0.0)

    def best(self) -> tuple[int, Arrays]:
        """Return step and weights of the best validation; without validations the last ones."""
        if not self.values:
            return self.step, self.encoder.tensors()
        return self._best_step(), self._best

    def is_over(self) -> bool:
        """Return whether all steps are done, or the weights stopped improving."""
        since = [step for step in self.values if step > self._best_step()]
        return self.step >= self._settings.steps or len(since) >= self._settings.patience

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first Ctrl-C end the run after this step, and the second at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def end(_signal: int, _frame: object) -> None:
            self.was_interrupted = True
            signal.signal(signal.SIGINT, before)

        signal.signal(signal.SIGINT, end)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def follow(self, losses: Iterable[Any]) -> None:
        """Take a step down each loss; validate, save, report, and end if it is time."""
        self.encoder.model.train()
        self._began = time.perf_counter()
        for loss in losses:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self._trained, 1.0)
            self.step += 1
            for group in self._optimizer.param_groups:
                group["lr"] = self._settings.rate_at(self.step)
            self._optimizer.step()
            self._optimizer.zero_grad()
            if self._ends():
                break

    def _ends(self) -> bool:
        """Validate, save and report after a step; return whether it was the last."""
        self._times.append(time.perf_counter() - self._began)
        settings = self._settings
        is_late = self._deadline is not None and time.monotonic() > self._deadline
        is_last = self.step >= settings.steps or is_late
        if self._check and (is_last or self.step % settings.check_every == 0):
            self._validate(self._check(self.encoder.encode))
        is_over = is_late or self.is_over() or self.was_interrupted
        if self._folder and (is_over or self.step % settings.save_every == 0):
            self._save(self._folder)
        if self._progress:
            self._progress("train", self.step, settings.steps)
        self._began = time.perf_counter()
        return is_over

    def _validate(self, value: float) -> None:
        """Note the value of the weights, and keep them if they are the best."""
        if not np.isfinite(value):
            raise TrainingError(
                f"The training gave no numbers at step {self.step}; lower the learning rate, "
                f"{self._settings.learning_rate:g} now."
            )
        if value > max(self.values.values(), default=-np.inf):
            self._best = self.encoder.tensors()
        self.values[self.step] = value
        logger.info("step %d: %.4f on held-out queries", self.step, value)

    def _best_step(self) -> int:
        """Return the first step with the highest value."""
        return max(self.values, key=self.values.__getitem__, default=0)

    def _save(self, folder: Path) -> None:
        arrays: dict[str, NDArray[Any]] = {
            "step": np.array(self.step),
            "looks": np.array(list(self.values), np.int64),
            "values": np.array(list(self.values.values()), np.float64),
        }
        arrays |= {f"weights/{name}": one for name, one in self.encoder.tensors().items()}
        arrays |= {f"best/{name}": one for name, one in self._best.items()}
        for place, one in self._optimizer.state_dict()["state"].items():
            for name in _MOMENTS:
                arrays[f"moments/{place}/{name}"] = np.asarray(one[name].detach().float().cpu())
        save_checkpoint(folder, self._key, arrays)

    def _restore(self, arrays: Arrays) -> None:
        parts: dict[str, dict[str, NDArray[Any]]] = {"weights": {}, "best": {}}
        moments: dict[int, dict[str, Any]] = {}
        for path, one in arrays.items():
            part, _, name = path.partition("/")
            if part in parts:
                parts[part][name] = one
            elif part == "moments":
                place, _, name = name.partition("/")
                tensor = torch.from_numpy(np.array(one)).to(self.encoder.model.device)
                moments.setdefault(int(place), {})[name] = tensor
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": moments})
        self.encoder.put(parts["weights"])
        self.step, self._best = int(arrays["step"]), parts["best"]
        values = arrays["looks"].tolist(), arrays["values"].tolist()
        self.values = dict(zip(*values, strict=True))


def _in_float32(_module: Any, _inputs: Any, features: dict[str, Any]) -> dict[str, Any]:
    """Widen the vectors of the tokens."""
    return {**features, "token_embeddings": features["token_embeddings"].float()}


def _chooses_half(settings: TrainingSettings) -> bool:
    """Return whether to run in bfloat16: as asked for, else if a matrix product is faster with it.

    It is measured, for no list of processors would be complete; those with support for it are 2 to
    16 times faster, the others slower.
    """
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
