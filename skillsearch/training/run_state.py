"""The state of a training, also on disk, so that an interrupted one goes on where it was."""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import TrainingError, explained
from skillsearch.training.torch_bert import put, torch

if TYPE_CHECKING:
    from skillsearch.embedders.torch_runtime import Tensor

logger = logging.getLogger(__name__)

Arrays = Mapping[str, NDArray[Any]]
_FILE = "state.npz"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def save_checkpoint(folder: Path, key: str, arrays: Arrays) -> None:
    """Replace the checkpoint of a run in one step; TrainingError if it cannot be written."""
    fresh = folder / f"{_FILE}.new"
    failed = f"The checkpoint {folder / _FILE} cannot be written: %s; free some space."
    with explained(TrainingError, failed):
        folder.mkdir(parents=True, exist_ok=True)
        with fresh.open("wb") as file:
            np.savez(file, key=np.array(key), **arrays)  # type: ignore[arg-type]  # taken for options
        fresh.replace(folder / _FILE)


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


class RunState:
    """The state of a training: its parameters, what its optimizer knows, and its validations.

    Further `parts` of it than the trained ``weights`` have the same names; from `state` all can be
    restored.
    """

    def __init__(
        self, trained: dict[str, Tensor], optimizer: Any, *, learning_rate: float, patience: int
    ) -> None:
        self.parts = {"weights": trained}
        self.optimizer = optimizer
        self.values: dict[int, float] = {}
        self.best: Arrays = {}
        self.step = 0
        self._learning_rate, self._patience = learning_rate, patience

    @property
    def trained(self) -> dict[str, Tensor]:
        """Return the parameters that are trained, by name."""
        return self.parts["weights"]

    @property
    def best_step(self) -> int:
        """Return the step of the best validation, 0 before the first."""
        return max(self.values, key=self.values.__getitem__, default=0)

    def is_stale(self) -> bool:
        """Return whether the last validations found nothing better."""
        return sum(step > self.best_step for step in self.values) >= self._patience

    def descend(self, loss: Tensor, rate: float) -> None:
        """Take the next step down a loss, at a learning rate."""
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained.values(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("factor", 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1

    def note(self, value: float, part: str = "weights") -> None:
        """Note a validation, and keep a part if it is the best; TrainingError if it is nan."""
        if not np.isfinite(value):
            raise TrainingError(
                f"The training gave no numbers at step {self.step}; lower the learning rate, "
                f"{self._learning_rate:g} now."
            )
        if value > max(self.values.values(), default=-np.inf):
            self.best = arrays_of(self.parts[part])
        self.values[self.step] = value
        logger.info("step %d: %.4f on what was held out", self.step, value)

    def state(self) -> Arrays:
        """Return everything that the rest of the training depends on."""
        arrays = {"step": np.array(self.step)}
        arrays |= {f"values/{step}": np.array(value) for step, value in self.values.items()}
        parts = {name: arrays_of(tensors) for name, tensors in self.parts.items()}
        for part, named in (parts | {"best": self.best}).items():
            arrays |= {f"{part}/{name}": array for name, array in named.items()}
        for number, moments in self.optimizer.state_dict()["state"].items():
            for name in _MOMENTS:
                array = moments[name].detach().float().cpu().numpy()
                arrays[f"moments/{number}/{name}"] = array
        return arrays

    def resume(self, folder: Path | None, key: str) -> None:
        """Go on from the checkpoint of the same run, if there is one."""
        if folder and (arrays := load_checkpoint(folder, key)):
            self.restore(arrays)

    def restore(self, arrays: Arrays) -> None:
        """Go on from what `state` returned."""
        for part, named in self.parts.items():
            put(named, _part_of(arrays, f"{part}/"))
        self.best = _part_of(arrays, "best/")
        values = _part_of(arrays, "values/")
        self.values = {int(step): float(value) for step, value in values.items()}
        self.step = int(arrays["step"])
        device = next(iter(self.trained.values())).device
        moments: dict[int, dict[str, Any]] = {}
        for path, array in _part_of(arrays, "moments/").items():
            number, _, name = path.partition("/")
            moments.setdefault(int(number), {})[name] = torch.tensor(array, device=device)
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})


def arrays_of(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Return copies of tensors by name."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()}


def _part_of(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    names = (name for name in arrays if name.startswith(prefix))
    return {name.removeprefix(prefix): arrays[name] for name in names}
