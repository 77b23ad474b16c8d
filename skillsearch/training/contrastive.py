"""Contrastive training: weights and a plan of batches → weights that put queries next to documents.

Nothing is fetched from a network, no file is written but checkpoints, and the libraries are quiet.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import MissingDependencyError
from skillsearch.training.bert_weights import BertWeights
from skillsearch.training.plan import SAME, Batch, TrainingSettings
from skillsearch.training.torch_run import Check, Encode, TorchEncoder, TorchRun

try:
    import torch
    from torch.nn import functional
    from transformers.utils import logging as transformers_logging
except ImportError as exc:
    raise MissingDependencyError("transformers", "train", "Training an embedder") from exc

if TYPE_CHECKING:
    from skillsearch.types import Progress

_MASKED = -1e4


class Trained(NamedTuple):
    """The weights of the best validation, without validations the last ones, and how they came.

    `values` has each validation by its step, `seconds` the time of the fastest step of this call, 0
    if too few were done.
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
    `teacher` only the cosines count. The `check` validates every `settings.check_every` steps and
    after the last one: the best weights are returned, and training ends when they stop improving.
    The `deadline` is by `time.monotonic`. The length of the plan overrides `settings.steps`. Raises
    TrainingError if a validation is not finite, or a checkpoint cannot be used.
    """
    settings = replace(settings, steps=len(plan))
    # Everything that decides a run; the last batch depends on all draws before.
    key = hashlib.sha256(repr((settings, plan[0], plan[-1])).encode("utf-8", "replace"))
    for name in sorted(begin.tensors):
        key.update(np.ascontiguousarray(begin.tensors[name]).data)
    with tempfile.TemporaryDirectory(prefix="skillsearch-") as folder, _quietly():
        torch.manual_seed(settings.seed)
        encoder = TorchEncoder.load(begin, settings, Path(folder))
        run = TorchRun(
            encoder,
            settings,
            key.hexdigest(),
            check=check,
            checkpoints=checkpoints,
            progress=progress,
            deadline=deadline,
        )
        if not run.is_over():
            losses = (
                _loss(encoder, batch, settings, vectors, teacher) for batch in plan[run.step :]
            )
            with run.interruptible():
                run.follow(losses)
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


def _loss(
    encoder: TorchEncoder,
    batch: Batch,
    settings: TrainingSettings,
    vectors: NDArray[np.floating[Any]],
    teacher: Encode | None,
) -> Any:
    """Return the loss of a batch of the plan."""
    queries = [pair.query for _, pair in batch]
    documents = [pair.document for _, pair in batch]
    rows = vectors[[row for row, _ in batch]].astype(np.float32)
    same = rows @ rows.T >= SAME
    np.fill_diagonal(same, val=False)
    wanted = None
    if teacher is not None:
        wanted = teacher(queries, "query") @ teacher(documents, "passage").T
        wanted = torch.from_numpy(wanted.astype(np.float32)).to(encoder.model.device)
    ours = encoder.embed(queries, settings.query_tokens)
    cosines = ours @ encoder.embed(documents, settings.document_tokens).T
    return batch_loss(cosines, torch.from_numpy(same).to(cosines.device), settings, wanted)


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
