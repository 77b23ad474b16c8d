"""A user's own skills → a model that finds them better, or the advice to keep the old one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedder import load_embedder, model_identity
from skillsearch.embedders.embedding import Role, embed
from skillsearch.errors import MissingDependencyError, TrainingError
from skillsearch.training.bert_weights import (
    BertWeights,
    average,
    begin_weights,
    export,
    folder_of,
    texts_beside,
)
from skillsearch.training.material import Material, mean_gain, read_judged, read_library
from skillsearch.training.measuring import Measured, decide, measure_both
from skillsearch.training.plan import TrainingSettings, make_plan, neighbours
from skillsearch.types import JsonValue, Languages

if TYPE_CHECKING:
    from skillsearch.training.contrastive import Trained
    from skillsearch.training.torch_encoder import Encode
    from skillsearch.types import Progress

SHARES = (1.0, 0.75, 0.5)
"""Shares of the tuned weights that are tried, the rest being the original ones."""
_NEEDED = ("sentence-transformers", "onnx", "ir-measures")
_PLANNED = "planned.json"
_LOOKED_AT = 1_000  # candidates of a query in validation
_LOOKS = 5
_TRIED_STEPS, _TRIED_SKILLS = 5, 256
_LEAST_STEPS = 20
_MOST_EPOCHS = 60
SETTINGS = TrainingSettings(freeze_words=True)


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """Options of a tuning, with the specs of a model and of a teacher to learn from.

    `languages` is the setting of the indexes to measure by; `keep` writes a model that is not
    better.
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

    `skills` and `judged` queries were trained on; `share` is of the tuned weights. It is 0 and
    nothing `measured` if the old ones were best already.
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
    """Tune a model on skills, and measure whether that was worth it; if interrupted, it continues.

    `progress` gets the stages ``read``, ``embed``, ``train`` and ``search``, `tell` a sentence
    about what comes next. Raises TrainingError if it has too little to learn from, or cannot be
    done.
    """
    for package in _NEEDED:
        if util.find_spec(package.replace("-", "_")) is None:
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


def learn_from(teacher: str) -> Callable[[Sequence[str], Role], NDArray[np.float32]]:
    """Load an embedder to learn from, by its spec; repeated documents are embedded once."""
    embedder = load_embedder(teacher)
    known: dict[str, NDArray[np.float32]] = {}

    def encode(texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        if role == "query":
            return embed(embedder, texts, role=role)
        missing = list(dict.fromkeys(text for text in texts if text not in known))
        known.update(zip(missing, embed(embedder, missing, role=role), strict=True))
        return np.stack([known[text] for text in texts])

    return encode


def make_work_dir(out: Path) -> Path:
    """Make or take over the folder beside `out` for a run; TrainingError if it cannot be used."""
    work_dir = out.with_name(f".{out.name}.unfinished")
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise TrainingError(f"{out} already exists; name a folder that is new or empty.")
        work_dir.mkdir(parents=True, exist_ok=True)
        if not os.access(work_dir, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as exc:
        raise TrainingError(
            f"{out} cannot be written: {exc.strerror or exc}; name another folder."
        ) from exc
    return work_dir


@dataclass
class _Tuning:
    options: TuneOptions
    settings: TrainingSettings
    work_dir: Path
    progress: Progress
    tell: Callable[[str], None]

    def __post_init__(self) -> None:
        """Read the skills and the model, and embed the skills with it."""
        self._started = time.monotonic()
        options, progress = self.options, self.progress
        self.settings = replace(self.settings, seed=options.seed)
        library = read_library(options.roots, progress)
        chosen, self._lost = read_judged(options.queries, library) if options.queries else ([], 0)
        self._embedder = load_embedder(options.model)
        scripts = self._embedder.scripts
        self._material = Material.gather(list(library.values()), chosen, scripts, options.seed)
        self._begin = begin_weights(options.model)
        texts = [f"{skill.name}: {skill.about}" for skill in self._material.skills]
        began = time.monotonic()
        self._vectors = embed(
            self._embedder, texts, progress=lambda done: progress("embed", done, len(texts))
        )
        self._seconds_per_text = (time.monotonic() - began) / len(texts)
        teacher = options.teacher
        self._teacher = learn_from(teacher) if teacher else None

    def run(self) -> Tuned:
        options, material, out = self.options, self._material, None
        trained, settings = self._train()
        share, gains = self._best_share(trained.weights, settings)
        measured: dict[str, Measured] = {}
        if gains or options.keep:
            fresh = self._export(trained, share)
            self.tell("Measuring the gain on held-out requests.")
            for name, collection in material.collections().items():
                measured[name] = measure_both(
                    collection,
                    options.model,
                    f"onnx:{fresh}",
                    work=self.work_dir / "measured",
                    languages=options.languages,
                    progress=self.progress,
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

        vectors, skills, planned = self._vectors, self._material.skills, self.work_dir / _PLANNED
        options, material = self.options, self._material
        decisive = (material, model_identity(options.model), options.seed, options.teacher)
        key = hashlib.sha256(repr(decisive).encode("utf-8", "replace")).hexdigest()
        steps = 0
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads(planned.read_bytes())
            steps = int(record["steps"]) if record["key"] == key else 0
        if steps >= _LEAST_STEPS:
            self.tell(f"Continuing an interrupted tuning of {steps:,} steps.")
        else:
            tried, some = replace(self.settings, steps=_TRIED_STEPS), slice(_TRIED_SKILLS)
            plan = make_plan(skills[some], neighbours(vectors[some]), tried)
            trial = train(self._begin, plan, tried, vectors=vectors, teacher=self._teacher)
            steps = self._count_steps(trial.seconds)
            planned.write_text(json.dumps({"key": key, "steps": steps}))
            self.tell(
                f"Tuning on {len(skills):,} skills: {steps:,} steps of {trial.seconds:.1f} s."
            )
        looks = max(1, math.ceil(steps / _LOOKS))
        settings = replace(self.settings, steps=steps, check_every=looks)
        trained = train(
            self._begin,
            make_plan(skills, neighbours(vectors), settings, material.judged),
            settings,
            vectors=vectors,
            teacher=self._teacher,
            check=self._gain,
            deadline=time.monotonic() + self._time_left(0),
            checkpoints=self.work_dir / "checkpoints",
            progress=self.progress,
        )
        return trained, settings

    def _time_left(self, looks: int) -> float:
        """Return the seconds left after validations, the choice of a share, and measuring."""
        looked_at = min(_LOOKED_AT, len(self._material.skills))
        texts = (looks + len(SHARES) + 1) * looked_at
        for one in self._material.collections().values():
            texts += 2 * (len(one.documents) + len(one.queries))
        used = time.monotonic() - self._started
        return 60 * self.options.minutes - used - texts * self._seconds_per_text

    def _count_steps(self, seconds_per_step: float) -> int:
        left, minutes = self._time_left(_LOOKS), self.options.minutes
        most = math.ceil(_MOST_EPOCHS * len(self._material.skills) / self.settings.batch_size)
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
        wanted = dict.fromkeys(query.rows[0] for query in watched)
        rows = list(dict.fromkeys([*wanted, *range(len(skills))]))[:_LOOKED_AT]
        places = {row: place for place, row in enumerate(rows)}
        documents = encode([f"{skills[row].name}: {skills[row].about}" for row in rows], "passage")
        queries = encode([query.query for query in watched], "query")
        return mean_gain(queries, [places[query.rows[0]] for query in watched], documents)

    def _best_share(self, tuned: BertWeights, settings: TrainingSettings) -> tuple[float, bool]:
        """Return the best share of tuned weights by the watched requests, and if it gains."""
        from skillsearch.training.torch_encoder import TorchEncoder

        found = {}
        for share in (*sorted(SHARES), 0.0):
            with TorchEncoder.load(average(self._begin, tuned, share), settings) as encoder:
                found[share] = self._gain(encoder.encode)
        before = found.pop(0.0)
        best = max(found, key=found.__getitem__)
        return best, found[best] > before

    def _export(self, trained: Trained, share: float) -> Path:
        fresh = self.work_dir / "model"
        shutil.rmtree(fresh, ignore_errors=True)
        scripts, old = self._embedder.scripts, self._embedder.name
        notice, licence = texts_beside(self.options.model)
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
