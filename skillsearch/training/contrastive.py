"""Weights and a plan of batches → weights that put each query next to its document.

Together with `torch_encoder` and `torch_run` the only one that knows torch. Nothing is asked of a
network, no file is written but checkpoints, and nothing of what the libraries print is let through.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skillsearch.environ import forbid_telemetry
from skillsearch.errors import MissingDependencyError
from skillsearch.training.batches import SAME
from skillsearch.training.bert_weights import BertWeights
from skillsearch.training.plan import Batch
from skillsearch.training.settings import TrainingSettings
from skillsearch.training.torch_encoder import CHUNK, TorchEncoder
from skillsearch.training.torch_run import Check, Encode, TorchRun

forbid_telemetry()
try:
    import torch
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from torch.nn import functional
    from transformers import PrinterCallback
    from transformers.utils import logging as transformers_logging
except ImportError as exc:
    raise MissingDependencyError("sentence-transformers", "train", "Training an embedder") from exc

if TYPE_CHECKING:
    from skillsearch.types import Progress

_MASKED = -1e4


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """What a training run gave.

    Attributes:
        weights: The best weights that were looked at; without looks the last ones.
        best_step: The step that they are of.
        steps: Steps done.
        values: Value found at each look, by its step.
        seconds: Seconds of the fastest step of this call; 0 where too few were done.
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
    """Train weights on the batches of a plan, in their order.

    Ctrl-C ends the run after the step that it is in, with a checkpoint where the same call goes on.

    Args:
        begin: The weights to begin with.
        plan: A batch for each step; they count, whatever `settings.steps` says.
        settings: How.
        vectors: Vectors of all skills by the rows of the plan, float16 or float32: skills that are
            the same by them are no negatives of each other.
        teacher: Embeds as the weights are to learn to; of its vectors only their cosines count.
        check: Looks every `settings.check_every` steps, and after the last one, how good the
            encoder is on what was held out. The best weights are returned, and training ends where
            they get no better.
        checkpoints: Folder of the checkpoints of this run; none are made without it.
        progress: Told the steps done, as stage ``train``.
        deadline: When to end at the latest, by `time.monotonic`, whatever steps are left.

    Returns:
        The weights, and how it went.

    Raises:
        TrainingError: When the run gives no numbers, or a checkpoint cannot be used.
        KeyboardInterrupt: When interrupted.
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
    """Lend an encoder of weights, as `check` of `train` gets one."""
    with tempfile.TemporaryDirectory(prefix="skillsearch-") as folder, _quietly():
        yield TorchEncoder.load(weights, settings, Path(folder)).encode


def batch_loss(cosines: Any, same: Any, settings: TrainingSettings, teacher: Any = None) -> Any:
    """Return the loss of a batch by its cosines.

    InfoNCE of each query over the documents and of each document over the queries (van den Oord et
    al., 2018); with a teacher, also the divergence from its softmax over the same (Hinton et al.,
    2015).

    Args:
        cosines: Of each query, a row, and each document, a column; the right ones on the diagonal.
        same: True where a document is no negative of a query.
        settings: Scales and shares.
        teacher: The cosines of the teacher; None without one.

    Returns:
        The loss, a tensor of one number.
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


class _Loss(torch.nn.Module):  # type: ignore[misc]  # no types of torch where they are checked
    """Tokens of queries and documents → the loss of their batch."""

    def __init__(self, model: Any, settings: TrainingSettings) -> None:
        super().__init__()
        self.model = model  # The trainer looks for this name.
        self._settings = settings

    def forward(self, features: Sequence[Mapping[str, Any]], labels: Mapping[str, Any]) -> Any:
        """Return the loss; the labels are what is no negative, and the cosines of a teacher."""
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
    """The trainer, with batches that were made before, and no model card."""

    batches: Any

    def get_train_dataloader(self) -> Any:
        """Return the batches in their order."""
        return self.batches

    def add_model_card_callback(self, default_args_dict: Mapping[str, Any]) -> None:
        """Make no model card, for which it would ask the network about the model."""


@dataclass(frozen=True, slots=True, eq=False)
class _Collate:
    """Turns a batch of the plan into what the loss gets."""

    encoder: TorchEncoder
    settings: TrainingSettings
    vectors: NDArray[np.floating[Any]]
    teacher: Encode | None

    def __call__(self, batch: Batch) -> dict[str, Any]:
        """Tokenize a batch, and find out what is no negative in it."""
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
    """Let the trainer of sentence-transformers go through batches."""
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(scratch / "trainer"),
        max_steps=len(batches),
        bf16=run.encoder.is_half,
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
    model = run.encoder.model
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
    """Name a run by all that decides it; the last batch depends on all draws before it."""
    state = hashlib.sha256(repr((settings, plan[0], plan[-1])).encode("utf-8", "replace"))
    for name in sorted(begin.tensors):
        state.update(np.ascontiguousarray(begin.tensors[name]).data)
    return state.hexdigest()


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Let through nothing but errors of what the libraries say."""
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
