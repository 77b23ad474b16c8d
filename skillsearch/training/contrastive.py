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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedding import Role, head_of
from skillsearch.errors import TrainingError, explained
from skillsearch.training.bert_weights import MAX_TOKENS, WORDS, BertWeights
from skillsearch.training.plan import SAME, Batch, TrainingSettings
from skillsearch.training.torch_bert import build_bert, torch
from skillsearch.types import Progress

if TYPE_CHECKING:
    from skillsearch.embedders.onnx_embedder import Tokenizer
    from skillsearch.embedders.torch_runtime import Module, Tensor

functional = torch.nn.functional
logger = logging.getLogger(__name__)

Arrays = Mapping[str, NDArray[Any]]
Encode = Callable[[Sequence[str], Role], NDArray[np.float32]]
"""Texts in a role → their unit vectors, float32, one row each."""
Check = Callable[[Encode], float]
"""Validates an encoder on held-out queries; higher is better."""
CHUNK = 32
"""Texts of similar length that run together on a CPU, which gains nothing from more of them and
loses time on padding."""
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


@dataclass(frozen=True, slots=True, eq=False)
class TorchEncoder:
    """A BERT with mean pooling and unit length, without dropout; it may run in bfloat16."""

    model: Module
    _tokenizer: Tokenizer
    is_half: bool

    @classmethod
    def load(cls, weights: BertWeights, settings: TrainingSettings) -> TorchEncoder:
        """Build a model by the settings; raises TrainingError if torch cannot use the device."""
        # On a CPU the other kind of attention is slower, and in bfloat16 far slower.
        attention = "eager" if settings.device == "cpu" else "sdpa"
        encoder = cls(*build_bert(weights, settings.device, attention, settings.precision))
        encoder.put(weights.tensors)
        encoder.model.get_parameter(WORDS).requires_grad = not settings.freeze_words
        return encoder

    def tensors(self) -> dict[str, NDArray[np.float32]]:
        """Return a copy of the weights under their names."""
        weights = self.model.named_parameters()
        return {name: one.detach().float().cpu().numpy().copy() for name, one in weights}

    def put(self, tensors: Arrays) -> None:
        """Load weights that `tensors` returned."""
        state = {name: torch.from_numpy(np.array(one)) for name, one in tensors.items()}
        self.model.load_state_dict(state, strict=False)

    def embed(self, texts: Sequence[str], limit: int) -> Tensor:
        """Return the vectors of texts, embedding texts of similar length together."""
        device, limit = self.model.device, min(limit, self.model.config.max_position_embeddings)
        self._tokenizer.enable_truncation(limit)
        found = self._tokenizer.encode_batch([head_of(text, limit)[0] for text in texts])
        ids = [torch.tensor(one.ids) for one in found]
        order = torch.argsort(torch.tensor(list(map(len, ids))), stable=True)
        parts = []
        with torch.autocast(device.type, torch.bfloat16, enabled=self.is_half):
            for rows in order.split(CHUNK if device.type == "cpu" else len(ids)):
                some = [ids[row] for row in rows]
                masks = [torch.ones_like(one) for one in some]
                both = (torch.nn.utils.rnn.pad_sequence(one, True) for one in (some, masks))
                tokens, mask = (one.to(device) for one in both)
                output = self.model(input_ids=tokens, attention_mask=mask).last_hidden_state
                # bfloat16 is enough for the layers, and too little for the mean of their vectors.
                vectors, kept = output.float(), mask.unsqueeze(-1).float()
                parts.append(functional.normalize((vectors * kept).sum(dim=1) / kept.sum(dim=1)))
        return torch.cat(parts)[torch.argsort(order).to(device)]

    def encode(self, texts: Sequence[str], role: Role = "passage") -> NDArray[np.float32]:
        """Embed texts, whatever their role; float32, one unit row each."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        rows = np.zeros((len(texts), self.model.config.hidden_size), np.float32)
        with torch.no_grad():
            for begin in range(0, len(order), CHUNK):
                places = order[begin : begin + CHUNK]
                rows[places] = self.embed([texts[place] for place in places], MAX_TOKENS).cpu()
        return rows


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
    deadline: float = np.inf,
) -> Trained:
    """Train weights on the batches of a plan; after Ctrl-C, the same call continues.

    Skills that are the same by their `vectors`, in the rows of the plan, are not negatives of each
    other. Of a `teacher` only the cosines count. The `check` validates every `settings.check_every`
    steps and after the last one; training ends when it stops improving, or at the `deadline` by
    `time.monotonic`. Raises TrainingError if it is not finite, or a checkpoint cannot be used.
    """
    run = _Run(begin, plan, settings)
    key = run.key()
    if checkpoints and (state := load_checkpoint(checkpoints, key)):
        run.restore(state)
    is_last = run.is_over()
    with _first_interrupt() as interrupted:
        while not is_last:
            run.take(vectors, teacher)
            is_late = time.monotonic() > deadline
            if check:
                run.look(check, is_late=is_late)
            is_last = is_late or run.is_over() or interrupted.is_set()
            if checkpoints and (is_last or run.step % settings.save_every == 0):
                save_checkpoint(checkpoints, key, run.state())
            if progress:
                progress("train", run.step, len(plan))
    if interrupted.is_set() and not run.is_over():
        raise KeyboardInterrupt
    return run.result()


def batch_loss(
    cosines: Tensor, same: Tensor, settings: TrainingSettings, teacher: Tensor | None = None
) -> Tensor:
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


class _Run:
    """The state of a training; from `state` it can be restored."""

    def __init__(
        self, begin: BertWeights, plan: Sequence[Batch], settings: TrainingSettings
    ) -> None:
        self._begin, self._plan = begin, plan
        self._settings = replace(settings, steps=len(plan))
        self._encoder = TorchEncoder.load(begin, settings)
        self._trained = [one for one in self._encoder.model.parameters() if one.requires_grad]
        self._optimizer = torch.optim.AdamW(self._trained, weight_decay=settings.weight_decay)
        self._values: dict[int, float] = {}
        self._best: Arrays = {}
        self._times: list[float] = []
        self.step = 0

    def key(self) -> str:
        """Return a digest of everything that decides the run."""
        # The last batch depends on all draws before.
        decisive = repr((self._settings, self._plan[0], self._plan[-1]))
        digest = hashlib.sha256(decisive.encode("utf-8", "replace"))
        for name in sorted(self._begin.tensors):
            digest.update(np.ascontiguousarray(self._begin.tensors[name]).data)
        return digest.hexdigest()

    def _best_step(self) -> int:
        return max(self._values, key=self._values.__getitem__, default=0)

    def is_over(self) -> bool:
        since = [step for step in self._values if step > self._best_step()]
        return self.step >= self._settings.steps or len(since) >= self._settings.patience

    def take(self, vectors: NDArray[np.floating[Any]], teacher: Encode | None) -> None:
        """Learn from the next batch."""
        began = time.perf_counter()
        settings, device, batch = self._settings, self._encoder.model.device, self._plan[self.step]
        queries = [pair.query for _, pair in batch]
        documents = [pair.document for _, pair in batch]
        rows = vectors[[row for row, _ in batch]].astype(np.float32)
        same = rows @ rows.T >= SAME
        np.fill_diagonal(same, val=False)
        wanted = None
        if teacher is not None:
            wanted = teacher(queries, "query") @ teacher(documents, "passage").T
            wanted = torch.from_numpy(wanted.astype(np.float32)).to(device)
        ours = self._encoder.embed(queries, settings.query_tokens)
        cosines = ours @ self._encoder.embed(documents, settings.document_tokens).T
        batch_loss(cosines, torch.from_numpy(same).to(device), settings, wanted).backward()
        torch.nn.utils.clip_grad_norm_(self._trained, 1.0)
        self.step += 1
        for group in self._optimizer.param_groups:
            group["lr"] = settings.rate_at(self.step)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self._times.append(time.perf_counter() - began)

    def look(self, check: Check, *, is_late: bool) -> None:
        """Validate the weights if it is time to, and keep them if they are the best."""
        is_last = is_late or self.step == self._settings.steps
        if self.step % self._settings.check_every and not is_last:
            return
        value = check(self._encoder.encode)
        if not np.isfinite(value):
            raise TrainingError(
                f"The training gave no numbers at step {self.step}; lower the learning rate, "
                f"{self._settings.learning_rate:g} now."
            )
        if value > max(self._values.values(), default=-np.inf):
            self._best = self._encoder.tensors()
        self._values[self.step] = value
        logger.info("step %d: %.4f on held-out queries", self.step, value)

    def result(self) -> Trained:
        tensors = {**self._begin.tensors, **(self._best or self._encoder.tensors())}
        # The fastest step is the least disturbed by other load.
        seconds = min(self._times[_SKIPPED:], default=0.0)
        weights = replace(self._begin, tensors=tensors)
        return Trained(weights, self._best_step() or self.step, self.step, self._values, seconds)

    def state(self) -> Arrays:
        """Return everything that the rest of the run depends on."""
        arrays: dict[str, NDArray[Any]] = {
            "step": np.array(self.step),
            "looks": np.array(list(self._values), np.int64),
            "values": np.array(list(self._values.values()), np.float64),
        }
        arrays |= {f"weights/{name}": one for name, one in self._encoder.tensors().items()}
        arrays |= {f"best/{name}": one for name, one in self._best.items()}
        for place, one in self._optimizer.state_dict()["state"].items():
            for name in _MOMENTS:
                arrays[f"moments/{place}/{name}"] = np.asarray(one[name].detach().float().cpu())
        return arrays

    def restore(self, arrays: Arrays) -> None:
        def part(prefix: str) -> Arrays:
            names = (path for path in arrays if path.startswith(prefix))
            return {path.removeprefix(prefix): arrays[path] for path in names}

        moments: dict[int, dict[str, Tensor]] = {}
        for path, one in part("moments/").items():
            place, _, name = path.partition("/")
            tensor = torch.from_numpy(np.array(one)).to(self._encoder.model.device)
            moments.setdefault(int(place), {})[name] = tensor
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": moments})
        self._encoder.put(part("weights/"))
        self.step, self._best = int(arrays["step"]), part("best/")
        values = arrays["looks"].tolist(), arrays["values"].tolist()
        self._values = dict(zip(*values, strict=True))


@contextlib.contextmanager
def _first_interrupt() -> Iterator[threading.Event]:
    """Catch the first Ctrl-C in an event; the second one ends the run at once."""
    event, before = threading.Event(), signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()

    def catch(_signal: int, _frame: object) -> None:
        event.set()
        signal.signal(signal.SIGINT, before)

    if is_main:
        signal.signal(signal.SIGINT, catch)
    try:
        yield event
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)
