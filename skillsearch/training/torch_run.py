"""A training run while it goes: learning rate, looks at what was held out, checkpoints, its end."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedding import Role
from skillsearch.errors import MissingDependencyError, TrainingError
from skillsearch.training.run_state import RunState, Tensors
from skillsearch.training.settings import TrainingSettings
from skillsearch.training.torch_encoder import TorchEncoder

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
"""How good an encoder is on what was held out; higher is better."""

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
_SKIPPED = 2
"""First steps that are slower than the others: memory is taken, code is made ready."""


class TorchRun(TrainerCallback):  # type: ignore[misc]  # no types of transformers where they are checked
    """What happens between the steps of a trainer.

    Attributes:
        encoder: The model.
        step: Steps done.
        optimizer: Of the trainer.
        schedule: Its learning rates.
        seconds: Seconds of the fastest step, looks aside; 0 where too few were done.
        was_interrupted: Whether the user wants it to end.
    """

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
        """Begin at the first step, or where a checkpoint is.

        Args:
            encoder: The model.
            settings: How it is trained.
            key: What the run is of; a checkpoint of another one is passed over.
            check: As in `skillsearch.training.contrastive.train`.
            checkpoints: Likewise.
            progress: Likewise.
            deadline: Likewise.

        Raises:
            TrainingError: When the checkpoint cannot be used.
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
        """Seconds of the fastest step, looks aside; 0 where too few were done.

        What else the machine does for a while makes the others slower.
        """
        return min(self._times[_SKIPPED:], default=0.0)

    @property
    def values(self) -> Mapping[int, float]:
        """Value found at each look, by its step."""
        return self._values

    def best(self) -> tuple[int, Tensors]:
        """Return the step and weights of the best look, the last step's without looks."""
        if not self._values:
            return self.step, self.encoder.tensors()
        return self._best_step(), self._best

    def is_over(self) -> bool:
        """Tell whether there is nothing left to do: all steps are done, or it gets no better."""
        if self.step >= self._settings.steps:
            return True
        since = [step for step in self._values if step > self._best_step()]
        return len(since) >= self._settings.patience

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Take the first Ctrl-C as the wish to end after this step; the second one ends at once."""
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
        """Take the time."""
        self._began = self._began or time.perf_counter()

    def on_step_end(self, _args: Any, _state: Any, control: Any, **_kwargs: Any) -> None:
        """Look, save, tell, and end the run where it is to end."""
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
        """Measure the weights, and keep the best ones."""
        value = check(self.encoder.encode)
        if not np.isfinite(value):
            raise TrainingError(
                f"The training gave no numbers at step {self.step}; lower the learning rate, "
                f"{self._settings.learning_rate:g} now."
            )
        if value > max(self._values.values(), default=-np.inf):
            self._best = self.encoder.tensors()
        self._values[self.step] = value
        logger.info("step %d: %.4f on what was held out", self.step, value)

    def _best_step(self) -> int:
        """Return the step with the highest value, the first of equal ones."""
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
        """Go on from a checkpoint."""
        device = self.encoder.model.device
        found: dict[int, dict[str, Any]] = {}
        for key, one in state.moments.items():
            place, _, name = key.partition("/")
            found.setdefault(int(place), {})[name] = torch.from_numpy(np.array(one)).to(device)
        record = self.optimizer.state_dict()
        self.optimizer.load_state_dict({**record, "state": found})
        self.encoder.put(state.weights)
        self._values, self._best = dict(state.values), state.best
