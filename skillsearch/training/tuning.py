"""A user's own skills → a model that finds them better, or the advice to keep the old one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING

from skillsearch.embedders.embedder import load_embedder, model_identity
from skillsearch.embedders.embedding import embed
from skillsearch.errors import MissingDependencyError, TrainingError
from skillsearch.training.batches import neighbours
from skillsearch.training.bert_weights import BertWeights, average
from skillsearch.training.held_out import mean_gain
from skillsearch.training.judged_queries import read_judged
from skillsearch.training.material import Material
from skillsearch.training.measuring import Measured, decide, measure_both
from skillsearch.training.plan import make_plan
from skillsearch.training.settings import TrainingSettings
from skillsearch.training.tuning_inputs import (
    begin_weights,
    folder_of,
    learn_from,
    make_room,
    read_library,
    texts_beside,
)
from skillsearch.training.tuning_types import Tuned, Wishes

if TYPE_CHECKING:
    from skillsearch.training.contrastive import Trained
    from skillsearch.training.torch_run import Encode
    from skillsearch.types import Progress

SHARES = (1.0, 0.75, 0.5)
"""Shares of the tuned weights that are tried, the rest being those they began with."""
_NEEDED = {"sentence_transformers": "sentence-transformers", "accelerate": "accelerate"}
_NEEDED |= {"datasets": "datasets", "onnx": "onnx", "ir_measures": "ir-measures"}
_PLANNED = "planned.json"
_LOOKED_AT = 1_000
"""Skills among which queries look for theirs while the training goes on."""
_LOOKS = 5
_TRIED_STEPS, _TRIED_SKILLS = 5, 256
_LEAST_STEPS = 20
_MOST_EPOCHS = 60
_SETTINGS = TrainingSettings(freeze_words=True)


def tune(wishes: Wishes, *, progress: Progress, tell: Callable[[str], None]) -> Tuned:
    """Tune a model on skills, and measure whether that was worth it.

    An interrupted tuning goes on at its last checkpoint when it is begun again.

    Args:
        wishes: What, and how.
        progress: Told how far it is: stages ``read``, ``embed``, ``train`` and ``search``.
        tell: Told in a sentence what comes next, and how long it takes.

    Returns:
        What was gained. The folder is written where that is more than chance.

    Raises:
        TrainingError: When there is too little to learn from, the model cannot be tuned, or the
            folder cannot be written.
        MissingDependencyError: When an extra is not installed.
        RootError: When a root cannot be read.
        EvaluationError: When the judged queries cannot be read.
    """
    for module, package in _NEEDED.items():
        if util.find_spec(module) is None:
            raise MissingDependencyError(package, "train", "Tuning a model")
    folder_of(wishes.model)
    room = make_room(wishes.out)
    try:
        tuned = _Tuning(wishes, room, progress, tell).run()
        shutil.rmtree(room, ignore_errors=True)
    finally:
        # What was refused leaves nothing, what was interrupted its checkpoint.
        with contextlib.suppress(OSError):
            room.rmdir()
    return tuned


class _Tuning:
    """One tuning, from the texts to the report."""

    def __init__(
        self, wishes: Wishes, room: Path, progress: Progress, tell: Callable[[str], None]
    ) -> None:
        self._began = time.monotonic()
        self._wishes, self._room = wishes, room
        self._progress, self._tell = progress, tell
        self._notes: list[str] = []
        library = read_library(wishes.roots, progress)
        chosen, lost = (
            read_judged(wishes.queries, library.names, library.doc_ids)
            if wishes.queries
            else ([], 0)
        )
        if lost:
            self._notes.append(
                f"Judged queries left out, for none of their skills is here: {lost}."
            )
        self._embedder = load_embedder(wishes.model)
        scripts = self._embedder.scripts
        self._material = Material.gather(library.texts, chosen, scripts, wishes.seed)

    def run(self) -> Tuned:
        """Train, choose, measure and write."""
        begin = begin_weights(self._wishes.model)
        trained, settings = self._train(begin)
        share, gains = self._best_share(begin, trained.weights, settings)
        measured: dict[str, Measured] = {}
        folder = None
        if gains or self._wishes.keep:
            fresh = self._export(average(begin, trained.weights, share), trained.steps, share)
            measured = self._measure(fresh)
            if self._wishes.keep or decide(measured):
                folder = self._wishes.out
                fresh.replace(folder)
        material = self._material
        return Tuned(
            is_better=gains and decide(measured),
            folder=folder,
            skills=len(material.skills),
            judged=len(material.judged),
            steps=trained.steps,
            share=share if measured else 0.0,
            measured=measured,
            seconds=time.monotonic() - self._began,
            notes=tuple(self._notes),
        )

    def _train(self, begin: BertWeights) -> tuple[Trained, TrainingSettings]:
        """Find out how many steps there is time for, and do them."""
        from skillsearch.training.contrastive import train

        material, progress = self._material, self._progress
        texts = [f"{skill.name}: {skill.about}" for skill in material.skills]
        began = time.monotonic()
        vectors = embed(
            self._embedder, texts, progress=lambda done: progress("embed", done, len(texts))
        ).vectors
        a_text = (time.monotonic() - began) / len(texts)
        near = neighbours(vectors)
        teacher = learn_from(self._wishes.teacher) if self._wishes.teacher else None
        settings = replace(_SETTINGS, seed=self._wishes.seed)
        steps = self._planned()
        if steps is None:
            tried, some = replace(settings, steps=_TRIED_STEPS), slice(_TRIED_SKILLS)
            plan = make_plan(material.skills[some], neighbours(vectors[some]), tried)
            a_step = train(begin, plan, tried, vectors=vectors, teacher=teacher).seconds
            steps = self._count_steps(a_step, self._time_left(a_text, _LOOKS))
            (self._room / _PLANNED).write_text(json.dumps({"key": self._key(), "steps": steps}))
            self._tell(f"Tuning on {len(texts):,} skills: {steps:,} steps of {a_step:.1f} s.")
        settings = replace(settings, steps=steps, check_every=max(1, math.ceil(steps / _LOOKS)))
        trained = train(
            begin,
            make_plan(material.skills, near, settings, material.judged),
            settings,
            vectors=vectors,
            teacher=teacher,
            check=self._gain,
            deadline=time.monotonic() + self._time_left(a_text, 0),
            checkpoints=self._room / "checkpoints",
            progress=progress,
        )
        return trained, settings

    def _planned(self) -> int | None:
        """Return the steps that an interrupted run planned; None where there is none."""
        try:
            record = json.loads((self._room / _PLANNED).read_bytes())
            steps = int(record["steps"]) if record["key"] == self._key() else 0
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if steps < _LEAST_STEPS:
            return None
        self._tell(f"Going on with an interrupted tuning of {steps:,} steps.")
        return steps

    def _key(self) -> str:
        """Name all that decides a run but its steps."""
        wishes = self._wishes
        texts = (self._material, model_identity(wishes.model), wishes.seed, wishes.teacher)
        return hashlib.sha256(repr(texts).encode("utf-8", "replace")).hexdigest()

    def _time_left(self, a_text: float, looks: int) -> float:
        """Return the seconds that are left beside some looks, choosing a share and measuring."""
        looked_at = min(_LOOKED_AT, len(self._material.skills))
        looking = (looks + len(SHARES) + 1) * looked_at
        measuring = 2 * sum(
            len(one.documents) + len(one.queries) for one in self._material.collections().values()
        )
        used = time.monotonic() - self._began
        return 60 * self._wishes.minutes - used - (looking + measuring) * a_text

    def _count_steps(self, a_step: float, left: float) -> int:
        """Return how many steps there is time for."""
        most = math.ceil(_MOST_EPOCHS * len(self._material.skills) / _SETTINGS.batch_size)
        steps = min(int(left / a_step), most)
        if steps < _LEAST_STEPS:
            needed = math.ceil(self._wishes.minutes + (_LEAST_STEPS * a_step - left) / 60)
            raise TrainingError(
                f"{self._wishes.minutes:g} minutes are too few here, where a step takes "
                f"{a_step:.1f} s; give it at least --minutes {needed}."
            )
        return steps

    def _gain(self, encode: Encode) -> float:
        """Say how well an encoder finds the skills that watched requests were struck from."""
        watched, skills = self._material.watched, self._material.skills
        wanted = dict.fromkeys(query.row for query in watched)
        rows = list(dict.fromkeys([*wanted, *range(len(skills))]))[:_LOOKED_AT]
        places = {row: place for place, row in enumerate(rows)}
        documents = encode([f"{skills[row].name}: {skills[row].about}" for row in rows], "passage")
        queries = encode([query.text for query in watched], "query")
        return mean_gain(queries, [places[query.row] for query in watched], documents)

    def _best_share(
        self, begin: BertWeights, tuned: BertWeights, settings: TrainingSettings
    ) -> tuple[float, bool]:
        """Return the share of tuned weights that finds most of what is watched, and if more so."""
        from skillsearch.training.contrastive import encoder_of

        found = {}
        for share in (*sorted(SHARES), 0.0):
            with encoder_of(average(begin, tuned, share), settings) as encode:
                found[share] = self._gain(encode)
        before = found.pop(0.0)
        best = max(found, key=found.__getitem__)
        return best, found[best] > before

    def _export(self, weights: BertWeights, steps: int, share: float) -> Path:
        """Write the model beside where it is to be."""
        from skillsearch.training.onnx_export import export

        fresh = self._room / "model"
        shutil.rmtree(fresh, ignore_errors=True)
        scripts, old = self._embedder.scripts, self._embedder.name
        notice, licence = texts_beside(self._wishes.model)
        made = {"from": old, "skills": len(self._material.skills), "steps": steps, "share": share}
        export(
            weights,
            fresh,
            name=f"{old} (tuned)",
            notice=f"{notice}\nTuned on the skills of a user by skillsearch tune.\n".lstrip(),
            licence=licence,
            extra={**({"scripts": sorted(scripts)} if scripts else {}), "tuned": made},
        )
        return fresh

    def _measure(self, fresh: Path) -> dict[str, Measured]:
        """Compare the old model with the new one."""
        self._tell("Measuring what was gained on requests that were held out.")
        return {
            name: measure_both(
                collection,
                self._wishes.model,
                f"onnx:{fresh}",
                work=self._room / "measured",
                languages=self._wishes.languages,
                progress=self._progress,
            )
            for name, collection in self._material.collections().items()
        }
