"""A user's judged requests → a reader that tells their skills apart better, or the old one."""

from __future__ import annotations

import math
import random
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, Self

import numpy as np

from skillsearch.errors import SkillSearchError, TrainingError
from skillsearch.evaluation.assess import auroc
from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.comparison import compare
from skillsearch.evaluation.types import Collection, JudgedQuery, Ranking, SystemAnswers
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.search.query import QueryForm
from skillsearch.index.search.reading import NOT_READ, READ_MOST, Reading, shown_of
from skillsearch.index.search.search import answer
from skillsearch.index.skill_index import SkillIndex
from skillsearch.readers.loading import load_reader
from skillsearch.readers.mapped_reader import STEM
from skillsearch.readers.reader import Reader
from skillsearch.settings.values import MAX_QUERY_CHARS
from skillsearch.text.requests import fold_blanks
from skillsearch.training.bert_weights import BertWeights
from skillsearch.training.cross_encoder import (
    ReaderSettings,
    ReadPairs,
    RequestGroup,
    TorchReader,
    TrainedReader,
    reading_loss,
    train_reader,
)
from skillsearch.training.gains import MeasuredChanges, QualityChange, change_of
from skillsearch.training.material import is_measured, read_judged, read_library
from skillsearch.training.model_folders import begin_weights, folder_of
from skillsearch.training.queries import SkillText
from skillsearch.training.tuning import LOOKS, SHARES, Tuned, TuneOptions, Tuning, Work, unfinished
from skillsearch.types.answers import SearchResult
from skillsearch.types.indexing import Progress
from skillsearch.types.json_values import checked

LEAST_JUDGED = 30  # fewer requests teach nothing and tell no gain from chance
SETTINGS = ReaderSettings(epochs=4.0, learning_rate=2e-5, head_rate=2.0)
"""The head is trained already, and so much is not to be forgotten."""
_LEAST_EPOCHS = 0.5
_WATCHED = 5  # one in five of the requests to learn from says when to stop
_MOST_RIGHT = 3  # right skills of a request that are learned
_HITS = 10
_BATCH = 32  # requests that are searched together
_STEP_COST = 4  # a step of training takes up to four times as long as reading its pairs


class Request(NamedTuple):
    """A request, and the ids of the skills that are right for it; none if nothing fits."""

    text: str
    right: frozenset[str]


class Requests(NamedTuple):
    """Requests to learn from, to validate by, and to measure by; `lost` are left out."""

    learned: tuple[Request, ...]
    watched: tuple[Request, ...]
    measured: tuple[Request, ...]
    lost: int

    @classmethod
    def gather(cls, path: Path, library: Mapping[str, SkillText], seed: int) -> Self:
        """Divide judged requests, and the requests of a collection that nothing answers.

        A TrainingError if too few requests are judged.
        """
        chosen, lost = read_judged(path, library)
        ids = list(library)
        right: defaultdict[str, set[str]] = defaultdict(set)
        texts: dict[str, str] = {}
        for query, rows in chosen:
            right[fold_blanks(query)].update(ids[row] for row in rows)
            texts.setdefault(fold_blanks(query), query)
        if len(right) < LEAST_JUDGED:
            raise TrainingError(
                f"{len(right):,} judged requests for the skills here are too few to tune a reader "
                f"with: at least {LEAST_JUDGED} are needed in {path}. Judge some more, or keep "
                "the reader that you have."
            )
        negatives = load_collection(path).negatives if path.is_dir() else ()
        for negative in negatives:
            texts.setdefault(fold_blanks(negative.text), negative.text)
        requests = [
            Request(text[:MAX_QUERY_CHARS], frozenset(right.get(key, ())))
            for key, text in texts.items()
            if key
        ]
        measured = tuple(request for request in requests if is_measured(request.text))
        rest = [request for request in requests if not is_measured(request.text)]
        random.Random(seed).shuffle(rest)
        watched = tuple(rest[::_WATCHED])
        learned = tuple(request for number, request in enumerate(rest) if number % _WATCHED)
        return cls(learned, watched, measured, lost)


def tune_reader(
    options: TuneOptions,
    *,
    progress: Progress,
    tell: Callable[[str], None],
    settings: ReaderSettings = SETTINGS,
) -> Tuned:
    """Tune a reader on judged requests, and measure whether that was worth it.

    `progress` gets the stages of indexing, ``search`` and ``train``, `tell` a sentence about what
    comes next. If interrupted, only the index is kept. Raises TrainingError if it cannot be done.
    """
    with unfinished(options.out) as work_dir:
        try:
            return _ReaderTuning(options, settings, Work(work_dir, progress, tell)).run()
        except SkillSearchError:
            shutil.rmtree(work_dir, ignore_errors=True)
            raise


class _Searched:
    """An index of the skills, and the passages of its answers that a reader is shown."""

    def __init__(self, options: TuneOptions, folder: Path, tell: Progress) -> None:
        request = IndexRequest(options.roots, options.model, with_body=True)
        self._index, _ = SkillIndex.build(request, folder, IndexOptions(progress=tell))
        self._ids = {document.path: document.doc_id for document in self._index.documents()}
        self._tell = tell

    def groups(
        self, requests: Sequence[Request], chance: random.Random | None = None
    ) -> list[RequestGroup]:
        """Return the first hits of requests as a reader sees them.

        With a `chance` they are to learn from: right skills stand before the hits, and a random
        one after them.
        """
        groups, ids = [], list(self._ids.values())
        for request, form, result in self._answers(requests):
            hits = [hit.doc_id for hit in result.hits[:READ_MOST]]
            right = self._index.copies(request.right)
            if chance:
                first = sorted(request.right)[:_MOST_RIGHT]
                others = [doc_id for doc_id in hits if doc_id not in right]
                hits = [*first, *others[: READ_MOST - len(first)], chance.choice(ids)]
            shown = self._shown(form, hits)
            grades = tuple(2 if doc_id in right else 0 for doc_id in shown)
            if shown:
                groups.append(RequestGroup(request.text, tuple(shown.values()), grades))
        return groups

    def measure(
        self, requests: Sequence[Request], groups: Sequence[RequestGroup], readers: Sequence[Reader]
    ) -> MeasuredChanges:
        """Let two readers, the old one and the new one, tell hits apart and reorder them."""
        apart = [(reader.name, {"AUROC": _told_apart(reader, groups)}) for reader in readers]
        (test,) = compare(apart)
        before, after = ({"AUROC": fmean(measures["AUROC"].values())} for _, measures in apart)
        judged = [request for request in requests if request.right]
        answers = [
            SystemAnswers(reader.name, "", dict(self._rankings(judged, reader)))
            for reader in readers
        ]
        collection = Collection(
            "judged",
            (),
            tuple(JudgedQuery(request.text, request.text) for request in judged),
            {request.text: dict.fromkeys(request.right, 1) for request in judged},
        )
        changes = {
            "reader": QualityChange(before, after, test),
            "hybrid": change_of(collection, answers),
        }
        return MeasuredChanges(len(judged), len(self._index), changes)

    def _rankings(
        self, requests: Sequence[Request], reader: Reader
    ) -> Iterator[tuple[str, Ranking]]:
        """Yield requests with their hits, each with its copies, in the order of a reader."""
        for request, _, result in self._answers(requests, Reading("always", lambda: reader)):
            hits = [(path, hit) for hit in result for path in (hit.path, *hit.duplicates)]
            yield request.text, tuple((self._ids[path], hit.score) for path, hit in hits)

    def _answers(
        self, requests: Sequence[Request], reading: Reading = NOT_READ
    ) -> Iterator[tuple[Request, QueryForm, SearchResult]]:
        opened, calibration = self._index.opened, default_calibration()
        for begin in range(0, len(requests), _BATCH):
            some = requests[begin : begin + _BATCH]
            queries = [request.text for request in some]
            forms = self._index.analyse_many(queries)
            options = SearchOptions(_HITS, 0.0)
            with opened.guard:
                results = answer(queries, options, opened, forms, calibration, reading)
            yield from zip(some, forms, results, strict=True)
            self._tell("search", begin + len(some), len(requests))

    def _shown(self, form: QueryForm, doc_ids: Sequence[str]) -> dict[str, str]:
        """Return the passages of skills for a reader, without those that are not indexed."""
        documents = self._index.opened.corpus.documents
        roots = [root.path for root in self._index.opened.settings.roots]
        numbers = {doc_id: documents.number_of(doc_id) for doc_id in doc_ids}
        return {
            doc_id: shown_of(documents[number], form, roots)
            for doc_id, number in numbers.items()
            if number is not None
        }


class _ReaderTuning(Tuning):
    def __init__(self, options: TuneOptions, settings: ReaderSettings, work: Work) -> None:
        """Read the reader and the requests, and search for what it is to read."""
        super().__init__(options, work, folder_of(options.reader, STEM))
        self._options, self._settings = options, replace(settings, seed=options.seed)
        self._begin = begin_weights(options.reader, STEM)
        self._old: Reader = load_reader(options.reader)
        library = read_library(options.roots, work.progress)
        self._skills = len(library)
        self._requests = Requests.gather(checked(options.queries, Path), library, options.seed)
        self._lost = self._requests.lost
        self._searched = _Searched(options, work.folder / "index", work.progress)
        chance = random.Random(options.seed)
        self._learned = self._searched.groups(self._requests.learned, chance)
        self._watched = self._searched.groups(self._requests.watched)
        self._measured = self._searched.groups(self._requests.measured)
        self._check()

    def run(self) -> Tuned:
        count = len(self._learned)
        return self._finish(self._train(), {"requests": count}, self._skills, count)

    def _measure(self, folder: Path) -> tuple[dict[str, MeasuredChanges], bool]:
        readers = self._old, load_reader(str(folder))
        result = self._searched.measure(self._requests.measured, self._measured, readers)
        return {"judged": result}, result.is_better and not result.is_worse

    def _check(self) -> None:
        """Raise an error if there is nothing to learn from or to measure by."""
        seen = {grade for group in self._measured for grade in group.grades}
        if seen != {0, 2} or not self._learned or not self._watched:
            raise TrainingError(
                f"Among the first {READ_MOST} hits of the {len(self._requests.measured):,} "
                "held-out requests a reader finds no right skill with a wrong one that it can "
                f"read; judge more requests in {self._options.queries}, or name more skills."
            )

    def _value(self, weights: BertWeights) -> float:
        return self._value_of(TorchReader(weights).read)

    def _value_of(self, read: ReadPairs) -> float:
        return -reading_loss(read, self._watched, self._settings)

    def _train(self) -> TrainedReader:
        """Train for as many epochs as there is time for."""
        read = TorchReader(self._begin).read
        began = time.monotonic()
        self._value_of(read)
        watched, learned, measured = (
            sum(len(group.texts) for group in groups)
            for groups in (self._watched, self._learned, self._measured)
        )
        seconds = (time.monotonic() - began) / watched
        later = seconds * ((LOOKS + len(SHARES) + 1) * watched + 4 * measured)
        seconds_left = 60 * self._options.minutes - (time.monotonic() - self._started) - later
        epoch = _STEP_COST * seconds * learned
        if seconds_left < _LEAST_EPOCHS * epoch:
            missing = _LEAST_EPOCHS * epoch - seconds_left
            raise TrainingError(
                f"{self._options.minutes:g} minutes are too few here: reading all requests once "
                f"to learn takes {epoch:.0f} s; give at least --minutes "
                f"{math.ceil(self._options.minutes + missing / 60)}."
            )
        epochs = min(self._settings.epochs, seconds_left / epoch)
        steps = math.ceil(epochs * len(self._learned) / self._settings.groups)
        looks = max(1, math.ceil(steps / LOOKS))
        self._tell(f"Tuning on {len(self._learned):,} requests: {steps:,} steps.")
        return train_reader(
            self._begin,
            self._learned,
            replace(self._settings, epochs=epochs, check_every=looks),
            check=self._value_of,
            progress=self._progress,
            deadline=time.monotonic() + seconds_left,
        )


def _told_apart(reader: Reader, groups: Sequence[RequestGroup]) -> dict[str, float]:
    """Return how often the right skills of each request stand above wrong ones of any request."""
    logits = [reader.read(group.request, group.texts) for group in groups]
    grades = [np.array(group.grades) for group in groups]
    wrong = np.concatenate(
        [values[graded == 0] for values, graded in zip(logits, grades, strict=True)]
    )
    return {
        group.request: auroc(values[graded == 2], wrong)
        for group, values, graded in zip(groups, logits, grades, strict=True)
        if 2 in graded
    }
