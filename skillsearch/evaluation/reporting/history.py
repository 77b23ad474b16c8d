"""Results that ``eval --json`` printed, over time: the runs of one system, as reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AwareDatetime, BaseModel, Field, ValidationError, model_validator

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.comparison import compare, share_interval
from skillsearch.evaluation.lines import numbered_lines, shown
from skillsearch.evaluation.reporting.report import FALSE_ANSWERS, RECALL
from skillsearch.evaluation.types import ANSWERABLE, Abstention, Report, SystemReport
from skillsearch.text.safe_text import counted, one_line

_HOW = "save one with: skillsearch eval COLLECTION --json >FILE"
_PROBLEM_CHARS = 200
_UNKNOWN = Abstention({}, (), None, {}, {}, {}, (), {})
_Count: TypeAlias = Annotated[int, Field(ge=1, le=10**9)]
_Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class _Told(BaseModel):
    recall: _Share = 0.0
    false: _Share


class _Result(BaseModel):
    """The keys of a result on one collection that a comparison needs; others are ignored."""

    collection: str
    documents: _Count
    queries: _Count
    unanswerable: dict[str, _Count]
    systems: dict[str, dict[str, _Share]]
    intervals: dict[str, dict[str, tuple[_Share, _Share]]]
    settings: dict[str, str]
    states: dict[str, dict[str, _Told]] = {}
    per_query: dict[str, dict[str, dict[str, _Share]]] = {}

    def report(self, system: str | None, run: str, version: str) -> Report:
        """Return the report of a system, or of the first, under the name of its run."""
        name = system or next(iter(self.systems), "")
        means, intervals = dict(self.systems[name]), dict(self.intervals[name])
        sizes = {ANSWERABLE: self.queries, **self.unanswerable}
        for source, shares in self.states.get(name, {}).items():
            is_answerable = source == ANSWERABLE
            measure = RECALL if is_answerable else FALSE_ANSWERS.format(source)
            means[measure] = shares.recall if is_answerable else shares.false
            intervals[measure] = share_interval(means[measure], sizes[source])
        settings = f"{version}{self.settings[name]}"
        values = self.per_query.get(name, {})
        only = SystemReport(
            run, settings, means, intervals, values, worst=(), best=(), abstention=_UNKNOWN
        )
        return Report(
            self.collection,
            self.documents,
            self.queries,
            self.unanswerable,
            systems=(only,),
            comparisons=(),
            unit="run",
        )


class _File(BaseModel):
    made: AwareDatetime | None = None
    version: str = ""
    collections: list[_Result]

    @model_validator(mode="before")
    @classmethod
    def of_one(cls, record: Any) -> Any:
        """Read a result on a single collection as one on several."""
        is_one = isinstance(record, dict) and "collections" not in record
        return {**record, "collections": [record]} if is_one else record


def read_history(paths: Sequence[Path], *, system: str | None = None) -> tuple[Report, ...]:
    """Return a report of the runs of a system, or of the first ones, for each collection.

    The oldest run comes first, after those without a date, and each is compared with the first if
    both have values of the same queries. Collections of one file alone are left out.
    An EvaluationError if no others remain.
    """
    by_collection: dict[str, list[Report]] = {}
    for _, reports in sorted((_read(path, system) for path in paths), key=itemgetter(0)):
        for report in reports:
            by_collection.setdefault(report.collection, []).append(report)
    joined = tuple(_join(reports) for reports in by_collection.values() if len(reports) > 1)
    if not joined:
        raise EvaluationError(f"No collection is in two of the files, so none is compared; {_HOW}.")
    return joined


def _join(reports: Sequence[Report]) -> Report:
    """Return the runs on a collection as one report, with the counts of the last."""
    runs = [report.systems[0] for report in reports]
    ((name, times),) = Counter(run.name for run in runs).most_common(1)
    if times > 1:
        raise EvaluationError(f"Two runs are named {shown(name)}; rename the file of one.")
    queries = [
        {measure: values.keys() for measure, values in run.per_query.items()} for run in runs
    ]
    is_known = bool(queries[0]) and all(queries[0].values())
    same = [run for run, keys in zip(runs, queries, strict=True) if is_known and keys == queries[0]]
    notes = [f"No test: {run.name} has other queries." for run in runs[1:] if run not in same]
    notes += (
        f"{run.name} searched {counted(report.documents, 'skill')},"
        f" {runs[0].name} {reports[0].documents:,}."
        for run, report in zip(runs, reports, strict=True)
        if report.documents != reports[0].documents
    )
    comparisons = compare([(run.name, run.per_query) for run in same])
    joined = replace(reports[-1], systems=tuple(runs), comparisons=comparisons)
    return replace(joined, notes=tuple(notes))


def _read(path: Path, system: str | None) -> tuple[float, list[Report]]:
    """Return the time at which a file was made, 0 if unknown, and its reports of one system."""
    text = "\n".join(line for _, line in numbered_lines(path, f"To compare, {_HOW}."))
    try:
        file = _File.model_validate_json(text)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        problem = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        message = f"{path} is not a result of skillsearch eval: {one_line(problem, _PROBLEM_CHARS)}"
        raise EvaluationError(f"{message}; {_HOW}.") from exc
    name = one_line(f"{file.made:%Y-%m-%d} {path.stem}" if file.made else path.stem)
    version = f"version {file.version}, " if file.version else ""
    try:
        reports = [result.report(system, name, version) for result in file.collections]
    except KeyError as exc:
        systems = dict.fromkeys(
            shown(system_name) for result in file.collections for system_name in result.systems
        )
        message = (
            f"{path} lacks figures of {shown(exc.args[0])}; its systems: {', '.join(systems)}."
        )
        raise EvaluationError(message) from exc
    return file.made.timestamp() if file.made else 0.0, reports
