"""A user's own skills → a model that finds them better, or the advice to keep the old one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedder import load_embedder, model_identity
from skillsearch.embedders.embedding import Embedder, embed
from skillsearch.errors import TrainingError, explained, require_installed
from skillsearch.files.private import make_private
from skillsearch.readers.reader import Reader
from skillsearch.training.bert_weights import BertWeights, average
from skillsearch.training.gains import MeasuredChanges, decide, measure_both
from skillsearch.training.material import LOOKED_AT, TrainingMaterial, read_judged, read_library
from skillsearch.training.model_folders import begin_weights, export, folder_of, texts_beside
from skillsearch.training.plan import TrainingSettings, make_plan, neighbours
from skillsearch.types.indexing import Progress
from skillsearch.types.json_values import JsonObject

if TYPE_CHECKING:
    from skillsearch.training.contrastive import Trained
    from skillsearch.training.cross_encoder import TrainedReader

SHARES = (0.5, 0.75, 1.0)
"""Shares of the tuned weights that are tried, the rest being the original ones."""
_NEEDED = ("sentence-transformers", "onnx")  # the first brings torch
_PLANNED = "planned.json"
_NOTICE = "Tuned on the skills of a user by skillsearch tune."
LOOKS = 5  # validations of a training
_TRIED_STEPS, _TRIED_SKILLS = 5, 256
_LEAST_STEPS = 20
_MOST_EPOCHS = 60
SETTINGS = TrainingSettings()


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """Options of a tuning, with the specs of a model and of a teacher to learn from.

    A `reader` is tuned instead of the model, on the judged `queries`, whose hits by the model it
    reads. `keep` writes even a worse model.
    """

    roots: tuple[Path, ...]
    out: Path
    model: str = "onnx"
    queries: Path | None = None
    minutes: float = 20.0
    seed: int = 0
    teacher: str | None = None
    keep: bool = False
    reader: str = ""


class Work(NamedTuple):
    """The folder that a tuning works in, and the callbacks for its stages and its sentences."""

    folder: Path
    progress: Progress
    tell: Callable[[str], None]


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
    measured: Mapping[str, MeasuredChanges]
    seconds: float
    notes: tuple[str, ...] = ()

    def to_dict(self) -> JsonObject:
        """Return the JSON form."""
        return {
            "better": self.is_better,
            "folder": None if self.folder is None else str(self.folder),
            **{name: getattr(self, name) for name in ("skills", "judged", "steps", "share")},
            "measured": {name: result.to_dict() for name, result in self.measured.items()},
            "seconds": round(self.seconds, 1),
            "notes": list(self.notes),
        }


class Tune(Protocol):
    """A function that tunes one of the models, as `tune` does."""

    def __call__(
        self, options: TuneOptions, *, progress: Progress, tell: Callable[[str], None]
    ) -> Tuned:
        """Tune a model, and measure whether that was worth it."""


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
    folder_of(options.model)
    with unfinished(options.out) as work_dir:
        return _EmbedderTuning(options, settings, Work(work_dir, progress, tell)).run()


@contextlib.contextmanager
def unfinished(out: Path) -> Iterator[Path]:
    """Yield the folder for a run, which goes when it is done; an interrupted one can continue."""
    require_installed("train", "Tuning a model", *_NEEDED)
    work_dir = make_work_dir(out)
    try:
        yield work_dir
        shutil.rmtree(work_dir, ignore_errors=True)
    finally:
        # A refused tuning leaves nothing, an interrupted one its checkpoint.
        with contextlib.suppress(OSError):
            work_dir.rmdir()


def learn_from(teacher: str) -> Callable[[Sequence[str]], NDArray[np.float32]]:
    """Load an embedder to learn from, by its spec; repeated texts are embedded once."""
    embedder = load_embedder(teacher)
    vectors: dict[str, NDArray[np.float32]] = {}

    def embed_new(texts: Sequence[str]) -> NDArray[np.float32]:
        missing = list(dict.fromkeys(text for text in texts if text not in vectors))
        vectors.update(zip(missing, embed(embedder, missing), strict=True))
        return np.stack([vectors[text] for text in texts])

    return embed_new


def make_work_dir(out: Path) -> Path:
    """Make or take over the folder next to `out` for a run; TrainingError if it is unusable."""
    work_dir = out.with_name(f".{out.name}.unfinished")
    with explained(TrainingError, f"{out} cannot be written: %s; name another folder."):
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise TrainingError(f"{out} already exists; name a folder that is new or empty.")
        make_private(work_dir)
        if not os.access(work_dir, os.W_OK):
            raise PermissionError(13, "Permission denied")
    return work_dir


class Tuning(ABC):
    """A tuning of the weights of an old model, whose folder is `source`."""

    _begin: BertWeights
    _old: Embedder | Reader
    _lost: int

    def __init__(self, options: TuneOptions, work: Work, source: Path) -> None:
        self._started = time.monotonic()
        self._folder, self._progress, self._tell = work
        self._out, self._keeps, self._source = options.out, options.keep, source

    @abstractmethod
    def _value(self, weights: BertWeights) -> float:
        """Return how good weights are at what was held out."""

    @abstractmethod
    def _measure(self, folder: Path) -> tuple[dict[str, MeasuredChanges], bool]:
        """Measure the model in a folder against the old one; also return whether it is better."""

    def _finish(
        self, trained: Trained | TrainedReader, learned: JsonObject, skills: int, judged: int
    ) -> Tuned:
        """Write the best share of trained weights if it is a gain, with what they `learned` from.

        It has the texts of the old model's folder.
        """
        out, measured = None, dict[str, MeasuredChanges]()
        averaged = partial(average, self._begin, trained.weights)
        values = {share: self._value(averaged(share)) for share in SHARES}
        share = max(values, key=values.__getitem__)
        is_better = values[share] > self._value(self._begin)
        if is_better or self._keeps:
            fresh, (notice, licence) = self._folder / "model", texts_beside(self._source)
            shutil.rmtree(fresh, ignore_errors=True)
            made = {"from": self._old.name, **learned, "steps": trained.steps, "share": share}
            export(
                averaged(share),
                fresh,
                name=f"{self._old.name} (tuned)",
                notice=f"{notice or ''}\n{_NOTICE}\n".lstrip(),
                licence=licence,
                extra={"tuned": made},
            )
            self._tell("Measuring the gain on held-out requests.")
            measured, is_gain = self._measure(fresh)
            is_better = is_better and is_gain
            if is_better or self._keeps:
                out = fresh.replace(self._out)
        lost = f"Judged queries left out because none of their skills is here: {self._lost}."
        return Tuned(
            is_better=is_better,
            folder=out,
            skills=skills,
            judged=judged,
            steps=trained.steps,
            share=share if measured else 0.0,
            measured=measured,
            seconds=time.monotonic() - self._started,
            notes=(lost,) if self._lost else (),
        )


class _EmbedderTuning(Tuning):
    def __init__(self, options: TuneOptions, settings: TrainingSettings, work: Work) -> None:
        """Read the skills and the model, and embed the skills with it."""
        super().__init__(options, work, folder_of(options.model))
        self._options, self._settings = options, replace(settings, seed=options.seed)
        library = read_library(options.roots, work.progress)
        chosen, self._lost = read_judged(options.queries, library) if options.queries else ([], 0)
        self._old = load_embedder(options.model)
        self._material = TrainingMaterial.gather(list(library.values()), chosen, options.seed)
        self._begin = begin_weights(options.model)
        texts = [skill.metadata() for skill in self._material.skills]
        began = time.monotonic()
        self._vectors = embed(
            self._old, texts, progress=lambda done: work.progress("embed", done, len(texts))
        )
        self._seconds_per_text = (time.monotonic() - began) / len(texts)
        self._teacher = learn_from(options.teacher) if options.teacher else None

    def run(self) -> Tuned:
        count, judged = len(self._material.skills), len(self._material.judged)
        return self._finish(self._train(self._count_steps()), {"skills": count}, count, judged)

    def _measure(self, folder: Path) -> tuple[dict[str, MeasuredChanges], bool]:
        models, work = (self._options.model, f"onnx:{folder}"), self._folder / "measured"
        measured = {
            name: measure_both(collection, models, work=work, progress=self._progress)
            for name, collection in self._material.collections().items()
        }
        return measured, decide(measured)

    def _count_steps(self) -> int:
        """Return how many steps there is time for, after a trial, or an interrupted tuning did."""
        from skillsearch.training.contrastive import train

        options, skills, planned = self._options, self._material.skills, self._folder / _PLANNED
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
        seconds_left, seconds = self._time_left(LOOKS), trial.seconds
        most = math.ceil(_MOST_EPOCHS * len(skills) / self._settings.batch_size)
        steps = min(int(seconds_left / seconds), most)
        if steps < _LEAST_STEPS:
            needed = math.ceil(options.minutes + (_LEAST_STEPS * seconds - seconds_left) / 60)
            raise TrainingError(
                f"{options.minutes:g} minutes are too few here: a step takes {seconds:.1f} s; "
                f"give at least --minutes {needed}."
            )
        planned.write_text(json.dumps({"key": key, "steps": steps}))
        self._tell(f"Tuning on {len(skills):,} skills: {steps:,} steps of {seconds:.1f} s.")
        return steps

    def _train(self, steps: int) -> Trained:
        from skillsearch.training.contrastive import train

        looks = max(1, math.ceil(steps / LOOKS))
        settings, material = replace(self._settings, steps=steps, check_every=looks), self._material
        return train(
            self._begin,
            make_plan(material.skills, neighbours(self._vectors), settings, material.judged),
            settings,
            vectors=self._vectors,
            teacher=self._teacher,
            check=material.gain,
            deadline=time.monotonic() + self._time_left(0),
            checkpoints=self._folder / "checkpoints",
            progress=self._progress,
        )

    def _time_left(self, looks: int) -> float:
        """Return the seconds left after validations, the choice of a share, and measuring."""
        looked_at = min(LOOKED_AT, len(self._material.skills))
        texts = (looks + len(SHARES) + 1) * looked_at
        for collection in self._material.collections().values():
            texts += 2 * (len(collection.documents) + len(collection.queries))
        used = time.monotonic() - self._started
        return 60 * self._options.minutes - used - texts * self._seconds_per_text

    def _value(self, weights: BertWeights) -> float:
        from skillsearch.training.contrastive import TorchEmbedder

        return self._material.gain(TorchEmbedder(weights, self._settings).embed)
