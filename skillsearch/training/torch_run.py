"""A training run in progress: learning rate, validation, checkpoints, and when it ends."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedding import Role
from skillsearch.errors import MissingDependencyError, TrainingError
from skillsearch.training.checkpoint import RunState, Tensors
from skillsearch.training.plan import TrainingSettings

try:
    import torch
    from transformers import TrainerCallback
except ImportError as exc:
    raise MissingDependencyError("transformers", "train", "Training an embedder") from exc

if TYPE_CHECKING:
    from skillsearch.types import Progress

logger = logging.getLogger(__name__)

Encode = Callable[[Sequence[str], Role], NDArray[np.float32]]
"""Texts in a role → their unit vectors, float32, one row each."""
Check = Callable[[Encode], float]
"""Validates an encoder on held-out queries; higher is better."""

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
_SKIPPED = 2
"""The first steps are slower: memory is allocated, code is compiled."""


class Encoder(Protocol):
    """The model in training."""

    @property
    def model(self) -> Any:
        """The torch module."""

    def tensors(self) -> Tensors:
        """Return a copy of the weights."""

    def put(self, tensors: Tensors) -> None:
        """Load weights."""

    def encode(self, texts: Sequence[str], role: Role = "passage") -> NDArray[np.float32]:
        """Return unit vectors."""


class TorchRun(TrainerCallback):  # type: ignore[misc]  # no types of transformers where they are checked
    """The hooks between the steps of a trainer."""

    def __init__(
        self,
        encoder: Encoder,
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
        self._settings, self._key = settings, key
        self._check, self._folder, self._progress = check, checkpoints, progress
        self._deadline = deadline
        self._values: dict[int, float] = {}
        self._best: Tensors = {}
        self._times: list[float] = []
        self._began = 0.0
        state = RunState.load(checkpoints, key) if checkpoints else None
        self.step = state.step if state else 0
        trained = [one for one in encoder.model.parameters() if one.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=1.0, weight_decay=settings.weight_decay)
        if state:
            self._restore(state)
        begun = self.step
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda done: settings.rate_at(begun + done + 1)
        )

    @property
    def seconds(self) -> float:
        """Seconds of the fastest step, least disturbed by other load; 0 if too few were done."""
        return min(self._times[_SKIPPED:], default=0.0)

    @property
    def values(self) -> Mapping[int, float]:
        """Value of each validation by its step."""
        return self._values

    def best(self) -> tuple[int, Tensors]:
        """Return step and weights of the best validation; without validations the last ones."""
        if not self._values:
            return self.step, self.encoder.tensors()
        return self._best_step(), self._best

    def is_over(self) -> bool:
        """Return whether all steps are done, or the weights stopped improving."""
        if self.step >= self._settings.steps:
            return True
        since = [step for step in self._values if step > self._best_step()]
        return len(since) >= self._settings.patience

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first Ctrl-C end the run after this step, and the second at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def end(_signal: int, _frame: object) -> None:
            """Ask for the end."""
            self.was_interrupted = True
            signal.signal(signal.SIGINT, before)

        signal.signal(signal.SIGINT, end)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def on_step_begin(self, _args: Any, _state: Any, _control: Any, **_kwargs: Any) -> None:
        """Start the clock."""
        self._began = self._began or time.perf_counter()

    def on_step_end(self, _args: Any, _state: Any, control: Any, **_kwargs: Any) -> None:
        """Validate, save, report, and end the run if it is time."""
        self.step += 1
        self._times.append(time.perf_counter() - self._began)
        settings = self._settings
        is_late = self._deadline is not None and time.monotonic() > self._deadline
        is_last = self.step >= settings.steps or is_late
        if self._check and (is_last or self.step % settings.check_every == 0):
            self._look(self._check)
        is_over = is_late or self.is_over() or self.was_interrupted
        if self._folder and (is_over or self.step % settings.save_every == 0):
            self._save(self._folder)
        if self._progress:
            self._progress("train", self.step, settings.steps)
        control.should_training_stop = is_over
        self._began = time.perf_counter()

    def _look(self, check: Check) -> None:
        """Validate the weights, and keep the best ones."""
        value = check(self.encoder.encode)
        if not np.isfinite(value):
            raise TrainingError(
                f"The training gave no numbers at step {self.step}; lower the learning rate, "
                f"{self._settings.learning_rate:g} now."
            )
        if value > max(self._values.values(), default=-np.inf):
            self._best = self.encoder.tensors()
        self._values[self.step] = value
        logger.info("step %d: %.4f on held-out queries", self.step, value)

    def _best_step(self) -> int:
        """Return the first step with the highest value."""
        return max(self._values, key=self._values.__getitem__, default=0)

    def _save(self, folder: Path) -> None:
        """Write a checkpoint."""
        moments = {
            f"{place}/{name}": np.asarray(one[name].detach().float().cpu())
            for place, one in self.optimizer.state_dict()["state"].items()
            for name in _MOMENTS
        }
        state = RunState(
            self._key, self.step, self.encoder.tensors(), moments, self._best, self._values
        )
        state.save(folder)

    def _restore(self, state: RunState) -> None:
        """Continue from a checkpoint."""
        device = self.encoder.model.device
        found: dict[int, dict[str, Any]] = {}
        for key, one in state.moments.items():
            place, _, name = key.partition("/")
            found.setdefault(int(place), {})[name] = torch.from_numpy(np.array(one)).to(device)
        record = self.optimizer.state_dict()
        self.optimizer.load_state_dict({**record, "state": found})
        self.encoder.put(state.weights)
        self._values, self._best = dict(state.values), state.best
