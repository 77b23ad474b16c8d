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
from skillsearch.training import tuning_inputs
from skillsearch.training.bert_weights import BertWeights, average, export
from skillsearch.training.material import Material, mean_gain, read_judged
from skillsearch.training.measuring import Measured, decide, measure_both
from skillsearch.training.plan import TrainingSettings, make_plan, neighbours
from skillsearch.types import JsonValue, Languages

if TYPE_CHECKING:
    from skillsearch.training.contrastive import Trained
    from skillsearch.training.torch_run import Encode
    from skillsearch.types import Progress

SHARES = (1.0, 0.75, 0.5)
"""Shares of the tuned weights that are tried, the rest being the original ones."""
_NEEDED = ("sentence-transformers", "onnx", "ir-measures")
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
    """The result of a tuning: the folder of the model, if one was written, and how it came.

    Attributes:
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
            **{name: getattr(self, name) for name in ("skills", "judged", "steps", "share")},
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
    next. Raises TrainingError if there is too little to learn from, or the model cannot be tuned or
    written.
    """
    for package in _NEEDED:
        if util.find_spec(package.replace("-", "_")) is None:
            raise MissingDependencyError(package, "train", "Tuning a model")
    tuning_inputs.folder_of(options.model)
    work_dir = tuning_inputs.make_work_dir(options.out)
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
        """Read the skills and the model, and embed the skills with it."""
        self._started = time.monotonic()
        self._options, self._work_dir = options, work_dir
        self._settings = replace(settings, seed=options.seed)
        self._progress, self._tell = progress, tell
        library = tuning_inputs.read_library(options.roots, progress)
        chosen, self._lost = (
            read_judged(options.queries, library.names, library.doc_ids)
            if options.queries
            else ([], 0)
        )
        self._embedder = load_embedder(options.model)
        scripts = self._embedder.scripts
        self._material = Material.gather(library.texts, chosen, scripts, options.seed)
        self._begin = tuning_inputs.begin_weights(options.model)
        texts = [f"{skill.name}: {skill.about}" for skill in self._material.skills]
        began = time.monotonic()
        self._vectors = embed(
            self._embedder, texts, progress=lambda done: progress("embed", done, len(texts))
        )
        self._seconds_per_text = (time.monotonic() - began) / len(texts)
        teacher = options.teacher
        self._teacher = tuning_inputs.learn_from(teacher) if teacher else None

    def run(self) -> Tuned:
        """Train, choose, measure and write."""
        options, material, out = self._options, self._material, None
        trained, settings = self._train()
        share, gains = self._best_share(trained.weights, settings)
        measured: dict[str, Measured] = {}
        if gains or options.keep:
            fresh = self._export(trained, share)
            self._tell("Measuring the gain on held-out requests.")
            for name, collection in material.collections().items():
                measured[name] = measure_both(
                    collection,
                    options.model,
                    f"onnx:{fresh}",
                    work=self._work_dir / "measured",
                    languages=options.languages,
                    progress=self._progress,
                )
            if options.keep or decide(measured):
                out = fresh.replace(options.out)
        note = f"Judged queries left out because none of their skills is here: {self._lost}."
        return Tuned(
            is_better=gains and decide(measured),
            folder=out,
            skills=len(material.skills),
            judged=len(material.judged),
            steps=trained.steps,
            share=share if measured else 0.0,
            measured=measured,
            seconds=time.monotonic() - self._started,
            notes=(note,) if self._lost else (),
        )

    def _train(self) -> tuple[Trained, TrainingSettings]:
        """Find out how many steps there is time for, and do them."""
        from skillsearch.training.contrastive import train

        vectors, skills, planned = self._vectors, self._material.skills, self._work_dir / _PLANNED
        options, material = self._options, self._material
        decisive = (material, model_identity(options.model), options.seed, options.teacher)
        key = hashlib.sha256(repr(decisive).encode("utf-8", "replace")).hexdigest()
        steps = _read_steps(planned, key)
        if steps:
            self._tell(f"Continuing an interrupted tuning of {steps:,} steps.")
        else:
            tried, some = replace(self._settings, steps=_TRIED_STEPS), slice(_TRIED_SKILLS)
            plan = make_plan(skills[some], neighbours(vectors[some]), tried)
            trial = train(self._begin, plan, tried, vectors=vectors, teacher=self._teacher)
            steps = self._count_steps(trial.seconds)
            planned.write_text(json.dumps({"key": key, "steps": steps}))
            self._tell(
                f"Tuning on {len(skills):,} skills: {steps:,} steps of {trial.seconds:.1f} s."
            )
        looks = max(1, math.ceil(steps / _LOOKS))
        settings = replace(self._settings, steps=steps, check_every=looks)
        trained = train(
            self._begin,
            make_plan(skills, neighbours(vectors), settings, material.judged),
            settings,
            vectors=vectors,
            teacher=self._teacher,
            check=self._gain,
            deadline=time.monotonic() + self._time_left(0),
            checkpoints=self._work_dir / "checkpoints",
            progress=self._progress,
        )
        return trained, settings

    def _time_left(self, looks: int) -> float:
        """Return the seconds left after validations, the choice of a share, and measuring."""
        looked_at = min(_LOOKED_AT, len(self._material.skills))
        texts = (looks + len(SHARES) + 1) * looked_at
        for one in self._material.collections().values():
            texts += 2 * (len(one.documents) + len(one.queries))
        used = time.monotonic() - self._started
        return 60 * self._options.minutes - used - texts * self._seconds_per_text

    def _count_steps(self, seconds_per_step: float) -> int:
        """Return how many steps there is time for."""
        left, minutes = self._time_left(_LOOKS), self._options.minutes
        most = math.ceil(_MOST_EPOCHS * len(self._material.skills) / self._settings.batch_size)
        steps = min(int(left / seconds_per_step), most)
        if steps < _LEAST_STEPS:
            needed = math.ceil(minutes + (_LEAST_STEPS * seconds_per_step - left) / 60)
            raise TrainingError(
                f"{minutes:g} minutes are too few here: a step takes {seconds_per_step:.1f} s; "
                f"give at least --minutes {needed}."
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

    def _best_share(self, tuned: BertWeights, settings: TrainingSettings) -> tuple[float, bool]:
        """Return the best share of tuned weights by the watched requests, and if it gains."""
        from skillsearch.training.contrastive import encoder_of

        found = {}
        for share in (*sorted(SHARES), 0.0):
            with encoder_of(average(self._begin, tuned, share), settings) as encode:
                found[share] = self._gain(encode)
        before = found.pop(0.0)
        best = max(found, key=found.__getitem__)
        return best, found[best] > before

    def _export(self, trained: Trained, share: float) -> Path:
        """Write the model to the work folder."""
        fresh = self._work_dir / "model"
        shutil.rmtree(fresh, ignore_errors=True)
        scripts, old = self._embedder.scripts, self._embedder.name
        notice, licence = tuning_inputs.texts_beside(self._options.model)
        made = {"from": old, "skills": len(self._material.skills), "steps": trained.steps}
        extra = {"scripts": sorted(scripts)} if scripts else {}
        export(
            average(self._begin, trained.weights, share),
            fresh,
            name=f"{old} (tuned)",
            notice=f"{notice}\nTuned on the skills of a user by skillsearch tune.\n".lstrip(),
            licence=licence,
            extra={**extra, "tuned": {**made, "share": share}},
        )
        return fresh


def _read_steps(planned: Path, key: str) -> int:
    """Return the number of steps that an interrupted run planned; 0 without one."""
    try:
        record = json.loads(planned.read_bytes())
        steps = int(record["steps"]) if record["key"] == key else 0
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return steps if steps >= _LEAST_STEPS else 0
