"""Training a reader: requests with graded skills → weights that tell which skills fit."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.readers.mapped_reader import (
    BEYOND,
    HEAD,
    HEAD_NUMBERS,
    HEAD_VECTORS,
    MAX_TOKENS,
    NUMBER_SCALE,
    OUT_OF_REACH,
    PRODUCT_SCALE,
    REQUEST,
    SKILL,
    encode_pair,
)
from skillsearch.training.bert_weights import BertWeights
from skillsearch.training.run_state import RunState, arrays_of, save_checkpoint
from skillsearch.training.torch_bert import TorchBert, put, torch
from skillsearch.types.indexing import Progress

if TYPE_CHECKING:
    from skillsearch.embedders.torch_runtime import Tensor

functional = torch.nn.functional

# Wanted probability that a skill of each grade fits: 2 does what is asked, 1 helps in part.
TARGETS = (0.0, 0.5, 1.0)
# Pairs of similar length that run together: a CPU gains nothing from more, another device does.
_CHUNK, _MOST_AT_ONCE = 24, 96
# Fewer contrasts in a batch than this count less.
_CONTRASTS = 4
# Batches whose groups are sorted by length together, so that chunks need little padding.
_WINDOW = 20


class RequestGroup(NamedTuple):
    """A request, and texts of skills with the grade of each, an index of `TARGETS`.

    Its twins are requests changed so little that the same skills seem to fit, while some do not.
    They are told apart by the skills that both are read with. `skills` has the skill of each text.
    """

    request: str
    texts: tuple[str, ...]
    grades: tuple[int, ...]
    skills: tuple[Hashable, ...] = ()
    twins: tuple[RequestGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """Settings of a training run; the same seed gives the same batches.

    The loss is binary cross-entropy on each pair, by `list_share` cross-entropy over the skills of
    a request, by `twin_share` that of a request against its twin, and by `level_share` that of all
    skills that fit in a batch against those that only seem to. What is kept is the running
    mean of the weights, which forgets by `average`. Words and the first layers are frozen. Each
    `check_every` steps it is checked; after `patience` checks without a better value, it ends, and
    after `last_step`, if that is not 0. The device is one of torch.
    """

    epochs: float = 1.0
    groups: int = 6
    learning_rate: float = 6e-5
    head_rate: float = 10.0
    warm_up: float = 0.06
    weight_decay: float = 0.01
    list_share: float = 0.5
    twin_share: float = 0.5
    level_share: float = 0.0
    average: float = 0.99
    frozen_layers: int = 4
    check_every: int = 100
    patience: int = 4
    last_step: int = 0
    save_every: int = 200
    seed: int = 0
    device: str = "cpu"


class TrainedReader(NamedTuple):
    """The weights of the best check, else the last ones, and each check by its step."""

    weights: BertWeights
    steps: int
    values: Mapping[int, float]


ReadPairs = Callable[[Sequence[tuple[str, str]]], NDArray[np.float64]]
"""Pairs of request and text → a logit each."""


class ReaderHead(torch.nn.Module):  # type: ignore[misc]
    """From the vectors of all tokens of a pair to its logit: two layers, tanh between.

    They see what a bi-encoder would, so that the head begins with what the encoder knows: the mean
    vectors of request and skill, their product at unit length and their difference. Beside these
    the vector of the first token, and how near the tokens of the request come to some token of the
    skill (Khattab and Zaharia, 2020): on average, by learned weights, and for the farthest one.
    """

    def __init__(self, size: int) -> None:
        """Build it with random weights."""
        super().__init__()
        self.token = torch.nn.Linear(size, 1, bias=False)
        torch.nn.init.zeros_(self.token.weight)
        self.inner = torch.nn.Linear(HEAD_VECTORS * size + HEAD_NUMBERS, size)
        self.outer = torch.nn.Linear(size, 1)

    def forward(self, hidden: Tensor, parts: Tensor) -> Tensor:
        """Return the logits of hidden states (b, t, d), and parts of the pairs (b, t)."""
        request, skill = ((parts == part).float().unsqueeze(-1) for part in (REQUEST, SKILL))
        means = [_mean(hidden, tokens) for tokens in (request, skill)]
        product = functional.normalize(means[0], dim=-1) * functional.normalize(means[1], dim=-1)
        unit = functional.normalize(hidden, dim=-1)
        cosines = unit @ unit.transpose(1, 2) + (skill.transpose(1, 2) - 1) * OUT_OF_REACH
        nearest = cosines.max(-1).values.clamp(min=-1).unsqueeze(-1)
        shares = torch.softmax(self.token(hidden) + (request - 1) * 1e9, dim=1)
        numbers = [
            _mean(nearest, request),
            (nearest * shares).sum(1),
            (nearest + (1 - request) * BEYOND).min(1).values.clamp(max=1),
            product.sum(-1, keepdim=True),
        ]
        seen = [hidden[:, 0], *means, product * PRODUCT_SCALE, (means[0] - means[1]).abs()]
        seen += [number * NUMBER_SCALE for number in numbers]
        return self.outer(torch.tanh(self.inner(torch.cat(seen, -1)))).squeeze(-1)


def _mean(values: Tensor, tokens: Tensor) -> Tensor:
    """Return the mean over some tokens, 0 over none."""
    return (values * tokens).sum(1) / tokens.sum(1).clamp(min=1)


class TorchReader:
    """A BERT that reads two texts together, and a `ReaderHead`."""

    def __init__(
        self, weights: BertWeights, seed: int = 0, device: str = "cpu", frozen_layers: int = 0
    ) -> None:
        """Build it; weights without a head get a random one."""
        torch.manual_seed(seed)
        # Without dropout: few passes do not need it, and it costs a third of the time.
        self.bert = TorchBert(weights, device=device, frozen_layers=frozen_layers)
        self._tokenizer, self._limit = weights.words.tokenizer, len(weights.positions)
        self.head = ReaderHead(weights.words.dimensions).to(device)
        put(self.named(), weights.tensors)

    def named(self) -> dict[str, Tensor]:
        """Return all parameters under the names of `BertWeights`."""
        heads = {f"{HEAD}{name}": value for name, value in self.head.named_parameters()}
        return self.bert.named() | heads

    def forward(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        """Return the logits of pairs; pairs of similar length are computed together."""
        limit = min(MAX_TOKENS, self._limit)
        encoded = [encode_pair(self._tokenizer, *pair, limit) for pair in pairs]
        device = self.bert.device

        def logits(rows: Sequence[int], vectors: Tensor, _mask: Tensor) -> Tensor:
            parts = [torch.tensor(encoded[row].parts) for row in rows]
            return self.head(vectors, torch.nn.utils.rnn.pad_sequence(parts, True).to(device))

        size = _CHUNK if device.type == "cpu" else _MOST_AT_ONCE
        return self.bert.in_chunks([pair.ids for pair in encoded], size, logits).cpu()

    def read(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return the logits of pairs."""
        with torch.no_grad():
            logits = self.forward(pairs) if pairs else torch.zeros(0)
        return np.asarray(logits, np.float64)


def pairs_of(groups: Sequence[RequestGroup]) -> list[tuple[str, str]]:
    """Return the pairs of groups, and of their twins, in the order of their logits."""
    return [(member.request, text) for member in _members(groups) for text in member.texts]


def _members(groups: Sequence[RequestGroup]) -> list[RequestGroup]:
    return [member for group in groups for member in (group, *group.twins)]


def group_loss(logits: Tensor, groups: Sequence[RequestGroup], settings: ReaderSettings) -> Tensor:
    """Return the loss of the logits of all texts of some groups, in the order of `pairs_of`.

    Binary cross-entropy against `TARGETS`, the cross-entropy of each group's softmax against
    its grades (ListNet, Cao et al., 2007), and that of a request against its twin, for each skill
    that fits one of them better (RankNet, Burges et al., 2005); a group without a fitting skill has
    the first alone.
    """
    every = _members(groups)
    targets = [torch.tensor([TARGETS[grade] for grade in member.grades]) for member in every]
    parts = logits.split([len(member.texts) for member in every])
    loss = functional.binary_cross_entropy_with_logits(logits, torch.cat(targets))
    for aims, part in zip(targets, parts, strict=True):
        if aims.sum() > 0:
            share = -(aims / aims.sum() * part.log_softmax(dim=0)).sum()
            loss = loss + settings.list_share * share / len(groups)
    logits_of = {id(member): part for member, part in zip(every, parts, strict=True)}
    if contrasts := [number for group in groups for number in _contrasts(group, logits_of)]:
        share = settings.twin_share * min(1.0, len(contrasts) / _CONTRASTS)
        loss = loss + share * functional.softplus(torch.stack(contrasts)).mean()
    if settings.level_share:
        loss = loss + settings.level_share * _level_loss(groups, logits_of)
    return loss


def _level_loss(groups: Sequence[RequestGroup], logits_of: Mapping[int, Tensor]) -> Tensor:
    """Return the cross-entropy of the skills that fit some request against those that seem to.

    Those seem to that are read with a twin and do not fit it. As any is compared with any, logits
    get to mean the same for all requests.
    """

    def graded(members: Iterable[RequestGroup], wanted: int) -> list[Tensor]:
        return [
            logit
            for member in members
            for logit, grade in zip(logits_of[id(member)], member.grades, strict=True)
            if grade == wanted
        ]

    fit = graded(_members(groups), 2)
    seem = graded((twin for group in groups for twin in group.twins), 0)
    if not fit or not seem:
        return torch.zeros(())
    above = torch.stack(seem)[:, None] - torch.stack(fit)
    return min(1.0, len(seem) / _CONTRASTS) * functional.softplus(above).mean()


def _contrasts(group: RequestGroup, logits_of: Mapping[int, Tensor]) -> Iterator[Tensor]:
    """Yield by how much the wrong one of a request and its twin is above the other.

    One number for each skill that both are read with and that fits one of them better.
    """
    for twin in group.twins:
        for column, skill in enumerate(twin.skills):
            if skill not in group.skills:
                continue
            row = group.skills.index(skill)
            if better := group.grades[row] - twin.grades[column]:
                above = logits_of[id(twin)][column] - logits_of[id(group)][row]
                yield above if better > 0 else -above


def reading_loss(
    read: ReadPairs, groups: Sequence[RequestGroup], settings: ReaderSettings
) -> float:
    """Return the loss of a reader on some groups."""
    logits = torch.from_numpy(read(pairs_of(groups))).float()
    return float(group_loss(logits, groups, settings))


def train_reader(
    begin: BertWeights,
    groups: Sequence[RequestGroup],
    settings: ReaderSettings,
    *,
    check: Callable[[ReadPairs], float] | None = None,
    checkpoints: Path | None = None,
    progress: Progress | None = None,
    deadline: float = np.inf,
) -> TrainedReader:
    """Train weights on graded requests.

    Training ends when the check stops improving, or at the `deadline` by `time.monotonic`. With a
    folder for `checkpoints`, the same call goes on where an interrupted one was. Raises
    TrainingError if the weights are no longer finite.
    """
    plan = list(_batches(groups, settings))
    run = _Run(begin, settings, len(plan))
    key = repr((settings, [group.request for group in plan[-1]]))
    run.resume(checkpoints, key)
    for step, batch in enumerate(plan[run.step :], start=run.step + 1):
        run.take(batch)
        is_last = step in (len(plan), settings.last_step) or time.monotonic() > deadline
        if check:
            run.look(check, is_last=is_last)
        if checkpoints and (is_last or step % settings.save_every == 0):
            save_checkpoint(checkpoints, key, run.state())
        if progress:
            progress("train", step, len(plan))
        if is_last or run.is_stale():
            break
    return run.result(begin)


class _Run(RunState):
    """Also holds the running mean of the weights, which is what is validated and kept."""

    def __init__(self, begin: BertWeights, settings: ReaderSettings, steps: int) -> None:
        self._settings, self._steps = settings, steps
        self._reader = TorchReader(begin, settings.seed, settings.device, settings.frozen_layers)
        named = self._reader.named().items()
        trained = {name: parameter for name, parameter in named if parameter.requires_grad}
        heads = {name: trained[name] for name in trained if name.startswith(HEAD)}
        others = {name: trained[name] for name in trained if name not in heads}
        groups = [
            {"params": list(others.values()), "factor": 1.0},
            {"params": list(heads.values()), "factor": settings.head_rate},
        ]
        optimizer = torch.optim.AdamW(groups, weight_decay=settings.weight_decay)
        rate, patience = settings.learning_rate, settings.patience
        super().__init__(trained, optimizer, learning_rate=rate, patience=patience)
        self._means = self.parts["means"] = _copies(trained)

    def take(self, batch: Sequence[RequestGroup]) -> None:
        """Learn from the next batch."""
        settings, step = self._settings, self.step + 1
        # The rate rises, then falls to zero.
        rising = step / max(1.0, settings.warm_up * self._steps)
        share = min(rising, max(0.02, 1.0 - step / (self._steps + 1)))
        loss = group_loss(self._reader.forward(pairs_of(batch)), batch, settings)
        self.descend(loss, settings.learning_rate * share)
        # At first the mean follows fast, so that it forgets the random head.
        past = min(settings.average, step / (step + 10))
        with torch.no_grad():
            for name, parameter in self.trained.items():
                self._means[name].lerp_(parameter, 1.0 - past)

    def look(self, check: Callable[[ReadPairs], float], *, is_last: bool) -> None:
        """Validate the mean of the weights if it is time to, and keep it if it is the best."""
        if not is_last and self.step % self._settings.check_every:
            return
        held = _copies(self.trained)
        put(self.trained, self._means)
        value = check(self._reader.read)
        put(self.trained, held)
        self.note(value, "means")

    def result(self, begin: BertWeights) -> TrainedReader:
        """Return the best weights; BertWeights raises an error if they are not finite."""
        tensors = {**begin.tensors, **(self.best or arrays_of(self._means))}
        return TrainedReader(replace(begin, tensors=tensors), self.step, self.values)


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _batches(
    groups: Sequence[RequestGroup], settings: ReaderSettings
) -> Iterator[tuple[RequestGroup, ...]]:
    """Yield groups of similar length together, in a random order, epoch after epoch."""

    def length(group: RequestGroup) -> int:
        return len(group.request) + max(map(len, group.texts))

    chance = random.Random(settings.seed)
    remaining = round(settings.epochs * len(groups))
    while remaining > 0:
        order = chance.sample(list(groups), len(groups))[:remaining]
        remaining -= len(order)
        for begin in range(0, len(order), settings.groups * _WINDOW):
            window = sorted(order[begin : begin + settings.groups * _WINDOW], key=length)
            some = [
                tuple(window[first : first + settings.groups])
                for first in range(0, len(window), settings.groups)
            ]
            yield from chance.sample(some, len(some))
