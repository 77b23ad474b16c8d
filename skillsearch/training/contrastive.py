"""Contrastive training: weights and a plan of batches → weights that put queries next to documents.

Nothing is fetched from a network, no file is written but checkpoints, and the libraries' output is
suppressed. With `torch_run` the only importer of torch in training.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from skillsearch.training.plan import SAME, Batch, TrainingSettings
from skillsearch.training.torch_run import Check, Encode, TorchRun

forbid_telemetry()
try:
    with Variables(TORCHINDUCTOR_CACHE_DIR=str(cache_dir() / "torch")):  # made at the import
        import torch
        from sentence_transformers import (
            SentenceTransformer,
            SentenceTransformerTrainer,
            SentenceTransformerTrainingArguments,
        )
        from sentence_transformers.sentence_transformer.modules import (
            Normalize,
            Pooling,
            Transformer,
        )
        from torch.nn import functional
        from transformers import PrinterCallback
        from transformers.utils import logging as transformers_logging
except ImportError as exc:
    raise MissingDependencyError("sentence-transformers", "train", "Training an embedder") from exc

if TYPE_CHECKING:
    from skillsearch.types import Progress

CHUNK = 32
"""Texts of similar length that run together on a CPU, which gains nothing from more of them and
loses time on padding."""
_WORDS = "embeddings.word_embeddings.weight"
_MASKED = -1e4


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The result of a training run.

    Attributes:
        weights: The weights of the best validation; without validations the last ones.
        values: Value of each validation by its step.
        seconds: Seconds of the fastest step of this call; 0 if too few were done.
    """

    weights: BertWeights
    best_step: int
    steps: int
    values: Mapping[int, float]
    seconds: float


def train(
    begin: BertWeights,
    plan: Sequence[Batch],
    settings: TrainingSettings,
    *,
    vectors: NDArray[np.floating[Any]],
    teacher: Encode | None = None,
    check: Check | None = None,
    checkpoints: Path | None = None,
    progress: Progress | None = None,
    deadline: float | None = None,
) -> Trained:
    """Train weights on the batches of a plan, in order; Ctrl-C ends it after the current step.

    The same call then goes on from a checkpoint, if it has a folder for `checkpoints`. Skills that
    are the same by their `vectors`, in the rows of the plan, are not negatives of each other. Of a
    `teacher` only the cosines of its vectors count. The `check` validates every
    `settings.check_every` steps and after the last one: the best weights are returned, and training
    ends when they stop improving. The `deadline` is by `time.monotonic`. The length of the plan
    overrides `settings.steps`. Raises TrainingError if a validation is not finite, or a checkpoint
    cannot be used, and KeyboardInterrupt if interrupted.
    """
    settings = replace(settings, steps=len(plan))
    with tempfile.TemporaryDirectory(prefix="skillsearch-") as folder, _quietly():
        scratch = Path(folder)
        torch.manual_seed(settings.seed)
        encoder = TorchEncoder.load(begin, settings, scratch)
        run = TorchRun(
            encoder,
            settings,
            _key(begin, plan, settings),
            check=check,
            checkpoints=checkpoints,
            progress=progress,
            deadline=deadline,
        )
        if not run.is_over():
            collate = _Collate(encoder, settings, vectors, teacher)
            left = [plan[step] for step in range(run.step, len(plan))]
            with run.interruptible():
                _fit(run, left, collate, settings, scratch)
            if run.was_interrupted and not run.is_over():
                raise KeyboardInterrupt
        step, tensors = run.best()
        weights = replace(begin, tensors={**begin.tensors, **tensors})
        return Trained(weights, step, run.step, run.values, run.seconds)


@contextlib.contextmanager
def encoder_of(weights: BertWeights, settings: TrainingSettings) -> Iterator[Encode]:
    """Provide an encoder of weights, like the argument of `check`."""
    with tempfile.TemporaryDirectory(prefix="skillsearch-") as folder, _quietly():
        yield TorchEncoder.load(weights, settings, Path(folder)).encode


def batch_loss(cosines: Any, same: Any, settings: TrainingSettings, teacher: Any = None) -> Any:
    """Return the loss of a batch by its cosines, queries in rows, right documents on the diagonal.

    InfoNCE of each query over the documents and of each document over the queries (van den Oord et
    al., 2018); with a teacher's cosines, also the divergence from its softmax over the same (Hinton
    et al., 2015). `same` is True if a document is not a negative of a query.
    """
    scores = (settings.scale * cosines).masked_fill(same, _MASKED)
    right = torch.arange(len(scores), device=scores.device)
    ways = (scores, scores.T)
    loss = sum(functional.cross_entropy(way, right) for way in ways) / 2
    if teacher is None:
        return loss
    wanted = (settings.teacher_scale * teacher).masked_fill(same, _MASKED)
    apart = sum(
        functional.kl_div(
            way.log_softmax(dim=1), aim.log_softmax(dim=1), reduction="batchmean", log_target=True
        )
        for way, aim in zip(ways, (wanted, wanted.T), strict=True)
    )
    return (1 - settings.teacher_share) * loss + settings.teacher_share * apart / 2


@dataclass(frozen=True, slots=True, eq=False)
class TorchEncoder:
    """A BERT with mean pooling and unit length, without dropout.

    Attributes:
        model: The ``SentenceTransformer``.
        is_half: Whether its layers run in bfloat16; the weights are float32.
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
        """Return a copy of the weights under their names."""
        state = self.model[0].auto_model.state_dict()
        floats = {name: one for name, one in state.items() if one.is_floating_point()}
        return {name: one.detach().float().cpu().numpy().copy() for name, one in floats.items()}

    def put(self, tensors: Mapping[str, NDArray[np.float32]]) -> None:
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
                tokens = self.tokens((texts[place] for place in places), MAX_TOKENS)
                on_device = {name: one.to(device) for name, one in tokens.items()}
                rows[places] = self.model(on_device)["sentence_embedding"].float().cpu().numpy()
        self.model.train(was_training)
        return rows


class _Loss(torch.nn.Module):  # type: ignore[misc]  # no types of torch where they are checked
    """Tokens of queries and documents → the loss of their batch."""

    def __init__(self, model: Any, settings: TrainingSettings) -> None:
        super().__init__()
        self.model = model  # The trainer looks for this name.
        self._settings = settings

    def forward(self, features: Sequence[Mapping[str, Any]], labels: Mapping[str, Any]) -> Any:
        """Return the loss; labels are the pairs that are not negatives, and a teacher's cosines."""
        queries, documents = map(self._embed, features)
        with torch.autocast(queries.device.type, enabled=False):
            cosines = queries.float() @ documents.float().T
            return batch_loss(cosines, labels["same"], self._settings, labels.get("teacher"))

    def _embed(self, features: Mapping[str, Any]) -> Any:
        """Embed texts, those of similar length together."""
        ids, mask = features["input_ids"], features["attention_mask"]
        lengths = mask.sum(dim=1)
        order = torch.argsort(lengths, stable=True)
        parts = []
        for rows in order.split(CHUNK if ids.device.type == "cpu" else len(ids)):
            longest = int(lengths[rows].max())
            tokens = {"input_ids": ids[rows, :longest], "attention_mask": mask[rows, :longest]}
            parts.append(self.model(tokens)["sentence_embedding"])
        return torch.cat(parts)[torch.argsort(order)]


class _Trainer(SentenceTransformerTrainer):  # type: ignore[misc]  # likewise
    """The trainer, with batches made beforehand and no model card."""

    batches: Any

    def get_train_dataloader(self) -> Any:
        """Return the batches in order."""
        return self.batches

    def add_model_card_callback(self, default_args_dict: Mapping[str, Any]) -> None:
        """Skip the model card, for which it would query the network."""


@dataclass(frozen=True, slots=True, eq=False)
class _Collate:
    """Turns a batch of the plan into arguments of the loss."""

    encoder: TorchEncoder
    settings: TrainingSettings
    vectors: NDArray[np.floating[Any]]
    teacher: Encode | None

    def __call__(self, batch: Batch) -> dict[str, Any]:
        """Tokenize a batch, and find pairs that are not negatives."""
        queries = [pair.query for _, pair in batch]
        documents = [pair.document for _, pair in batch]
        rows = self.vectors[[row for row, _ in batch]].astype(np.float32)
        same = rows @ rows.T >= SAME
        np.fill_diagonal(same, val=False)
        label = {"same": torch.from_numpy(same)}
        if self.teacher is not None:
            cosines = self.teacher(queries, "query") @ self.teacher(documents, "passage").T
            label["teacher"] = torch.from_numpy(cosines.astype(np.float32))
        query = self.encoder.tokens(queries, self.settings.query_tokens)
        document = self.encoder.tokens(documents, self.settings.document_tokens)
        return {
            **{f"query_{name}": one for name, one in query.items()},
            **{f"document_{name}": one for name, one in document.items()},
            "label": label,
        }


def _fit(
    run: TorchRun,
    batches: Sequence[Batch],
    collate: _Collate,
    settings: TrainingSettings,
    scratch: Path,
) -> None:
    """Run the trainer of sentence-transformers on batches."""
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(scratch / "trainer"),
        max_steps=len(batches),
        bf16=collate.encoder.is_half,
        use_cpu=settings.device == "cpu",
        max_grad_norm=1.0,
        seed=settings.seed,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        push_to_hub=False,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    model = collate.encoder.model
    trainer = _Trainer(
        model=model,
        args=arguments,
        loss=_Loss(model, settings),
        callbacks=[run],
        optimizers=(run.optimizer, run.schedule),
    )
    trainer.batches = torch.utils.data.DataLoader(batches, batch_size=None, collate_fn=collate)
    trainer.remove_callback(PrinterCallback)
    trainer.train()


def _key(begin: BertWeights, plan: Sequence[Batch], settings: TrainingSettings) -> str:
    """Identify a run by everything that decides it; the last batch depends on all draws before."""
    state = hashlib.sha256(repr((settings, plan[0], plan[-1])).encode("utf-8", "replace"))
    for name in sorted(begin.tensors):
        state.update(np.ascontiguousarray(begin.tensors[name]).data)
    return state.hexdigest()


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Suppress the output of the libraries but for errors."""
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
    """Widen the vectors of the tokens."""
    return {**features, "token_embeddings": features["token_embeddings"].float()}


def _chooses_half(settings: TrainingSettings) -> bool:
    """Return whether to run in bfloat16: as asked for, else if a matrix product is faster with it.

    It is measured, for no list of processors would be complete; those with support for it are 2 to
    16 times faster, the others slower.
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
