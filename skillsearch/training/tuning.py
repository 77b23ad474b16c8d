"""A user's own skills → a model that finds them better, or the advice to keep the old one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING

from skillsearch.embedders.embedder import load_embedder, model_identity
from skillsearch.embedders.embedding import embed
from skillsearch.errors import MissingDependencyError, TrainingError
from skillsearch.training.bert_weights import BertWeights, average
from skillsearch.training.material import Material, mean_gain, read_judged
from skillsearch.training.measuring import Measured, decide, measure_both
from skillsearch.training.plan import TrainingSettings, make_plan, neighbours
from skillsearch.training.tuning_inputs import (
    begin_weights,
    folder_of,
    learn_from,
    make_work_dir,
    read_library,
    texts_beside,
)
from skillsearch.types import JsonValue, Languages

if TYPE_CHECKING:
    from skillsearch.training.contrastive import Trained
    from skillsearch.training.torch_run import Encode
    from skillsearch.types import Progress

SHARES = (1.0, 0.75, 0.5)
"""Shares of the tuned weights that are tried, the rest being the original ones."""
_NEEDED = {"sentence_transformers": "sentence-transformers", "accelerate": "accelerate"}
_NEEDED |= {"datasets": "datasets", "onnx": "onnx", "ir_measures": "ir-measures"}
_PLANNED = "planned.json"
_LOOKED_AT = 1_000
"""Candidates of a query in validation."""
_LOOKS = 5
_TRIED_STEPS, _TRIED_SKILLS = 5, 256
_LEAST_STEPS = 20
_MOST_EPOCHS = 60
SETTINGS = TrainingSettings(freeze_words=True)


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """Options of a tuning.

    Attributes:
        queries: Judged queries, as `read_judged` reads them.
        minutes: Approximate time limit, measuring included.
        teacher: Model spec of an embedder to learn from.
        languages: Languages of the indexes to measure by.
        keep: Whether to write the model even if it is not better.
    """

    roots: tuple[Path, ...]
    out: Path
    model: str = "onnx"
    queries: Path | None = None
    minutes: float = 20.0
    seed: int = 0
    teacher: str | None = None
    languages: Languages = "auto"
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of a tuning.

    Attributes:
        folder: Folder of the model; None if none was written.
        skills: Different skills trained on.
        judged: Judged queries trained on.
        share: Share of the tuned weights in the model; 0 if the old ones were best already.
        measured: Gains on ``held_out`` requests and on ``judged`` queries that were not trained;
            empty if the old weights were best already.
    """

    is_better: bool
    folder: Path | None
    skills: int
    judged: int
    steps: int
    share: float
    measured: Mapping[str, Measured]
    seconds: float
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            "better": self.is_better,
            "folder": None if self.folder is None else str(self.folder),
            "skills": self.skills,
            "judged": self.judged,
            "steps": self.steps,
            "share": self.share,
            "measured": {name: one.to_dict() for name, one in self.measured.items()},
            "seconds": round(self.seconds, 1),
            "notes": list(self.notes),
        }


def tune(
    options: TuneOptions,
    *,
    progress: Progress,
    tell: Callable[[str], None],
    settings: TrainingSettings = SETTINGS,
) -> Tuned:
    """Tune a model on skills, and measure whether that was worth it.

    An interrupted tuning continues at its last checkpoint when it is started again. `progress` gets
    the stages ``read``, ``embed``, ``train`` and ``search``, `tell` a sentence about what comes
    next. The folder is written if the gain is more than chance. Raises TrainingError if there is
    too little to learn from, or the model cannot be tuned or written.
    """
    for module, package in _NEEDED.items():
        if util.find_spec(module) is None:
            raise MissingDependencyError(package, "train", "Tuning a model")
    folder_of(options.model)
    work_dir = make_work_dir(options.out)
    try:
        tuned = _Tuning(options, settings, work_dir, progress, tell).run()
        shutil.rmtree(work_dir, ignore_errors=True)
    finally:
        # A refused tuning leaves nothing, an interrupted one its checkpoint.
        with contextlib.suppress(OSError):
            work_dir.rmdir()
    return tuned


class _Tuning:
    """One tuning, from the texts to the report."""

    def __init__(
        self,
        options: TuneOptions,
        settings: TrainingSettings,
        work_dir: Path,
        progress: Progress,
        tell: Callable[[str], None],
    ) -> None:
        self._began = time.monotonic()
        self._options, self._settings, self._work_dir = options, settings, work_dir
        self._progress, self._tell = progress, tell
        self._notes: list[str] = []
        library = read_library(options.roots, progress)
        chosen, lost = (
            read_judged(options.queries, library.names, library.doc_ids)
            if options.queries
            else ([], 0)
        )
        if lost:
            self._notes.append(
                f"Judged queries left out because none of their skills is here: {lost}."
            )
        self._embedder = load_embedder(options.model)
        scripts = self._embedder.scripts
        self._material = Material.gather(library.texts, chosen, scripts, options.seed)

    def run(self) -> Tuned:
        """Train, choose, measure and write."""
        begin = begin_weights(self._options.model)
        trained, settings = self._train(begin)
        share, gains = self._best_share(begin, trained.weights, settings)
        measured: dict[str, Measured] = {}
        folder = None
        if gains or self._options.keep:
            fresh = self._export(average(begin, trained.weights, share), trained.steps, share)
            measured = self._measure(fresh)
            if self._options.keep or decide(measured):
                folder = self._options.out
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
        seconds_per_text = (time.monotonic() - began) / len(texts)
        near = neighbours(vectors)
        teacher = learn_from(self._options.teacher) if self._options.teacher else None
        settings = replace(self._settings, seed=self._options.seed)
        steps = self._planned()
        if steps is None:
            tried, some = replace(settings, steps=_TRIED_STEPS), slice(_TRIED_SKILLS)
            plan = make_plan(material.skills[some], neighbours(vectors[some]), tried)
            seconds_per_step = train(begin, plan, tried, vectors=vectors, teacher=teacher).seconds
            steps = self._count_steps(seconds_per_step, self._time_left(seconds_per_text, _LOOKS))
            (self._work_dir / _PLANNED).write_text(json.dumps({"key": self._key(), "steps": steps}))
            self._tell(
                f"Tuning on {len(texts):,} skills: {steps:,} steps of {seconds_per_step:.1f} s."
            )
        settings = replace(settings, steps=steps, check_every=max(1, math.ceil(steps / _LOOKS)))
        trained = train(
            begin,
            make_plan(material.skills, near, settings, material.judged),
            settings,
            vectors=vectors,
            teacher=teacher,
            check=self._gain,
            deadline=time.monotonic() + self._time_left(seconds_per_text, 0),
            checkpoints=self._work_dir / "checkpoints",
            progress=progress,
        )
        return trained, settings

    def _planned(self) -> int | None:
        """Return the number of steps that an interrupted run planned; None without one."""
        try:
            record = json.loads((self._work_dir / _PLANNED).read_bytes())
            steps = int(record["steps"]) if record["key"] == self._key() else 0
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if steps < _LEAST_STEPS:
            return None
        self._tell(f"Continuing an interrupted tuning of {steps:,} steps.")
        return steps

    def _key(self) -> str:
        """Identify everything that decides a run but its steps."""
        options = self._options
        texts = (self._material, model_identity(options.model), options.seed, options.teacher)
        return hashlib.sha256(repr(texts).encode("utf-8", "replace")).hexdigest()

    def _time_left(self, seconds_per_text: float, looks: int) -> float:
        """Return the seconds left after validations, the choice of a share, and measuring."""
        looked_at = min(_LOOKED_AT, len(self._material.skills))
        looking = (looks + len(SHARES) + 1) * looked_at
        measuring = 2 * sum(
            len(one.documents) + len(one.queries) for one in self._material.collections().values()
        )
        used = time.monotonic() - self._began
        return 60 * self._options.minutes - used - (looking + measuring) * seconds_per_text

    def _count_steps(self, seconds_per_step: float, left: float) -> int:
        """Return how many steps there is time for."""
        most = math.ceil(_MOST_EPOCHS * len(self._material.skills) / self._settings.batch_size)
        steps = min(int(left / seconds_per_step), most)
        if steps < _LEAST_STEPS:
            needed = math.ceil(
                self._options.minutes + (_LEAST_STEPS * seconds_per_step - left) / 60
            )
            raise TrainingError(
                f"{self._options.minutes:g} minutes are too few here: a step takes "
                f"{seconds_per_step:.1f} s; give at least --minutes {needed}."
            )
        return steps

    def _gain(self, encode: Encode) -> float:
        """Return how well an encoder finds the skills of the watched requests."""
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
        """Return the best share of tuned weights by the watched requests, and if it gains."""
        from skillsearch.training.contrastive import encoder_of

        found = {}
        for share in (*sorted(SHARES), 0.0):
            with encoder_of(average(begin, tuned, share), settings) as encode:
                found[share] = self._gain(encode)
        before = found.pop(0.0)
        best = max(found, key=found.__getitem__)
        return best, found[best] > before

    def _export(self, weights: BertWeights, steps: int, share: float) -> Path:
        """Write the model to the work folder."""
        from skillsearch.training.bert_weights import export

        fresh = self._work_dir / "model"
        shutil.rmtree(fresh, ignore_errors=True)
        scripts, old = self._embedder.scripts, self._embedder.name
        notice, licence = texts_beside(self._options.model)
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
        self._tell("Measuring the gain on held-out requests.")
        return {
            name: measure_both(
                collection,
                self._options.model,
                f"onnx:{fresh}",
                work=self._work_dir / "measured",
                languages=self._options.languages,
                progress=self._progress,
            )
            for name, collection in self._material.collections().items()
        }
