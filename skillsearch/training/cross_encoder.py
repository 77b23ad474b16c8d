"""Training a reader: requests with graded skills → weights that tell which skills fit."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import TrainingError
from skillsearch.readers.reader import (
    BEYOND,
    HEAD,
    HEAD_NUMBERS,
    HEAD_VECTORS,
    NUMBER_SCALE,
    OUT_OF_REACH,
    PRODUCT_SCALE,
    REQUEST,
    SKILL,
    encode_pairs,
)
from skillsearch.training.bert_weights import WORDS, BertWeights
from skillsearch.training.torch_bert import build_bert, torch
from skillsearch.types import Progress

if TYPE_CHECKING:
    from skillsearch.embedders.torch_runtime import Tensor

functional = torch.nn.functional
logger = logging.getLogger(__name__)

# Wanted probability that a skill of each grade fits: 2 does what is asked, 1 helps in part.
TARGETS = (0.0, 0.5, 1.0)
# Pairs of similar length that run together: a CPU gains nothing from more, another device does.
_CHUNK, _MOST_AT_ONCE = 24, 96
# Fewer contrasts in a batch than this count less.
_CONTRASTS = 4
# Batches whose groups are sorted by length together, so that chunks need little padding.
_WINDOW = 20


class Group(NamedTuple):
    """A request, and texts of skills with the grade of each, an index of `TARGETS`.

    Its twins are requests changed so little that the same skills seem to fit, but do not. They are
    told apart by the skills that both are read with; `skills` names the skill of each text.
    """

    request: str
    texts: tuple[str, ...]
    grades: tuple[int, ...]
    skills: tuple[Hashable, ...] = ()
    twins: tuple[Group, ...] = ()

    @property
    def read_together(self) -> tuple[Group, ...]:
        """The group itself, then its twins."""
        return (self, *self.twins)


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """Settings of a training run; the same seed gives the same batches.

    The loss is binary cross-entropy on each pair, by `list_share` cross-entropy over the skills of
    a request, and by `twin_share` that of a request against its twin. What is kept is the running
    mean of the weights, which forgets by `average`. Each `check_every` steps it is checked; after
    `patience` checks without a better value, training ends. The device is one of torch.
    """

    epochs: float = 1.0
    groups: int = 6
    learning_rate: float = 6e-5
    head_rate: float = 10.0
    warm_up: float = 0.06
    weight_decay: float = 0.01
    list_share: float = 0.5
    twin_share: float = 0.5
    average: float = 0.99
    check_every: int = 100
    patience: int = 4
    seed: int = 0
    device: str = "cpu"


class TrainedReader(NamedTuple):
    """The weights of the best check, else the last ones, and each check by its step."""

    weights: BertWeights
    steps: int
    values: Mapping[int, float]


Read = Callable[[Sequence[tuple[str, str]]], NDArray[np.float64]]
"""Pairs of request and text → a logit each."""


class ReaderHead(torch.nn.Module):  # type: ignore[misc]
    """From the vectors of all tokens of a pair to its logit: two layers, tanh between.

    They see what a bi-encoder would, so that the head begins with what the encoder knows: the mean
    vectors of request and skill, their product at unit length and their difference. Beside these
    the vector of [CLS], and how near the tokens of the request come to some token of the skill
    (Khattab and Zaharia, 2020): on average, by learned weights, and for the one that is farthest.
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
        request, skill = ((parts == one).float().unsqueeze(-1) for one in (REQUEST, SKILL))
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
        seen += [one * NUMBER_SCALE for one in numbers]
        return self.outer(torch.tanh(self.inner(torch.cat(seen, -1)))).squeeze(-1)


def _mean(values: Tensor, tokens: Tensor) -> Tensor:
    """Return the mean over some tokens, 0 over none."""
    return (values * tokens).sum(1) / tokens.sum(1).clamp(min=1)


class TorchReader:
    """A BERT that reads two texts together, and a `ReaderHead`."""

    def __init__(self, weights: BertWeights, seed: int = 0, device: str = "cpu") -> None:
        """Build it; weights without a head get a random one."""
        torch.manual_seed(seed)
        # Without dropout: few passes do not need it, and it costs a third of the time.
        self.bert, self._tokenizer, self.is_half = build_bert(weights, device, "sdpa")
        self.head = ReaderHead(weights.size("hidden_size")).to(device)
        self.put(weights.tensors)
        self.bert.get_parameter(WORDS).requires_grad = False

    def named(self) -> dict[str, Tensor]:
        """Return all parameters under the names of `BertWeights`."""
        heads = {f"{HEAD}{name}": one for name, one in self.head.named_parameters()}
        return dict(self.bert.named_parameters()) | heads

    def put(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the weights that are given, arrays or tensors."""
        with torch.no_grad():
            for name, parameter in self.named().items():
                if name in tensors:
                    one = tensors[name]
                    parameter.copy_(one if torch.is_tensor(one) else torch.tensor(one))

    def forward(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        """Return the logits of pairs, those of similar length computed together."""
        device = self.bert.device
        encoded = encode_pairs(self._tokenizer, pairs)
        order = torch.argsort(torch.tensor([len(one.ids) for one in encoded]), stable=True)
        found = []
        for rows in order.split(_CHUNK if device.type == "cpu" else _MOST_AT_ONCE):
            some = [encoded[row] for row in rows]
            columns = zip(*((one.ids, one.parts, [1] * len(one.ids)) for one in some), strict=True)
            tokens, parts, mask = (
                torch.nn.utils.rnn.pad_sequence(list(map(torch.tensor, one)), True).to(device)
                for one in columns
            )
            # Without a mask attention takes half the time.
            given = mask if len({len(one.ids) for one in some}) > 1 else None
            with torch.autocast(device.type, torch.bfloat16, enabled=self.is_half):
                vectors = self.bert(input_ids=tokens, attention_mask=given).last_hidden_state
            found.append(self.head(vectors.float(), parts))
        return torch.cat(found).cpu()[torch.argsort(order)]

    def read(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return the logits of pairs."""
        with torch.no_grad():
            found = self.forward(pairs) if pairs else torch.zeros(0)
        return np.asarray(found, np.float64)


def pairs_of(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """Return the pairs of groups, and of their twins, in the order of their logits."""
    every = (one for group in groups for one in group.read_together)
    return [(one.request, text) for one in every for text in one.texts]


def group_loss(logits: Tensor, groups: Sequence[Group], settings: ReaderSettings) -> Tensor:
    """Return the loss of the logits of all texts of some groups, in the order of `pairs_of`.

    Binary cross-entropy against `TARGETS`, the cross-entropy of each group's softmax against
    its grades (ListNet, Cao et al., 2007), and that of a request against its twin, for each skill
    that fits (RankNet, Burges et al., 2005); a group without a fitting skill has the first alone.
    """
    every = [one for group in groups for one in group.read_together]
    targets = [torch.tensor([TARGETS[grade] for grade in one.grades]) for one in every]
    parts = logits.split([len(one.texts) for one in every])
    loss = functional.binary_cross_entropy_with_logits(logits, torch.cat(targets))
    for aims, part in zip(targets, parts, strict=True):
        if aims.sum() > 0:
            share = -(aims / aims.sum() * part.log_softmax(dim=0)).sum()
            loss = loss + settings.list_share * share / len(groups)
    found = {id(one): part for one, part in zip(every, parts, strict=True)}
    if contrasts := [one for group in groups for one in _contrasts(group, found)]:
        share = settings.twin_share * min(1.0, len(contrasts) / _CONTRASTS)
        loss = loss + share * functional.softplus(torch.stack(contrasts)).mean()
    return loss


def _contrasts(group: Group, found: Mapping[int, Tensor]) -> Iterator[Tensor]:
    """Yield how far a twin is above its original, for each skill that fits the original alone."""
    for twin in group.twins:
        for place, skill in enumerate(twin.skills):
            if skill in group.skills and group.grades[row := group.skills.index(skill)] > 0:
                yield found[id(twin)][place] - found[id(group)][row]


def reading_loss(read: Read, groups: Sequence[Group], settings: ReaderSettings) -> float:
    """Return the loss of what a reader says of some groups."""
    logits = torch.from_numpy(read(pairs_of(groups))).float()
    return float(group_loss(logits, groups, settings))


def train_reader(
    begin: BertWeights,
    groups: Sequence[Group],
    settings: ReaderSettings,
    *,
    check: Callable[[Read], float] | None = None,
    progress: Progress | None = None,
    deadline: float = np.inf,
) -> TrainedReader:
    """Train weights on graded requests; word embeddings stay as they are.

    Training ends when the check stops improving, or at the `deadline` by `time.monotonic`. Raises
    TrainingError if there is nothing to learn from, or the weights are no longer finite.
    """
    if not groups:
        raise TrainingError("There is no request to learn from; judge some first.")
    plan = list(_batches(groups, settings))
    run = _Run(begin, settings, len(plan))
    for step, batch in enumerate(plan, start=1):
        run.take(batch)
        is_last = step == len(plan) or time.monotonic() > deadline
        if check and (is_last or step % settings.check_every == 0):
            run.look(check)
        if progress:
            progress("train", step, len(plan))
        if is_last or run.is_stale():
            break
    return run.result(begin)


class _Run:
    """The state of a training: the weights, their running mean, and the best of those checked."""

    def __init__(self, begin: BertWeights, settings: ReaderSettings, steps: int) -> None:
        self._settings, self._steps = settings, steps
        self._reader = TorchReader(begin, settings.seed, settings.device)
        self._trained = {
            name: one for name, one in self._reader.named().items() if one.requires_grad
        }
        heads = [one for name, one in self._trained.items() if name.startswith(HEAD)]
        others = [one for name, one in self._trained.items() if not name.startswith(HEAD)]
        parts = [{"params": others, "factor": 1.0}, {"params": heads, "factor": settings.head_rate}]
        self._optimizer = torch.optim.AdamW(parts, weight_decay=settings.weight_decay)
        self._means = _copies(self._trained)
        self._best: dict[str, Tensor] = {}
        self._values: dict[int, float] = {}
        self._step = 0

    def take(self, batch: Sequence[Group]) -> None:
        """Learn from the next batch."""
        self._step += 1
        settings, step = self._settings, self._step
        # The rate rises, then falls to zero.
        rising = step / max(1.0, settings.warm_up * self._steps)
        rate = settings.learning_rate * min(rising, max(0.02, 1.0 - step / (self._steps + 1)))
        for part in self._optimizer.param_groups:
            part["lr"] = rate * part["factor"]
        group_loss(self._reader.forward(pairs_of(batch)), batch, settings).backward()
        torch.nn.utils.clip_grad_norm_(self._trained.values(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()
        # At first the mean follows fast, so that it forgets the random head.
        kept = min(settings.average, self._step / (self._step + 10))
        with torch.no_grad():
            for name, one in self._trained.items():
                self._means[name].lerp_(one, 1.0 - kept)

    def look(self, check: Callable[[Read], float]) -> None:
        """Check the mean of the weights, and keep it if it is the best."""
        held = _copies(self._trained)
        self._reader.put(self._means)
        value = check(self._reader.read)
        self._reader.put(held)
        if not np.isfinite(value):
            raise TrainingError(
                f"The training gave no numbers at step {self._step}; lower the learning rate, "
                f"{self._settings.learning_rate:g} now."
            )
        if value > max(self._values.values(), default=-np.inf):
            self._best = _copies(self._means)
        self._values[self._step] = value
        logger.info("step %d: %.4f on held-out requests", self._step, value)

    def is_stale(self) -> bool:
        """Return whether the last checks found nothing better."""
        best = max(self._values, key=self._values.__getitem__, default=0)
        return sum(step > best for step in self._values) >= self._settings.patience

    def result(self, begin: BertWeights) -> TrainedReader:
        """Return the best weights; BertWeights raises an error if they are not finite."""
        tensors = {name: one.cpu().numpy() for name, one in (self._best or self._means).items()}
        weights = replace(begin, tensors={**begin.tensors, **tensors})
        return TrainedReader(weights, self._step, self._values)


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: one.detach().clone() for name, one in tensors.items()}


def _batches(groups: Sequence[Group], settings: ReaderSettings) -> Iterator[tuple[Group, ...]]:
    """Yield groups of similar length together, in a random order, epoch after epoch."""

    def length(group: Group) -> int:
        return len(group.request) + max(map(len, group.texts))

    chance = random.Random(settings.seed)
    left = round(settings.epochs * len(groups))
    while left > 0:
        order = chance.sample(list(groups), len(groups))[:left]
        left -= len(order)
        for begin in range(0, len(order), settings.groups * _WINDOW):
            window = sorted(order[begin : begin + settings.groups * _WINDOW], key=length)
            some = [
                tuple(window[place : place + settings.groups])
                for place in range(0, len(window), settings.groups)
            ]
            yield from chance.sample(some, len(some))
