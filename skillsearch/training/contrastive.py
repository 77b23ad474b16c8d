"""Contrastive training: weights and batches → weights that put queries next to documents."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedding import head_of
from skillsearch.embedders.unigram import BEGIN, END
from skillsearch.training.bert_weights import BertWeights
from skillsearch.training.plan import SAME, Batch, TrainingSettings
from skillsearch.training.run_state import RunState, arrays_of, save_checkpoint
from skillsearch.training.torch_bert import TorchBert, torch
from skillsearch.types.indexing import Progress

if TYPE_CHECKING:
    from skillsearch.embedders.torch_runtime import Tensor

functional = torch.nn.functional

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
"""Texts → their unit vectors, float32, one row each."""
Validate = Callable[[Embed], float]
"""Validates an embedder on held-out queries; higher is better."""
CHUNK = 32
"""Texts of similar length that run together on a CPU, which gains nothing from more of them and
loses time on padding."""
_MASKED = -1e4
_SKIPPED = 2  # the first steps are slower: memory is allocated, code is compiled


class Trained(NamedTuple):
    """The weights of the best validation, else the last ones, and each validation by its step.

    `seconds` is the time of the fastest step of this call, 0 if too few were done.
    """

    weights: BertWeights
    best_step: int
    steps: int
    values: Mapping[int, float]
    seconds: float


class TorchEmbedder:
    """A BERT with mean pooling and unit length, made neutral as the product's embedder is."""

    def __init__(self, weights: BertWeights, settings: TrainingSettings) -> None:
        """Build it by the settings; raises TrainingError if torch cannot use the device."""
        self.bert = TorchBert(
            weights,
            device=settings.device,
            precision=settings.precision,
            frozen_layers=settings.frozen_layers,
        )
        self._tokenizer, self._limit = weights.words.tokenizer, len(weights.positions)
        device = self.bert.device
        self._neutral = [torch.tensor(part, device=device) for part in weights.neutral or ()]

    def trained(self) -> dict[str, Tensor]:
        """Return the parameters that are not frozen."""
        named = self.bert.named().items()
        return {name: parameter for name, parameter in named if parameter.requires_grad}

    def forward(self, texts: Sequence[str], limit: int, size: int = CHUNK) -> Tensor:
        """Return the vectors of texts, embedding `size` of similar length together."""
        limit = min(limit, self._limit)
        heads = [head_of(text, limit)[0] for text in texts]
        ids = [[BEGIN, *self._tokenizer.encode(head, limit - 2)[0], END] for head in heads]

        def mean(_rows: Sequence[int], vectors: Tensor, mask: Tensor) -> Tensor:
            # bfloat16 is enough for the layers, and too little for the mean of their vectors.
            weights = mask.unsqueeze(-1).float()
            unit = functional.normalize((vectors * weights).sum(dim=1) / weights.sum(dim=1))
            if not self._neutral:
                return unit
            centre, apart = self._neutral
            return functional.normalize((unit - centre) @ apart)

        return self.bert.in_chunks(ids, size, mean)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts; float32, one unit row each."""
        with torch.no_grad():
            rows: NDArray[np.float32] = self.forward(texts, self._limit).cpu().numpy()
        return rows


def train(
    begin: BertWeights,
    plan: Sequence[Batch],
    settings: TrainingSettings,
    *,
    vectors: NDArray[np.floating[Any]],
    teacher: Embed | None = None,
    check: Validate | None = None,
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
    run.resume(checkpoints, key)
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


class _Run(RunState):
    def __init__(
        self, begin: BertWeights, plan: Sequence[Batch], settings: TrainingSettings
    ) -> None:
        self._begin, self._plan = begin, plan
        self._settings = replace(settings, steps=len(plan))
        self._embedder = TorchEmbedder(begin, settings)
        trained = self._embedder.trained()
        optimizer = torch.optim.AdamW(trained.values(), weight_decay=settings.weight_decay)
        rate, patience = settings.learning_rate, settings.patience
        super().__init__(trained, optimizer, learning_rate=rate, patience=patience)
        self._times: list[float] = []

    def key(self) -> str:
        """Return a digest of everything that decides the run."""
        # The last batch depends on all draws before.
        decisive = repr((self._settings, self._plan[0], self._plan[-1]))
        digest = hashlib.sha256(decisive.encode("utf-8", "replace"))
        for name in sorted(self._begin.tensors):
            digest.update(np.ascontiguousarray(self._begin.tensors[name]).data)
        return digest.hexdigest()

    def is_over(self) -> bool:
        return self.step >= self._settings.steps or self.is_stale()

    def take(self, vectors: NDArray[np.floating[Any]], teacher: Embed | None) -> None:
        """Learn from the next batch."""
        began = time.perf_counter()
        settings, device, batch = self._settings, self._embedder.bert.device, self._plan[self.step]
        queries = [pair.query for _, pair in batch]
        documents = [pair.document for _, pair in batch]
        rows = vectors[[row for row, _ in batch]].astype(np.float32)
        same = rows @ rows.T >= SAME
        np.fill_diagonal(same, val=False)
        wanted = None
        if teacher is not None:
            wanted = teacher(queries) @ teacher(documents).T
            wanted = torch.from_numpy(wanted.astype(np.float32)).to(device)
        size = CHUNK if device.type == "cpu" else len(batch)
        ours = self._embedder.forward(queries, settings.query_tokens, size)
        cosines = ours @ self._embedder.forward(documents, settings.document_tokens, size).T
        loss = batch_loss(cosines, torch.from_numpy(same).to(device), settings, wanted)
        self.descend(loss, settings.rate_at(self.step + 1))
        self._times.append(time.perf_counter() - began)

    def look(self, check: Validate, *, is_late: bool) -> None:
        """Validate the weights if it is time to, and keep them if they are the best."""
        is_last = is_late or self.step == self._settings.steps
        if is_last or self.step % self._settings.check_every == 0:
            self.note(check(self._embedder.embed))

    def result(self) -> Trained:
        tensors = {**self._begin.tensors, **(self.best or arrays_of(self.trained))}
        # The fastest step is the least disturbed by other load.
        seconds = min(self._times[_SKIPPED:], default=0.0)
        weights = replace(self._begin, tensors=tensors)
        return Trained(weights, self.best_step or self.step, self.step, self.values, seconds)


@contextlib.contextmanager
def _first_interrupt() -> Iterator[threading.Event]:
    """Catch the first Ctrl-C in an event; the second one ends the run at once."""
    event = threading.Event()
    before = signal.getsignal(signal.SIGINT)
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
