"""The eval files that lie in skill folders → the queries that a skill is for, or not for; pure.

A path tells which files these are; `eval_cases` knows what they say.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeAlias

from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.errors import SkillSearchError
from skillsearch.evaluation.eval_cases import JudgedCase, Kind, judged_cases
from skillsearch.types import Diagnostic, JsonValue

MAX_FILE_BYTES = 1 << 20
MAX_QUERIES = 2_000
"""Of one skill."""

YamlLoader: TypeAlias = Callable[[str], JsonValue]
"""YAML text → its values; raises a `SkillSearchError` for text that it refuses."""

_SUFFIXES = frozenset({".json", ".jsonl", ".yaml", ".yml"})
_EVAL_FOLDER = re.compile(r"(?:(?:skill|trigger|routing)[-_])?eval(?:uation)?s?")
_EVAL_STEM = re.compile(
    r"(?:.*[-_.])?(?:eval(?:uation)?s?|triggers?|routing)(?:[-_.](?:queries|cases|tests?|evals?))?"
)
# What evals read and write lies beside them.
_DATA_FOLDERS = frozenset({"files", "fixtures", "fixture", "inputs", "outputs", "results", "runs"})
_DATA_STEM = re.compile(
    r"(?:_.*|package|benchmark|grading|timing|history|.*(?:schema|config|results?))(?:[-_.].*)?"
)
_PROBLEMS = {
    "eval-empty": "The eval file holds no query; give each case a 'query' or a 'prompt'.",
    "eval-too-many": f"Queries left out: {{}}; at most {MAX_QUERIES} of one skill are read.",
    "eval-query-too-long": f"Queries left out: {{}}; longer than {MAX_QUERY_CHARS} characters.",
    "eval-unclear": (
        "Queries left out: {}; no field says which skill is right; add 'should_trigger' or"
        " 'expected_skill'."
    ),
    "eval-skill-unknown": "Queries left out: {}; the skill that they name is not here.",
}


@dataclass(frozen=True, slots=True)
class EvalQuery:
    """A query of an eval file.

    Attributes:
        text: What is asked.
        file: The file it stands in, as it was named to the reader.
        kind: Whether it is about the choice of a skill or about its work.
        skills: Folded names (`str.casefold`) of the skills that it is for, or among
            `TriggerEvals.not_for` not for.
    """

    text: str
    file: str
    kind: Kind
    skills: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TriggerEvals:
    """What the eval files of one skill say.

    Attributes:
        positives: Queries for this skill, or for others that their file names.
        not_for: Queries that are not for the skills they list; they may be for others.
        diagnostics: Files and queries that cannot be used.
    """

    positives: tuple[EvalQuery, ...]
    not_for: tuple[EvalQuery, ...]
    diagnostics: tuple[Diagnostic, ...]


def is_eval_file(relative_path: str) -> bool:
    """Say whether a file of a skill may, by its path, hold queries that test the skill.

    That is JSON, JSON lines or YAML in a folder like ``evals``, or named like
    ``trigger-evals.json``; not what evals read and write (``evals/files/``, ``benchmark.json``).

    Args:
        relative_path: Path below the skill folder, with ``/``.

    Returns:
        Whether it is worth reading; `read_trigger_evals` finds what is in it.
    """
    path = PurePosixPath(relative_path.lower())
    folders = path.parent.parts
    if path.suffix not in _SUFFIXES or _DATA_FOLDERS.intersection(folders):
        return False
    if _DATA_STEM.fullmatch(path.stem):
        return False
    return bool(_EVAL_STEM.fullmatch(path.stem)) or any(map(_EVAL_FOLDER.fullmatch, folders))


def read_trigger_evals(
    files: Mapping[str, bytes] | Iterable[tuple[str, bytes]],
    skill_name: str,
    *,
    known: AbstractSet[str] = frozenset(),
    load_yaml: YamlLoader | None = None,
) -> TriggerEvals:
    """Read the eval files of one skill; what cannot be read is a diagnostic, never an error.

    Args:
        files: Names and bytes of the files that `is_eval_file` accepts.
        skill_name: The skill that they lie in: what a query is for unless its file says otherwise.
        known: Folded names of all skills; a query for one that is not among them is left out.
        load_yaml: Reads YAML; without it YAML files are left out.

    Returns:
        The queries, in the order of the files.
    """
    reader = _Reader(skill_name, known, load_yaml)
    for file, data in files.items() if isinstance(files, Mapping) else files:
        reader.read(file, data)
    return TriggerEvals(tuple(reader.positives), tuple(reader.not_for), tuple(reader.diagnostics))


class _Reader:
    """What was read of one skill so far."""

    def __init__(
        self, skill_name: str, known: AbstractSet[str], load_yaml: YamlLoader | None
    ) -> None:
        self.positives: list[EvalQuery] = []
        self.not_for: list[EvalQuery] = []
        self.diagnostics: list[Diagnostic] = []
        self._skill_name = skill_name
        self._known = known
        self._load_yaml = load_yaml

    def read(self, file: str, data: bytes) -> None:
        """Add the queries of one file."""
        values, problem = _load(file, data, self._load_yaml)
        if problem:
            self.diagnostics.append(problem)
        cases = judged_cases(values, self._skill_name, self._known)
        outcomes = Counter(self._add(file, case) for case in cases)
        if not outcomes and not problem:
            outcomes["eval-empty"] = 1
        for code, count in outcomes.items():
            if code:
                message = _PROBLEMS[code].format(count)
                self.diagnostics.append(Diagnostic(code, "note", message, file))

    def _add(self, file: str, case: JudgedCase) -> str:
        """Add a query; return the code of what keeps it out, or an empty text."""
        if len(self.positives) + len(self.not_for) >= MAX_QUERIES:
            return "eval-too-many"
        if len(case.text) > MAX_QUERY_CHARS:
            return "eval-query-too-long"
        if case.is_wanted is None:
            return "eval-unclear"
        if not case.skills:
            return "eval-skill-unknown"
        # Half a surrogate pair is valid JSON, but no text.
        text = case.text.encode("utf-8", "replace").decode()
        queries = self.positives if case.is_wanted else self.not_for
        queries.append(EvalQuery(text, file, case.kind, case.skills))
        return ""


def _load(
    file: str, data: bytes, load_yaml: YamlLoader | None
) -> tuple[JsonValue, Diagnostic | None]:
    """Return the values of a file, None where it cannot be read, and what is wrong with it."""
    if len(data) > MAX_FILE_BYTES:
        message = f"The eval file is larger than {MAX_FILE_BYTES} bytes; split it."
        return None, Diagnostic("eval-too-large", "warning", message, file)
    suffix = PurePosixPath(file.lower()).suffix
    line: int | None
    try:
        text = data.decode("utf-8-sig")
        if suffix == ".jsonl":
            return _load_lines(file, text)
        if suffix == ".json":
            return json.loads(text), None
        if load_yaml:
            return load_yaml(text), None
        message = "The eval file is YAML, which is not read here; write it as JSON."
        return None, Diagnostic("eval-unreadable", "note", message, file)
    except UnicodeDecodeError as error:
        # Its place is counted from behind a byte order mark, in its own copy of the bytes.
        line, problem = error.object.count(b"\n", 0, error.start) + 1, "it is not UTF-8"
    except (ValueError, RecursionError) as error:
        line, problem = getattr(error, "lineno", None), getattr(error, "msg", str(error))
    except SkillSearchError as error:
        line, problem = getattr(error, "line", None), getattr(error, "code", str(error))
    message = f"The eval file cannot be read ({problem}); mend it or move it away."
    return None, Diagnostic("eval-unreadable", "warning", message, file, line)


def _load_lines(file: str, text: str) -> tuple[list[JsonValue], Diagnostic | None]:
    """Return the values of JSON lines without blank lines, comments and broken lines."""
    values: list[JsonValue] = []
    broken: list[int] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith(("//", "#")):
            continue
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            broken.append(number)
    if not broken:
        return values, None
    message = f"Lines that are not JSON: {len(broken)}; write one object a line."
    return values, Diagnostic("eval-unreadable", "warning", message, file, broken[0])
