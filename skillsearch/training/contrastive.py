"""Contrastive training: weights and batches → weights that put queries next to documents."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import signal
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import MissingDependencyError, TrainingError
from skillsearch.training.bert_weights import BertWeights
from skillsearch.training.plan import SAME, Batch, TrainingSettings
from skillsearch.training.torch_encoder import Arrays, Encode, TorchEncoder

try:
    import torch
    from torch.nn import functional
except ImportError as exc:
    raise MissingDependencyError("torch", "train", "Training an embedder") from exc

if TYPE_CHECKING:
    from skillsearch.types import Progress

logger = logging.getLogger(__name__)

Check = Callable[[Encode], float]
"""Validates an encoder on held-out queries; higher is better."""
_MASKED = -1e4
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
_SKIPPED = 2  # the first steps are slower: memory is allocated, code is compiled
_FILE = "state.npz"


class Trained(NamedTuple):
    """The weights of the best validation, else the last ones, and each validation by its step.

    `seconds` is the time of the fastest step of this call, 0 if too few were done.
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
    """Train weights on the batches of a plan; after Ctrl-C, the same call continues.

    Skills that are the same by their `vectors`, in the rows of the plan, are not negatives of each
    other. Of a `teacher` only the cosines count. The `check` validates every `settings.check_every`
    steps and after the last one; training ends when it stops improving, or at the `deadline` by
    `time.monotonic`. Raises TrainingError if it is not finite, or a checkpoint cannot be used.
    """
    settings = replace(settings, steps=len(plan))
    # Everything that decides a run; the last batch depends on all draws before.
    digest = hashlib.sha256(repr((settings, plan[0], plan[-1])).encode("utf-8", "replace"))
    for name in sorted(begin.tensors):
        digest.update(np.ascontiguousarray(begin.tensors[name]).data)
    key, times = digest.hexdigest(), []
    torch.manual_seed(settings.seed)
    with TorchEncoder.load(begin, settings) as encoder:
        run = _Run(encoder, settings)
        if checkpoints and (state := load_checkpoint(checkpoints, key)):
            run.restore(state)
        left = () if run.is_over() else plan[run.step :]
        with _first_interrupt() as interrupted:
            for batch in left:
                began = time.perf_counter()
                run.take(_loss(encoder, batch, settings, vectors, teacher))
                times.append(time.perf_counter() - began)
                is_late = deadline is not None and time.monotonic() > deadline
                is_last = is_late or run.step == settings.steps
                if check and (is_last or run.step % settings.check_every == 0):
                    run.validate(check(encoder.encode))
                is_last = is_late or run.is_over() or interrupted.is_set()
                if checkpoints and (is_last or run.step % settings.save_every == 0):
                    save_checkpoint(checkpoints, key, run.state())
                if progress:
                    progress("train", run.step, settings.steps)
                if is_last:
                    break
        if interrupted.is_set() and not run.is_over():
            raise KeyboardInterrupt
        best = run.best if run.values else encoder.tensors()
        weights = replace(begin, tensors={**begin.tensors, **best})
        step = run.best_step if run.values else run.step
        # The fastest step is the least disturbed by other load.
        return Trained(weights, step, run.step, run.values, min(times[_SKIPPED:], default=0.0))


def batch_loss(cosines: Any, same: Any, settings: TrainingSettings, teacher: Any = None) -> Any:
    """Return the loss of cosines, queries in rows, whose right documents are on the diagonal.

    InfoNCE both ways (van den Oord et al., 2018); with a teacher's cosines also the divergence from
    its softmax (Hinton et al., 2015). `same` is True if a document is not a negative of a query.
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


def save_checkpoint(folder: Path, key: str, arrays: Arrays) -> None:
    """Replace the checkpoint of a run in one step; TrainingError if it cannot be written."""
    fresh = folder / f"{_FILE}.new"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with fresh.open("wb") as file:
            np.savez(file, key=np.array(key), **arrays)  # type: ignore[arg-type]  # taken for options
        fresh.replace(folder / _FILE)
    except OSError as exc:
        raise TrainingError(
            f"The checkpoint {folder / _FILE} cannot be written: {exc.strerror or exc}; free some "
            "space."
        ) from exc


def load_checkpoint(folder: Path, key: str) -> dict[str, NDArray[Any]] | None:
    """Read a checkpoint; None if missing or of another run, TrainingError if damaged."""
    path = folder / _FILE
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays) if str(arrays["key"]) == key else None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as exc:
        raise TrainingError(
            f"The checkpoint {path} is damaged ({exc}); remove it to begin again."
        ) from exc


class _Run:
    """The state of a training; from `state` it can be restored."""

    def __init__(self, encoder: TorchEncoder, settings: TrainingSettings) -> None:
        self.step = 0
        self.values: dict[int, float] = {}
        self.best: Arrays = {}
        self._encoder, self._settings = encoder, settings
        self._trained = [one for one in encoder.model.parameters() if one.requires_grad]
        self._optimizer = torch.optim.AdamW(self._trained, weight_decay=settings.weight_decay)
        encoder.model.train()

    @property
    def best_step(self) -> int:
        return max(self.values, key=self.values.__getitem__, default=0)

    def is_over(self) -> bool:
        since = [step for step in self.values if step > self.best_step]
        return self.step >= self._settings.steps or len(since) >= self._settings.patience

    def take(self, loss: Any) -> None:
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._trained, 1.0)
        self.step += 1
        for group in self._optimizer.param_groups:
            group["lr"] = self._settings.rate_at(self.step)
        self._optimizer.step()
        self._optimizer.zero_grad()

    def validate(self, value: float) -> None:
        """Note the value of the weights, and keep them if they are the best."""
        if not np.isfinite(value):
            raise TrainingError(
                f"The training gave no numbers at step {self.step}; lower the learning rate, "
                f"{self._settings.learning_rate:g} now."
            )
        if value > max(self.values.values(), default=-np.inf):
            self.best = self._encoder.tensors()
        self.values[self.step] = value
        logger.info("step %d: %.4f on held-out queries", self.step, value)

    def state(self) -> Arrays:
        """Return everything that the rest of the run depends on."""
        arrays: dict[str, NDArray[Any]] = {
            "step": np.array(self.step),
            "looks": np.array(list(self.values), np.int64),
            "values": np.array(list(self.values.values()), np.float64),
        }
        arrays |= {f"weights/{name}": one for name, one in self._encoder.tensors().items()}
        arrays |= {f"best/{name}": one for name, one in self.best.items()}
        for place, one in self._optimizer.state_dict()["state"].items():
            for name in _MOMENTS:
                arrays[f"moments/{place}/{name}"] = np.asarray(one[name].detach().float().cpu())
        return arrays

    def restore(self, arrays: Arrays) -> None:
        parts: dict[str, dict[str, NDArray[Any]]] = {"weights": {}, "best": {}}
        moments: dict[int, dict[str, Any]] = {}
        for path, one in arrays.items():
            part, _, name = path.partition("/")
            if part in parts:
                parts[part][name] = one
            elif part == "moments":
                place, _, name = name.partition("/")
                tensor = torch.from_numpy(np.array(one)).to(self._encoder.model.device)
                moments.setdefault(int(place), {})[name] = tensor
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": moments})
        self._encoder.put(parts["weights"])
        self.step, self.best = int(arrays["step"]), parts["best"]
        values = arrays["looks"].tolist(), arrays["values"].tolist()
        self.values = dict(zip(*values, strict=True))


@contextlib.contextmanager
def _first_interrupt() -> Iterator[threading.Event]:
    """Catch the first Ctrl-C in an event; the second one ends the run at once."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = signal.getsignal(signal.SIGINT)

    def end(_signal: int, _frame: object) -> None:
        event.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, end)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
