"""Train the reader that skillsearch ships, from its embedder and graded requests.

Needs the extra ``train`` and safetensors; ``graded_requests.py`` says what the files hold. ::

    python scripts/near_twins.py REQUESTS.jsonl.gz SKILLS.jsonl.gz MORE.jsonl.gz
    python scripts/train_reader.py BASE EMBEDDER SKILLS.jsonl.gz MORE.jsonl.gz
        --without 0-99,600-649,700-749 --out FIRST
    python scripts/build_model.py BASE --reader FIRST
    python scripts/train_reader.py BASE skillsearch/models/e5 SKILLS.jsonl.gz MORE.jsonl.gz
        --without 0-99,600-649,700-749 --seed 3 --learning-rate 6e-5 --epochs .9 --last-step 800
        --out SECOND
    python scripts/build_model.py BASE --reader SECOND
    python scripts/train_reader.py BASE skillsearch/models/e5 SKILLS.jsonl.gz MORE.jsonl.gz
        --without 0-99,600-649,700-749 --seed 5 --learning-rate 6e-5 --epochs .4
        --alone-share .4 --level-share .5 --out THIRD
    python scripts/build_model.py BASE --reader THIRD
    python scripts/near_twins.py ALL.jsonl.gz SKILLS.jsonl.gz MORE_OF_ALL.jsonl.gz
    python scripts/train_reader.py BASE skillsearch/models/e5 SKILLS.jsonl.gz MORE_OF_ALL.jsonl.gz
        --without 0-99,600-649,700-749 --seed 7 --learning-rate 6e-5 --epochs .5
        --alone-share .4 --again-share .35 --level-share .5 --out FOURTH
    python scripts/build_model.py BASE --reader FOURTH

BASE is what ``scripts/model_base.py`` wrote, or the folder of a reader that was built from it;
EMBEDDER is what ``scripts/train_embedder.py`` wrote. The second run trains the reader further that
the first one built, and draws other skills for each request; so does the third, on fewer of the
requests that are easily told; so does the fourth, above all on requests in everyday words: ALL also
has those of ``scripts/training_requests``. An interrupted run goes on from its last checkpoint in
the folder of ``--out``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from graded_requests import (
    FREE_NEAR_MISS,
    Request,
    Skills,
    clusters,
    material_record,
    read_requests,
    renamed,
)
from model_base import read_begin, write_weights
from numpy.typing import NDArray

from skillsearch.index.search.passages import best_passage, passage_text
from skillsearch.index.search.pasted import instruction
from skillsearch.readers.mapped_reader import MAX_TOKENS
from skillsearch.text.tokenizer import document_terms, terms
from skillsearch.training.cross_encoder import ReaderSettings, RequestGroup, pairs_of, train_reader
from skillsearch.training.queries import SkillText

SETTINGS = ReaderSettings(
    epochs=1.0,
    groups=8,
    learning_rate=8e-5,
    head_rate=5.0,
    average=0.99,
    frozen_layers=4,
    save_every=200,
    seed=1,
)
"""How the shipped reader was trained."""
AGENT_SHARE = 0.6
"""Share of the requests of agents that are read: they are many and much alike."""
FIT = 2
"""Skills that fit a request and are read with it, at most."""
WRONG = (2, 3)
"""Judged skills that do not fit and are read with it; the second number in a share of cases."""
MORE_WRONG = 0.3
STRANGER_SHARE, STRANGERS = 0.6, 150
"""So often the nearest of so many skills of other clusters is read: an index brings up such too."""
ALONE = 3
"""Skills that are read with a twin whose original is not there."""
EVERYDAY = "everyday"
"""Source of the requests that the first three runs did not have."""
LONG = "t"
"""Kind of the tasks of a hundred words."""
Item = TypeVar("Item")
_IDF_SAMPLE = 8
_IDF_CHARS = 5_000
_UNKNOWN_IDF = 8.0
_LIBRARIES = ("torch", "transformers", "numpy")


class Drawer:
    """Draws which skills each request is read with, and what of them is shown."""

    def __init__(
        self,
        skills: Skills,
        vectors: NDArray[np.float32],
        seed: int,
        alone_share: float = 1.0,
        again_share: float = 1.0,
    ) -> None:
        self._texts, self._vectors = skills.texts, vectors
        self._alone_share, self._again_share = alone_share, again_share
        self._chance = random.Random(seed)
        sample = self._texts[::_IDF_SAMPLE]
        counts = Counter(
            term
            for skill in sample
            for term in set(document_terms(f"{skill.name} {skill.about} {skill.body}"[:_IDF_CHARS]))
        )
        self._idf = {
            term: math.log((len(sample) - count + 0.5) / (count + 0.5))
            for term, count in counts.items()
            if count < len(sample) / 4
        }
        self._rows: list[int] = []

    def groups(self, requests: Iterable[Request]) -> Iterator[RequestGroup]:
        """Yield requests with their twins; twins whose original is not among them by themselves."""
        read = [request for request in requests if self._is_read(request)]
        self._rows = sorted({row for request in read for row in request.rows})
        originals: dict[tuple[int, str], Request] = {}
        twins: defaultdict[tuple[int, str], list[Request]] = defaultdict(list)
        for request in read:
            if request.twin_of:
                twins[request.cluster, request.twin_of].append(request)
            else:
                originals[request.cluster, request.text] = request
        for key, original in originals.items():
            changed = twins.pop(key, [])
            if self._is_kept(original, changed):
                yield self._group_with(original, changed)
        for first, *_ in twins.values():
            yield self._group(first, self._some(first.rows, ALONE))

    def _is_read(self, request: Request) -> bool:
        if request.kind == FREE_NEAR_MISS and request.source != "hard":
            return False  # The style of these alone tells them.
        return request.source != "agent" or self._chance.random() < AGENT_SHARE

    def _is_kept(self, request: Request, twins: Sequence[Request]) -> bool:
        """Keep everyday requests; of others a share, most with a written twin or long."""
        if request.source == EVERYDAY:
            return True
        if self._again_share < 1 and self._chance.random() >= self._again_share:
            return False
        if request.kind == LONG or not all(twin.rename for twin in twins) or self._alone_share == 1:
            return True
        return self._chance.random() < self._alone_share

    def _group_with(self, request: Request, twins: Sequence[Request]) -> RequestGroup:
        """Return a request with its twins, of the near ones that were made only one."""
        wrong = request.graded(0)
        fit = self._some(request.graded(2), FIT)
        if len(fit) < FIT:
            fit += self._some(request.graded(1), 1)
        rows = fit + self._some(wrong, WRONG[self._chance.random() < MORE_WRONG])
        near = [twin for twin in twins if twin.rename]
        groups: list[RequestGroup] = []
        renamed_skills: list[tuple[SkillText, int]] = []
        for twin in [*(twin for twin in twins if twin not in near), *self._some(near, 1)]:
            both = [row for row in fit if row in twin.rows]
            group = self._twin_group(twin, fit, wrong)
            if both and (skill := self._renamed(both[0], twin)):
                # The skill with the other name fits the twin, and no longer the original.
                group = self._with(group, skill, both[0], request.grades[both[0]])
                renamed_skills.append((skill, both[0]))
            groups.append(group)
            rows += [row for row in twin.graded(2) if row in request.rows and row not in rows][:1]
        if self._chance.random() < STRANGER_SHARE:
            rows.append(self._stranger(request, rows[0]))
        whole = self._group(request, rows)
        for skill, row in renamed_skills:
            whole = self._with(whole, skill, row, 0)
        return whole._replace(twins=tuple(groups))

    def _twin_group(self, twin: Request, fit: Sequence[int], wrong: Sequence[int]) -> RequestGroup:
        """Return a twin with skills that fit its original, one that fits it, and one that never."""
        better = [row for row in twin.graded(2) if row not in fit][:1]
        both = [row for row in fit if row in twin.rows]
        neither = [row for row in wrong if row in twin.rows and row not in twin.grades]
        return self._group(twin, [*both, *better, *self._some(neither, 1)])

    def _renamed(self, row: int, twin: Request) -> SkillText | None:
        """Return a skill with the name of a near twin in place of the original's, if it has it."""
        if twin.rename is None:
            return None
        skill = self._texts[row]
        name, about, body = (
            renamed(text, *twin.rename, in_words=True)
            for text in (skill.name, skill.about, skill.body)
        )
        is_same = (name, about) == (skill.name, skill.about)
        return None if is_same else SkillText(name, about, body)

    def _with(self, group: RequestGroup, skill: SkillText, row: int, grade: int) -> RequestGroup:
        """Return a group that is also read with a skill that was renamed."""
        return group._replace(
            texts=(*group.texts, self._shown(skill, group.request)),
            grades=(*group.grades, grade),
            skills=(*group.skills, (row, skill.name, skill.about)),
        )

    def _stranger(self, request: Request, row: int) -> int:
        """Return the skill nearest to one of a request's, of some that were judged for others."""
        others = [other for other in self._some(self._rows, STRANGERS) if other not in request.rows]
        vector = self._vectors[row]
        return max(others, key=lambda other: float(self._vectors[other] @ vector), default=row)

    def _group(self, request: Request, rows: Sequence[int]) -> RequestGroup:
        text, rows = instruction(request.text) or request.text, tuple(dict.fromkeys(rows))
        grades = tuple(request.grades.get(row, 0) for row in rows)
        shown = tuple(self._shown(self._texts[row], text) for row in rows)
        return RequestGroup(text, shown, grades, rows)

    def _shown(self, skill: SkillText, request: str) -> str:
        """Return what a reader is shown of a skill."""
        weights = {term: self._idf.get(term, _UNKNOWN_IDF) for term in terms(request)}
        return passage_text(skill.name, skill.about, best_passage(skill.body, weights))

    def _some(self, items: Sequence[Item], most: int) -> list[Item]:
        return self._chance.sample(items, min(most, len(items)))


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line."""

    base: Path
    begin: Path
    skills: Path
    requests: Path
    without: str
    seed: int
    alone_share: float
    again_share: float
    level_share: float
    learning_rate: float
    epochs: float
    last_step: int
    device: str
    out: Path

    def settings(self) -> ReaderSettings:
        """Return how to train."""
        return replace(
            SETTINGS,
            seed=self.seed,
            level_share=self.level_share,
            learning_rate=self.learning_rate,
            epochs=self.epochs,
            last_step=self.last_step,
            device=self.device,
        )


def parsed_arguments() -> Options:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("base", type=Path)
    parser.add_argument(
        "begin", type=Path, help="weights of the embedder, or a model whose reader to train on"
    )
    parser.add_argument("skills", type=Path)
    parser.add_argument("requests", type=Path)
    parser.add_argument("--without", default="", help="clusters left out, as 0-199,450-549")
    parser.add_argument("--seed", type=int, default=SETTINGS.seed)
    parser.add_argument(
        "--alone-share",
        type=float,
        default=1.0,
        help="share that is read of the short requests without a written twin",
    )
    parser.add_argument(
        "--again-share",
        type=float,
        default=1.0,
        help="share that is read of what the first three runs have read",
    )
    parser.add_argument("--level-share", type=float, default=SETTINGS.level_share)
    parser.add_argument("--learning-rate", type=float, default=SETTINGS.learning_rate)
    parser.add_argument("--epochs", type=float, default=SETTINGS.epochs)
    parser.add_argument("--last-step", type=int, default=SETTINGS.last_step)
    parser.add_argument("--device", default=SETTINGS.device)
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained weights")
    return Options(**vars(parser.parse_args()))


def main() -> None:
    """Train, and write the weights."""
    options = parsed_arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    skills = Skills.read(options.skills)
    requests = list(read_requests(options.requests, clusters(options.without), skills.rows))
    vectors = skills.vectors({row for request in requests for row in request.rows})
    drawer = Drawer(skills, vectors, options.seed, options.alone_share, options.again_share)
    groups = list(drawer.groups(requests))
    pairs, began = len(pairs_of(groups)), time.monotonic()
    print(f"{len(groups)} requests, {pairs} pairs", file=sys.stderr)

    def tell(_stage: str, done: int, total: int) -> None:
        if done % 20 == 0:
            spent = time.monotonic() - began
            print(f"step {done} of {total}, {spent:.0f} s", file=sys.stderr, flush=True)

    settings = options.settings()
    begin, begin_record = read_begin(options.base, options.begin, "reader", MAX_TOKENS)
    run = options.out / "run"
    trained = train_reader(begin, groups, settings, checkpoints=run, progress=tell)
    record = {
        "settings": asdict(settings),
        **begin_record,
        **material_record(options.skills, options.requests, options.without),
        "alone_share": options.alone_share,
        "again_share": options.again_share,
        "requests": len(groups),
        "twins": sum(len(group.twins) for group in groups),
        "pairs": pairs,
        "steps": trained.steps,
        "versions": {name: importlib.metadata.version(name) for name in _LIBRARIES},
    }
    write_weights(trained.weights, options.out, record)


if __name__ == "__main__":
    main()
