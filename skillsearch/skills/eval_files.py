"""Eval files that lie in skill folders → queries that a skill is for, or is not for.

Eval files have no standard, so a case is known by its shape: a record with a text and a flag
(``{"query": …, "should_trigger": false}``), with a text and the right skill (``expected_skill``,
``expect``), or with a text alone (a task for the skill); or a text in a list below a word that
judges it (``should_trigger``, ``negative``).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple, TypeAlias

from skillsearch.errors import SkillSearchError
from skillsearch.settings.values import MAX_QUERY_CHARS
from skillsearch.skills.findings import finding_of
from skillsearch.skills.frontmatter import load_yaml
from skillsearch.text.tables import read_tables
from skillsearch.types.json_values import Json
from skillsearch.types.skills import Diagnostic

MAX_FILE_BYTES = 1 << 20
MAX_QUERIES = 2_000  # of one skill

CaseKind: TypeAlias = Literal["trigger", "task"]
"""``trigger``: about which skill is chosen; ``task``: about the work that it then does."""

_MAX_DEPTH = 12
_SUFFIXES = frozenset({".json", ".jsonl", ".yaml", ".yml"})
_EVAL_FOLDER = re.compile(r"(?:(?:skill|trigger|routing)[-_])?eval(?:uation)?s?")
_EVAL_STEM = re.compile(
    r"(?:.*[-_.])?(?:eval(?:uation)?s?|triggers?|routing)(?:[-_.](?:queries|cases|tests?|evals?))?"
)
# The files that evals read and write lie next to them.
_DATA_FOLDERS = frozenset({"files", "fixtures", "fixture", "inputs", "outputs", "results", "runs"})
_DATA_STEM = re.compile(
    r"(?:_.*|package|benchmark|grading|timing|history|.*(?:schema|config|results?))(?:[-_.].*)?"
)
_finding = partial(finding_of, "eval_files")

_WORDS = read_tables(Path(__file__).with_name("eval_words.txt"))
_KEYS = _WORDS["keys of eval files"]
_JUDGING_KEYS = frozenset(_KEYS["flag"] + _KEYS["right"])
_YES, _NO, _UNCLEAR, _NONE = map(frozenset, _WORDS["values in eval files"].values())
_NOBODY = _NO | _NONE | {""}


class EvalQuery(NamedTuple):
    """A query of an eval file, for some skills or not for them; None if no field says which.

    The skills are given by folded names (`str.casefold`), each once, unknown ones left out.
    """

    text: str
    kind: CaseKind
    is_wanted: bool | None
    skills: tuple[str, ...]


def is_eval_file(relative_path: str) -> bool:
    """Return whether a path is like ``evals/a.json`` or ``trigger-evals.yaml``, not their data."""
    path = PurePosixPath(relative_path.lower())
    folders = path.parent.parts
    is_data = _DATA_FOLDERS.intersection(folders) or _DATA_STEM.fullmatch(path.stem)
    if path.suffix not in _SUFFIXES or is_data:
        return False
    return bool(_EVAL_STEM.fullmatch(path.stem)) or any(map(_EVAL_FOLDER.fullmatch, folders))


def read_eval_files(
    files: Iterable[tuple[str, bytes]], skill_name: str, *, skills: AbstractSet[str] = frozenset()
) -> tuple[list[EvalQuery], list[Diagnostic]]:
    """Read the eval files of one skill; an unreadable one is a diagnostic, never an error.

    A query is for that skill unless its file says otherwise; `known` are the folded names of all.
    """
    queries: list[EvalQuery] = []
    diagnostics: list[Diagnostic] = []
    for file, data in files:
        values, problem = _load(file, data)
        diagnostics += [problem] if problem else []
        problems: Counter[str] = Counter()
        for case in eval_queries(values, skill_name, skills):
            code = ""
            if len(queries) >= MAX_QUERIES:
                code = "eval-too-many"
            elif len(case.text) > MAX_QUERY_CHARS:
                code = "eval-query-too-long"
            elif case.is_wanted is None:
                code = "eval-unclear"
            elif not case.skills:
                code = "eval-skill-unknown"
            else:
                # Half a surrogate pair is valid JSON, but not valid text.
                queries.append(case._replace(text=case.text.encode("utf-8", "replace").decode()))
            problems[code] += 1
        if not problems and not problem:
            problems["eval-empty"] = 1
        del problems[""]
        for code, count in problems.items():
            diagnostics.append(_finding(code, count, MAX_QUERIES, MAX_QUERY_CHARS).at(file))
    return queries, diagnostics


def _load(file: str, data: bytes) -> tuple[Json, Diagnostic | None]:
    """Return the values of a file, None if it cannot be read, and its problem."""
    if len(data) > MAX_FILE_BYTES:
        return None, _finding("eval-too-large", MAX_FILE_BYTES).at(file)
    suffix = PurePosixPath(file.lower()).suffix
    line: int | None
    try:
        text = data.decode("utf-8-sig")
        if suffix == ".jsonl":
            return _load_lines(file, text)
        return (json.loads(text) if suffix == ".json" else load_yaml(text)[0]), None
    except UnicodeDecodeError as error:
        # The position counts from behind a byte order mark, in the decoder's own copy.
        line, problem = error.object.count(b"\n", 0, error.start) + 1, "it is not UTF-8"
    except (ValueError, RecursionError) as error:
        line, problem = getattr(error, "lineno", None), getattr(error, "msg", str(error))
    except SkillSearchError as error:
        line, problem = getattr(error, "line", None), getattr(error, "code", str(error))
    return None, _finding("eval-unreadable", problem, line=line).at(file)


def _load_lines(file: str, text: str) -> tuple[list[Json], Diagnostic | None]:
    """Return the values of JSON lines without blank lines, comments and broken lines."""
    values: list[Json] = []
    broken: list[int] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.lstrip().startswith(("//", "#")):
            try:
                values.append(json.loads(line))
            except (ValueError, RecursionError):
                broken.append(number)
    if not broken:
        return values, None
    message = f"Lines that are not JSON: {len(broken)}; write one object a line."
    return values, Diagnostic("eval-unreadable", "warning", message, file, broken[0])


def eval_queries(values: Json, name: str, skills: AbstractSet[str]) -> Iterator[EvalQuery]:
    """Return the cases in an eval file of a skill, known or not, down to 12 levels."""
    return _Place(skills | {name.casefold()}, name.casefold()).cases(values)


class _Place(NamedTuple):
    """A place in an eval file, with the known skills and what is said above it."""

    skills: AbstractSet[str]
    owner: str
    is_wanted: bool | None = None
    depth: int = 0

    def cases(self, value: Json) -> Iterator[EvalQuery]:
        """Yield the cases in a value here."""
        below = self._replace(depth=self.depth + 1)
        if self.depth > _MAX_DEPTH:
            return
        if isinstance(value, dict):
            yield from self._cases_of(value)
        for item in value if isinstance(value, list) else ():
            if self.is_wanted is not None and isinstance(item, str) and item.strip():
                yield self._query(item.strip(), {})
            yield from below.cases(item)

    def _cases_of(self, record: Mapping[str, Json]) -> Iterator[EvalQuery]:
        fields = {_fold(key): value for key, value in record.items()}
        named = _first_text(fields, _KEYS["owner"])
        # A file may lag behind the name of its skill; a single case means what it names.
        owner = self._resolve(named) or (named if named and self.depth else self.owner)
        within = self._replace(owner=owner)
        is_judged = self.is_wanted is not None or not fields.keys().isdisjoint(_JUDGING_KEYS)
        keys = _KEYS["text"] + (_KEYS["text-if-judged"] if is_judged else [])
        if text := _first_text(fields, keys):
            yield within._query(text, fields)
            return
        below = within._replace(depth=self.depth + 1)
        for key, value in record.items():
            yield from below._cases_below(key, value)

    def _cases_below(self, key: str, value: Json) -> Iterator[EvalQuery]:
        """Yield the cases below a key, which may judge them or name their skill."""
        word = _fold(key)
        if word in _KEYS["no-cases"]:
            return
        if word == "skills" and isinstance(value, dict):
            for name, inner in value.items():
                yield from self._replace(owner=name).cases(inner)
        elif word in _YES | _NO:
            yield from self._replace(is_wanted=word in _YES).cases(value)
        else:
            named = self._resolve(key) if isinstance(value, dict) else None
            yield from self._replace(owner=named or self.owner).cases(value)

    def _resolve(self, name: str) -> str | None:
        """Return the known skill that a file names, maybe as ``plugin:name`` or by its path."""
        plain = name.strip().casefold().removesuffix("/skill.md").lstrip("/$")
        spellings = (name.casefold(), plain, re.split("[:/]", plain)[-1])
        return next(filter(self.skills.__contains__, spellings), None)

    def _query(self, text: str, fields: Mapping[str, Json]) -> EvalQuery:
        is_wanted, skills, kind = self._judge(fields)
        resolved = dict.fromkeys(filter(None, map(self._resolve, skills)))
        return EvalQuery(text, kind, is_wanted, tuple(resolved))

    def _judge(self, fields: Mapping[str, Json]) -> tuple[bool | None, Sequence[str], CaseKind]:
        """Decide by the clearest sign: a flag, a skill, a kind, what stands above."""
        own, keys = [self.owner], filter(fields.__contains__, _KEYS["right"])
        named = (_named_skills(key, fields[key], self.owner) for key in keys)
        right = next((names for names in named if names is not None), None)
        for key in _KEYS["flag"]:
            if isinstance(flag := fields.get(key), bool):
                return flag, right or own, "trigger"
        if right is not None:
            return bool(right), right or own, "trigger"
        words = {_fold(text) for key in _KEYS["kind"] if isinstance(text := fields.get(key), str)}
        if words & (_YES | _NO):
            return not words & _NO, own, "trigger"
        if self.is_wanted is not None or words & _UNCLEAR:
            return self.is_wanted, own, "trigger"
        return True, own, "task"


def _named_skills(key: str, value: Json, owner: str) -> list[str] | None:
    """Return the skills that a field names, none for nobody; None if it means something else."""
    if isinstance(value, dict):
        value = next((value[part] for part in ("route", "skill", "name") if part in value), 0)
    if value is None and key not in _KEYS["flag"]:
        return []
    listed = value if isinstance(value, list) else [value]
    names = [name for name in listed if isinstance(name, str)]
    if len(names) < len(listed):
        return None
    if key in _KEYS["output-too"] and max(map(len, map(str.split, names)), default=0) > 1:
        return None
    return [owner if _fold(name) in _YES else name for name in names if _fold(name) not in _NOBODY]


def _first_text(fields: Mapping[str, Json], keys: Iterable[str]) -> str:
    texts = (text.strip() for key in keys if isinstance(text := fields.get(key), str))
    return next(filter(None, texts), "")


def _fold(key: object) -> str:
    return re.sub(r"[\W_]", "", str(key).lower())
