"""The JSON Schemas of what commands print with ``--json``, and the models they are made of.

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

from skillsearch.budget import costs
from skillsearch.budget.hosts import Listing
from skillsearch.evaluation import types as evaluation
from skillsearch.evaluation.confusables import Confusion
from skillsearch.execution.types import Capabilities, OutputFile, RunResult, StagedInput
from skillsearch.hosts.library_moves import Move
from skillsearch.index.documents.document import Document
from skillsearch.index.indexing.changes import Changes
from skillsearch.library.example_review import ExampleEntry, SkillToEnrich
from skillsearch.reports.cache import CacheEntry
from skillsearch.reports.health import Check
from skillsearch.reports.host_folders import FolderReport
from skillsearch.reports.proposal_trials import Improvement
from skillsearch.reports.status import Status
from skillsearch.reports.why import Why
from skillsearch.roots.lock import LockedSource
from skillsearch.training.gains import QualityChange
from skillsearch.training.tuning import Tuned
from skillsearch.types import answers, skills
from skillsearch.types.indexing import IndexReport
from skillsearch.types.json_values import Json
from skillsearch.types.skills import Diagnostic
from skillsearch.usage.report import UsageReport

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def keyed(kind: Any, names: str) -> dict[Any, Any]:
    """Return the model of keys that all have values of one kind."""
    return dict.fromkeys(names.split(), kind)


def fields_of(of: Any, names: str = "", *, without: str = "") -> dict[Any, Any]:
    """Return the model of fields of a dataclass, all or some."""
    hints, optional = get_type_hints(of), getattr(of, "OPTIONAL", ())
    chosen = names.split() or [field.name for field in fields(of) if field.name != without]
    keys = getattr(of, "KEYS", {})
    names_of = {name: keys.get(name, name) for name in chosen}
    return {f"{key}?" if name in optional else key: hints[name] for name, key in names_of.items()}


SEVERITIES = keyed(int, "error warning note")
CHECKED = {"checked": int, "lost?": int, **SEVERITIES, "diagnostics": [Diagnostic]}
FIRST = fields_of(Document, "name doc_id path root")
ENTRY = (
    FIRST | fields_of(Document, "description hidden tags") | fields_of(skills.Root, "trust origin")
)
ENTRY |= {"alias": str}
SHOWN = {"stale": bool, "frontmatter": {str: Any}, "files": [str], "files_truncated": bool}
SHOWN |= {"examples": [{"text": str, "source": skills.ExampleSource}]}
SHOWN |= {"chunks?": [keyed(str, "id description")], "body?": str}
FILE = {"name": str, "file": str, "bytes": int}
PARTS = FILE | {"text": str}, FILE | {"base64": str}
SHOW = (ENTRY | SHOWN, *PARTS, keyed(str, "name chunk description text"))
INDEXED = fields_of(IndexReport) | {"roots": [str], "trust": [skills.Trust]}
HELD = {"fields": Literal["full", "metadata"], "generation": str}
HELD |= keyed(int, "indexed skipped")
STATE = get_type_hints(Status) | {"diagnostics": SEVERITIES, "differences": Changes}
STATE |= {"sources": [fields_of(LockedSource) | {"problem": str}]}
STATE |= {"roots": [fields_of(skills.Root) | {"path": str}]}
STATUS = (STATE, HELD | {"collection": str} | keyed([str], "models roots"))
ENTRIES = [fields_of(CacheEntry) | {"path": str, "used": str, "bytes": int}]
CACHE = {"folder": str, "bytes": int} | keyed(ENTRIES, "entries removed")
OUTPUT = fields_of(OutputFile) | {"ref": str}
RAN = fields_of(RunResult) | {"output_files": [OUTPUT], "primary_output?": OUTPUT}
RAN["staged_inputs?"] = [
    fields_of(StagedInput, "name size_bytes mime_type") | {"original_name": str}
]
EXECUTOR = fields_of(Capabilities) | {"name": str, "available": bool, "reason": str}
RUN = (RAN, {"executors": [EXECUTOR]})
CUT = "shortened name_only omitted hidden"
LISTING = fields_of(Listing, without="fates") | keyed([str], CUT)
LISTING["counts"] = keyed(int, f"whole {CUT}")
BUDGET = keyed(int, "skills hidden") | {"context": int | None, "levels": {str: costs.Level}}
BUDGET |= {
    "search": fields_of(costs.SearchCost) | {"total": costs.Size},
    "hosts": [LISTING],
    "diagnostics": [Diagnostic],
}
BUDGET |= {"claims": [fields_of(costs.CostClaim) | {"holds": bool | None}], "counted_by": str}
FIGURE = float | None  # None if it cannot be computed
MEANS = {str: {str: FIGURE}}  # system → measure → mean
PART = {"queries": int, "systems": MEANS, "intervals": {str: {str: [FIGURE]}}}
COMPARED = PART | {"comparisons": [evaluation.Comparison]}
STATES = (
    keyed(float, "recall false perhaps none") | {"shown": FIGURE, "kinds": {str: float}},
    keyed(float, "false perhaps none") | keyed(FIGURE, "auroc style"),
)
DEFAULT = fields_of(evaluation.States, "threshold lower_bound precision faces")
ABSTENTION = fields_of(evaluation.Abstention, without="top_scores") | {"auroc": {str: FIGURE}}
ABSTENTION["default"] = (DEFAULT, None)
EVALUATED = COMPARED | {"collection": str, "documents": int, "settings": {str: str}}
EVALUATED |= {"unanswerable": {str: int}, **keyed({str: FIGURE}, "milliseconds style")}
EVALUATED |= {"abstention": {str: ABSTENTION}, "states": {str: {str: STATES}}, "notes": [str]}
EVALUATED |= {"examples": {str: keyed([evaluation.QueryExample], "worst best")}}
EVALUATED |= {"per_query": {str: {str: {str: float}}}, "kinds?": {str: PART}}
EVALUATED |= {"languages?": {str: COMPARED}, "confusables?": [Confusion]}
EVALUATED |= keyed(COMPARED, "same_language? cross_language?") | {"diagnostics?": [Diagnostic]}
MADE = keyed(str, "made version")
CHANGE = fields_of(QualityChange, "before after") | keyed(float, "difference p_value")
CHANGE |= {"interval": [float]}
MEASURED = keyed(int, "queries documents") | {"dense?": CHANGE, "hybrid": CHANGE}
TUNED = fields_of(Tuned, without="is_better") | {"better": bool, "folder": str | None}
TUNED |= {"measured": {str: MEASURED}}
COUNTED = {"count": int, "generation": str}
LIST = COUNTED | {"skills": [ENTRY]}
FAMILIES = COUNTED | {"families": [FIRST | fields_of(answers.Family)]}
HOST = keyed(str, "host entries file reason?")
HOST["state"] = Literal["write", "remove", "plugin", "unchanged", "changed", "refused"]
SETUP = {"roots": [str], "index_dir": str, "hosts": [HOST], "done": bool}
DAEMON = keyed(int, "pid? answered?") | {"version?": str, "seconds?": float, "running": bool}
DAEMON["indexes?"] = [keyed(str, "index_dir generation") | {"skills": int}]
SOURCE = keyed(str, "source given digest") | {"skills": [str]}
SOURCES = {"sources": [SOURCE], "indexed": int}
UPDATE = keyed(str, "source given reason?") | keyed([str], "added? changed? removed?")
UPDATE["state"] = Literal["updated", "changed", "unchanged", "failed"]
UPDATED = {"sources": [UPDATE]}
CATALOG = keyed(str, "folder url") | keyed([str], "written removed") | {"unvetted": int}
CATALOG |= {"skills": [keyed(str, "name type url digest")], "not_published": [Diagnostic]}
PROMPT = {"offers": {str: str}, "unvetted": int, "skills": [str], "fits": int}
PROMPT |= keyed(str, "query prompt")
ENRICHED = {"file": str, "done": bool}
ENRICH = (
    {"ask": str, "skills": [SkillToEnrich], "more": int, "unvetted": int},
    {"file": str, "skills": [fields_of(ExampleEntry) | {"stale": bool}]},
    ENRICHED | {"kept": [ExampleEntry], "refused": [keyed(str, "name text reason")]},
    ENRICHED | {"forgotten": [ExampleEntry]},
)
IMPROVED = fields_of(Improvement) | {"diff": str, "written": bool}
USAGE = (
    fields_of(UsageReport) | {"usage": str, "file": str, "bytes": int, "days": int | None},
    *({"file": str, "done": bool, what: int} for what in ("forgotten", "pinned", "unpinned")),
)
INDEX = (INDEXED | {"index_dir": str, "folders?": [FolderReport]}, INDEXED | {"collection": str})
QUERY = fields_of(answers.SearchResult) | {"nearest?": [str], "notes?": [str], "_id?": int | str}
DOCTOR = keyed(int, "ok warning error") | {"checks": [Check]}
WHY = fields_of(Why)
WATCH = IndexReport
ENV = keyed(str, "folder active") | {"environments": [str]}
ENV |= {"skills?": [keyed(str, "id name description")]}
LIBRARY = {"folder": str, "moves": [Move], "done": bool}
EVAL = (EVALUATED | MADE, {"collections": [EVALUATED], "mean": MEANS} | MADE)


def _typed(model: Any) -> Any:
    """Return the type that a model describes."""
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
    """Schemas of the output: all keys but optional ones are there, and no others."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # it would only repeat the key

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])  # a default says nothing of what is printed

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> dict[str, Any]:
        made, optional = super().dataclass_schema(schema), getattr(schema["cls"], "OPTIONAL", ())
        required = [name for name in made["properties"] if name not in optional]
        keys = getattr(schema["cls"], "KEYS", {})
        made["properties"] = {keys.get(name, name): of for name, of in made["properties"].items()}
        required = [keys.get(name, name) for name in required]
        return made | {"required": required, "additionalProperties": False}

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> dict[str, Any]:
        keys = super().typed_dict_schema(schema)["properties"]
        made = {"type": "object", "properties": {key.rstrip("?"): keys[key] for key in keys}}
        required = [key for key in keys if not key.endswith("?")]
        return made | {"required": required, "additionalProperties": False}


def schema_of(command: str, model: object) -> dict[str, Json]:
    """Return the JSON Schema of a command's ``--json`` output, by a model of these here."""
    adapter = TypeAdapter(_typed(model))
    made = adapter.json_schema(schema_generator=_Printed)
    return {"$schema": DRAFT, "title": f"skillsearch {command} --json", **made}
