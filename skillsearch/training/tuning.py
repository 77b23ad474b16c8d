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
from skillsearch.evaluation.assess import assess
from skillsearch.evaluation.jobs import Job, answer_all
from skillsearch.evaluation.report import SIGNIFICANT, system_means
from skillsearch.evaluation.types import Collection, Comparison, SystemSpec
from skillsearch.training.bert_weights import (
    BertWeights,
    average,
    begin_weights,
    export,
    folder_of,
    texts_beside,
)
from skillsearch.training.material import LOOKED_AT, Material, read_judged, read_library
from skillsearch.training.plan import TrainingSettings, make_plan, neighbours
from skillsearch.types import JsonValue, Languages, Progress, System

if TYPE_CHECKING:
    from skillsearch.training.contrastive import Trained

SHARES = (1.0, 0.75, 0.5)
"""Shares of the tuned weights that are tried, the rest being the original ones."""
_NEEDED = ("sentence-transformers", "onnx", "ir-measures")  # the first brings torch
_PLANNED = "planned.json"
_LOOKS = 5
_TRIED_STEPS, _TRIED_SKILLS = 5, 256
_LEAST_STEPS = 20
_MOST_EPOCHS = 60
SETTINGS = TrainingSettings(freeze_words=True)
MEASURES = ("nDCG@10", "R@5", "Success@1")
DECISIVE = "nDCG@10"
SYSTEMS: tuple[System, ...] = ("dense", "hybrid")
HYBRID_MAY_LOSE = 0.01  # held-out requests share words with their skill, which favours BM25
DECISIVE_JUDGED = 30  # so many judged queries decide, instead of the held-out ones


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """Options of a tuning, with the specs of a model and of a teacher to learn from.

    `languages` is the setting of the indexes to measure by; `keep` writes even a worse model.
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
class Change:
    """Means of `MEASURES` by the old and the new model, and a test of `DECISIVE`."""

    before: Mapping[str, float]
    after: Mapping[str, float]
    test: Comparison

    @property
    def is_certain(self) -> bool:
        """Whether the difference is more than chance."""
        return self.test.p_value < SIGNIFICANT

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            "before": {name: round(value, 6) for name, value in self.before.items()},
            "after": {name: round(value, 6) for name, value in self.after.items()},
            "difference": round(self.test.difference, 6),
            "interval": [round(end, 6) for end in self.test.interval],
            "p_value": round(self.test.p_value, 6),
        }


@dataclass(frozen=True, slots=True)
class Measured:
    """Changes of each of `SYSTEMS` on so many queries among so many skills."""

    queries: int
    documents: int
    changes: Mapping[str, Change]

    @property
    def is_better(self) -> bool:
        """Whether something is better beyond chance, and the hybrid hardly lower."""
        gains = [one for one in self.changes.values() if one.test.difference > 0]
        is_kept = self.changes["hybrid"].test.difference >= -HYBRID_MAY_LOSE
        return is_kept and any(one.is_certain for one in gains)

    @property
    def is_worse(self) -> bool:
        """Whether the hybrid is worse beyond chance."""
        hybrid = self.changes["hybrid"]
        return hybrid.test.difference < 0 and hybrid.is_certain

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        changes = {name: one.to_dict() for name, one in self.changes.items()}
        return {"queries": self.queries, "documents": self.documents, **changes}


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
    about what comes next. Raises TrainingError if that cannot be done.
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


def measure_both(
    collection: Collection,
    models: tuple[str, str],
    *,
    work: Path,
    languages: Languages = "auto",
    progress: Progress | None = None,
) -> Measured:
    """Let the old and the new model, given by their specs, answer the queries of a collection."""
    specs = [
        SystemSpec(f"{system} {time}", system, model, languages=languages)
        for system in SYSTEMS
        for time, model in zip(("before", "after"), models, strict=True)
    ]
    answers = answer_all(Job(collection), specs, work=work, progress=progress).systems
    changes: dict[str, Change] = {}
    for number, system in enumerate(SYSTEMS):
        report = assess(collection, answers[2 * number : 2 * number + 2], examples=0)
        means = map(dict, system_means(report).values())
        old, new = ({name: one[name] for name in MEASURES} for one in means)
        test = next(one for one in report.comparisons if one.measure == DECISIVE)
        changes[system] = Change(old, new, test)
    return Measured(len(collection.queries), len(collection.documents), changes)


def decide(measured: Mapping[str, Measured]) -> bool:
    """Return whether a model is better on enough ``judged`` queries, or else on ``held_out``."""
    judged = measured.get("judged")
    is_enough = judged is not None and judged.queries >= DECISIVE_JUDGED
    decisive = judged if is_enough else measured.get("held_out")
    is_worse = any(one.is_worse for one in measured.values())
    return decisive is not None and decisive.is_better and not is_worse


class _Tuning:
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
        self._options, self._settings = options, replace(settings, seed=options.seed)
        self._work_dir, self._progress, self._tell = work_dir, progress, tell
        library = read_library(options.roots, progress)
        chosen, self._lost = read_judged(options.queries, library) if options.queries else ([], 0)
        self._embedder = load_embedder(options.model)
        scripts = self._embedder.scripts
        self._material = Material.gather(list(library.values()), chosen, scripts, options.seed)
        self._begin = begin_weights(options.model)
        texts = [skill.metadata() for skill in self._material.skills]
        began = time.monotonic()
        self._vectors = embed(
            self._embedder, texts, progress=lambda done: progress("embed", done, len(texts))
        )
        self._seconds_per_text = (time.monotonic() - began) / len(texts)
        self._teacher = learn_from(options.teacher) if options.teacher else None

    def run(self) -> Tuned:
        options, material, out = self._options, self._material, None
        trained = self._train(self._count_steps())
        share, gains = self._best_share(trained.weights)
        measured: dict[str, Measured] = {}
        if gains or options.keep:
            fresh, work = self._export(trained, share), self._work_dir / "measured"
            models, languages = (options.model, f"onnx:{fresh}"), options.languages
            self._tell("Measuring the gain on held-out requests.")
            for name, collection in material.collections().items():
                measured[name] = measure_both(
                    collection, models, work=work, languages=languages, progress=self._progress
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

    def _count_steps(self) -> int:
        """Return how many steps there is time for, after a trial, or an interrupted tuning did."""
        from skillsearch.training.contrastive import train

        options, skills, planned = self._options, self._material.skills, self._work_dir / _PLANNED
        decisive = (self._material, model_identity(options.model), options.seed, options.teacher)
        key = hashlib.sha256(repr(decisive).encode("utf-8", "replace")).hexdigest()
        steps = 0
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads(planned.read_bytes())
            steps = int(record["steps"]) if record["key"] == key else 0
        if steps >= _LEAST_STEPS:
            self._tell(f"Continuing an interrupted tuning of {steps:,} steps.")
            return steps
        tried, some = replace(self._settings, steps=_TRIED_STEPS), self._vectors[:_TRIED_SKILLS]
        plan = make_plan(skills[:_TRIED_SKILLS], neighbours(some), tried)
        trial = train(self._begin, plan, tried, vectors=some, teacher=self._teacher)
        left, seconds = self._time_left(_LOOKS), trial.seconds
        most = math.ceil(_MOST_EPOCHS * len(skills) / self._settings.batch_size)
        steps = min(int(left / seconds), most)
        if steps < _LEAST_STEPS:
            needed = math.ceil(options.minutes + (_LEAST_STEPS * seconds - left) / 60)
            raise TrainingError(
                f"{options.minutes:g} minutes are too few here: a step takes {seconds:.1f} s; "
                f"give at least --minutes {needed}."
            )
        planned.write_text(json.dumps({"key": key, "steps": steps}))
        self._tell(f"Tuning on {len(skills):,} skills: {steps:,} steps of {seconds:.1f} s.")
        return steps

    def _train(self, steps: int) -> Trained:
        from skillsearch.training.contrastive import train

        looks = max(1, math.ceil(steps / _LOOKS))
        settings, material = replace(self._settings, steps=steps, check_every=looks), self._material
        return train(
            self._begin,
            make_plan(material.skills, neighbours(self._vectors), settings, material.judged),
            settings,
            vectors=self._vectors,
            teacher=self._teacher,
            check=material.gain,
            deadline=time.monotonic() + self._time_left(0),
            checkpoints=self._work_dir / "checkpoints",
            progress=self._progress,
        )

    def _time_left(self, looks: int) -> float:
        """Return the seconds left after validations, the choice of a share, and measuring."""
        looked_at = min(LOOKED_AT, len(self._material.skills))
        texts = (looks + len(SHARES) + 1) * looked_at
        for one in self._material.collections().values():
            texts += 2 * (len(one.documents) + len(one.queries))
        used = time.monotonic() - self._started
        return 60 * self._options.minutes - used - texts * self._seconds_per_text

    def _best_share(self, tuned: BertWeights) -> tuple[float, bool]:
        """Return the best share of tuned weights by the watched requests, and if it gains."""
        from skillsearch.training.contrastive import TorchEncoder

        found = {}
        for share in (*sorted(SHARES), 0.0):
            encoder = TorchEncoder.load(average(self._begin, tuned, share), self._settings)
            found[share] = self._material.gain(encoder.encode)
        before = found.pop(0.0)
        best = max(found, key=found.__getitem__)
        return best, found[best] > before

    def _export(self, trained: Trained, share: float) -> Path:
        fresh = self._work_dir / "model"
        shutil.rmtree(fresh, ignore_errors=True)
        scripts, old = self._embedder.scripts, self._embedder.name
        notice, licence = texts_beside(self._options.model)
        made = {"from": old, "skills": len(self._material.skills), "steps": trained.steps}
        extra = {"scripts": sorted(scripts)} if scripts else {}
        export(
            average(self._begin, trained.weights, share),
            fresh,
            name=f"{old} (tuned)",
            notice=f"{notice or ''}\nTuned on the skills of a user by skillsearch tune.\n".lstrip(),
            licence=licence,
            extra={**extra, "tuned": {**made, "share": share}},
        )
        return fresh
