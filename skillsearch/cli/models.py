"""The JSON Schemas of what commands print with ``--json``.

What is printed of a dataclass is derived from it. The model of another object is a dict: a key that
may be absent ends in ``?``, and ``str`` stands for any. A list has the model of its items, a tuple
those that a value may have.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, Union, get_type_hints

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema
from typing_extensions import TypedDict

from skillsearch import types
from skillsearch.budget import costs
from skillsearch.budget.hosts import Listing
from skillsearch.evaluation import types as evaluation
from skillsearch.evaluation.confusables import Confusion
from skillsearch.execution.types import OutputFile, RunResult, StagedInput
from skillsearch.hosts.moved import Move
from skillsearch.index.documents import Document
from skillsearch.index.indexing.changes import Changes
from skillsearch.library.enrich import Kept, Wanted
from skillsearch.reports.cache import CacheEntry
from skillsearch.reports.health import Check
from skillsearch.reports.places import PlaceReport
from skillsearch.roots.lock import LockedSource
from skillsearch.training.gains import Change
from skillsearch.training.tuning import Tuned
from skillsearch.types import Diagnostic, IndexReport, Json

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def _each(kind: Any, names: str) -> dict[Any, Any]:
    return dict.fromkeys(names.split(), kind)


def _some(of: Any, names: str = "", *, without: str = "") -> dict[Any, Any]:
    """Return the model of fields of a dataclass, all or some."""
    hints, optional = get_type_hints(of), getattr(of, "OPTIONAL", ())
    chosen = names.split() or [field.name for field in fields(of) if field.name != without]
    return {f"{name}?" if name in optional else name: hints[name] for name in chosen}


_SEVERITIES = _each(int, "error warning note")
_CHECKED = {"checked": int, "lost?": int, **_SEVERITIES, "diagnostics": [Diagnostic]}
_FIRST = _some(Document, "name doc_id path root")
_ENTRY = _FIRST | _some(Document, "description hidden tags") | _some(types.Root, "trust origin")
_ENTRY |= {"alias": str}
_SHOWN = {"stale": bool, "frontmatter": {str: Any}, "files": [str], "files_truncated": bool}
_SHOWN |= {"examples": [{"text": str, "source": types.ExampleSource}]}
_SHOWN |= {"chunks?": [_each(str, "id description")], "body?": str}
_FILE = {"name": str, "file": str, "bytes": int}
_PARTS = _FILE | {"text": str}, _FILE | {"base64": str}
_SHOW = (_ENTRY | _SHOWN, *_PARTS, _each(str, "name chunk description text"))
_INDEXED = _some(IndexReport) | {"roots": [str], "trust": [types.Trust]}
_HELD = {"fields": Literal["full", "metadata"], "languages": types.Languages, "generation": str}
_HELD |= _each(int, "indexed skipped")
_CHANNEL = _each(str, "model name asked_about") | _each(int, "dimensions vectors")
_STATUS = _HELD | _each(str, "index_dir model advice") | {"size_bytes": int, "in_sync": bool}
_STATUS |= {"channels": [_CHANNEL | {"usable": bool}], "skills_by_language": {str: int}}
_STATUS |= {"examples": {str: int}}
_STATUS |= {"diagnostics": _SEVERITIES, "differences": Changes}
_STATUS |= {"sources": [_some(LockedSource) | {"problem": str}]}
_STATUS |= {"roots": [_some(types.Root) | {"path": str}]}
_ENTRIES = [_some(CacheEntry) | {"path": str, "used": str, "bytes": int}]
_OUTPUT = _some(OutputFile) | {"ref": str}
_RUN = _some(RunResult) | {"output_files": [_OUTPUT], "primary_output?": _OUTPUT}
_RUN["staged_inputs?"] = [_some(StagedInput, "name size_bytes mime_type") | {"original_name": str}]
_CUT = "shortened name_only omitted hidden"
_LISTING = _some(Listing, without="fates") | _each([str], _CUT)
_LISTING["counts"] = _each(int, f"whole {_CUT}")
_BUDGET = _each(int, "skills hidden") | {"context": int | None, "levels": {str: costs.Level}}
_BUDGET |= {"search": _some(costs.SearchCost) | {"total": costs.Size}, "hosts": [_LISTING]}
_BUDGET |= {"claims": [_some(costs.Claim) | {"holds": bool | None}], "counted_by": str}
_FIGURE = float | None  # None if it cannot be computed
_MEANS = {str: {str: _FIGURE}}  # system → measure → mean
_PART = {"queries": int, "systems": _MEANS, "intervals": {str: {str: [_FIGURE]}}}
_COMPARED = _PART | {"comparisons": [evaluation.Comparison]}
_STATES = (
    _each(float, "kept false perhaps silent") | {"shown": _FIGURE, "kinds": {str: float}},
    _each(float, "false perhaps none") | _each(_FIGURE, "auroc style"),
)
_DEFAULT = _some(evaluation.States, "threshold lower_bound precision faces")
_ABSTENTION = _some(evaluation.Abstention, without="top_scores") | {"auroc": {str: _FIGURE}}
_ABSTENTION["default"] = (_DEFAULT, None)
_EVALUATED = _COMPARED | {"collection": str, "documents": int, "settings": {str: str}}
_EVALUATED |= {"unanswerable": {str: int}, **_each({str: _FIGURE}, "milliseconds style")}
_EVALUATED |= {"abstention": {str: _ABSTENTION}, "states": {str: {str: _STATES}}, "notes": [str]}
_EVALUATED |= {"examples": {str: _each([evaluation.QueryExample], "worst best")}}
_EVALUATED |= {"per_query": {str: {str: {str: float}}}, "kinds?": {str: _PART}}
_EVALUATED |= {"languages?": {str: _COMPARED}, "confusables?": [Confusion]}
_EVALUATED |= _each(_COMPARED, "same_language? cross_language?") | {"diagnostics?": [Diagnostic]}
_MADE = _each(str, "made version")
_CHANGE = _some(Change, "before after") | _each(float, "difference p_value") | {"interval": [float]}
_MEASURED = _each(int, "queries documents") | {"dense?": _CHANGE, "hybrid": _CHANGE}
_TUNED = _some(Tuned, without="is_better") | {"better": bool, "folder": str | None}
_COUNTED = {"count": int, "generation": str}
_HOST = _each(str, "client entries file reason?")
_HOST["state"] = Literal["write", "remove", "plugin", "unchanged", "changed", "refused"]
_DAEMON = _each(int, "pid? answered?") | {"version?": str, "seconds?": float}
_INDEXES = [_each(str, "index_dir generation") | {"skills": int}]
_SOURCE = _each(str, "source given digest") | {"skills": [str]}
_UPDATED = _each(str, "source given reason?") | _each([str], "added? changed? removed?")
_UPDATED["state"] = Literal["updated", "changed", "unchanged", "failed"]
_OFFERED = {"offers": {str: str}, "unvetted": int}
_ENRICHED = {"file": str, "done": bool}
_ENRICH = (
    {"ask": str, "skills": [Wanted], "more": int, "unvetted": int},
    {"file": str, "skills": [_some(Kept) | {"stale": bool}]},
    _ENRICHED | {"kept": [Kept], "refused": [_each(str, "name text reason")]},
    _ENRICHED | {"forgotten": [Kept]},
)
MODELS: dict[str, Any] = {
    "index": (
        _INDEXED | {"index_dir": str, "places?": [PlaceReport]},
        _INDEXED | {"collection": str},
    ),
    "query": _some(types.SearchResult) | {"nearest?": [str], "notes?": [str], "_id?": int | str},
    "add": {"sources": [_SOURCE], "indexed": int},
    "remove": {"sources": [_SOURCE], "indexed": int},
    "update": {"sources": [_UPDATED]},
    "list": _COUNTED | {"skills": [_ENTRY]},
    "families": _COUNTED | {"families": [_FIRST | _some(types.Family)]},
    "show": _SHOW,
    "run": _RUN,
    "status": (_STATUS, _HELD | {"collection": str} | _each([str], "models roots")),
    "doctor": _each(int, "ok warning error") | {"checks": [Check]},
    "validate": _CHECKED,
    "audit": _CHECKED,
    "watch": IndexReport,
    "daemon": _DAEMON | {"indexes?": _INDEXES, "running": bool},
    "setup": {"roots": [str], "index_dir": str, "hosts": [_HOST], "done": bool},
    "cache": {"folder": str, "bytes": int} | _each(_ENTRIES, "entries removed"),
    "env": _each(str, "folder active")
    | {"environments": [str], "skills?": [_each(str, "id name description")]},
    "prompt": _each(str, "query prompt") | {"skills": [str], "fits": int} | _OFFERED,
    "library": {"folder": str, "moves": [Move], "done": bool},
    "enrich": _ENRICH,
    "budget": _BUDGET | {"diagnostics": [Diagnostic]},
    "eval": (_EVALUATED | _MADE, {"collections": [_EVALUATED], "mean": _MEANS} | _MADE),
    "tune": _TUNED | {"measured": {str: _MEASURED}},
}
"""By command."""


def _typed(model: Any) -> Any:
    """Return the type of what a model describes."""
    if isinstance(model, tuple):
        return Union[tuple(map(_typed, model))]  # noqa: UP007 - of any number of types
    if isinstance(model, list):
        return list[_typed(model[0])]  # type: ignore[misc]  # mypy knows no types made at run time
    if not isinstance(model, dict):
        return model
    if str in model:
        return dict[str, _typed(model[str])]  # type: ignore[misc]
    make: Any = TypedDict
    return make("Printed", {key: _typed(value) for key, value in model.items()})


class _Printed(GenerateJsonSchema):
    """Schemas of what is printed: all keys but optional ones are there, and no others."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # it would only repeat the key

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])  # a default says nothing of what is printed

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> dict[str, Any]:
        made, optional = super().dataclass_schema(schema), getattr(schema["cls"], "OPTIONAL", ())
        required = [name for name in made["properties"] if name not in optional]
        return made | {"required": required, "additionalProperties": False}

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> dict[str, Any]:
        keys = super().typed_dict_schema(schema)["properties"]
        made = {"type": "object", "properties": {key.rstrip("?"): keys[key] for key in keys}}
        required = [key for key in keys if not key.endswith("?")]
        return made | {"required": required, "additionalProperties": False}


def schema_of(command: str) -> dict[str, Json]:
    """Return the JSON Schema of what a command prints with ``--json``."""
    made = TypeAdapter(_typed(MODELS[command])).json_schema(schema_generator=_Printed)
    return {"$schema": DRAFT, "title": f"skillsearch {command} --json", **made}
