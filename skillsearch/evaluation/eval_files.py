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
from pathlib import PurePosixPath
from typing import Literal, NamedTuple, TypeAlias

from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.errors import SkillSearchError
from skillsearch.skills.frontmatter import load_yaml
from skillsearch.types import Diagnostic, JsonValue

MAX_FILE_BYTES = 1 << 20
MAX_QUERIES = 2_000
"""Of one skill."""

Kind: TypeAlias = Literal["trigger", "task"]
"""``trigger``: about which skill is chosen; ``task``: about the work that it then does."""

_MAX_DEPTH = 12
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
    "eval-empty": "The eval file has no query; give each case a 'query' or a 'prompt'.",
    "eval-too-many": f"Queries left out: {{}}; at most {MAX_QUERIES} of one skill are read.",
    "eval-query-too-long": f"Queries left out: {{}}; longer than {MAX_QUERY_CHARS} characters.",
    "eval-unclear": (
        "Queries left out: {}; no field says which skill is right; add 'should_trigger' or"
        " 'expected_skill'."
    ),
    "eval-skill-unknown": "Queries left out: {}; the skill that they name is missing.",
}

# Keys, and words in their values, are compared without case and punctuation.
_TEXT_KEYS = (
    "query prompt question request userrequest userprompt userinput usermessage utterance input"
).split()
_TEXT_KEYS_IF_JUDGED = ["text", "phrase", "message", "user"]
"""Too common to be a query unless something beside or above them judges it."""
_FLAG_KEYS = (
    "shouldtrigger shouldactivate shouldfire shouldload"
    " expecttrigger expectactivation expectedtrigger expectedactivation"
).split()
_RIGHT_KEYS = (
    "expectedskill expectedskills expectedprimaryskill expectedowner expectedwinner expectedroute"
    " shouldtrigger expect expected"
).split()
_JUDGING_KEYS = frozenset({*_FLAG_KEYS, *_RIGHT_KEYS})
_OUTPUT_TOO = frozenset({"expect", "expected"})
"""In some files the name of a skill, in others the output of the agent."""
_OWNER_KEYS = ["skill", "skillname"]
_KIND_KEYS = "type kind class category prompttype polarity label".split()
_NO_CASES = frozenset(
    """
    assertions expectations turns messages conversation history steps results runs outputs
    metadata config settings
    """.split()
)
"""Keys below which texts are not queries."""
_YES = frozenset(
    """
    positive positives positivecases shouldtrigger shouldactivate musttrigger mustactivate should
    triggerpositive positivetrigger positivetriggers triggerphrases activate
    """.split()
)
_NO = frozenset(
    """
    negative negatives negativecases shouldnottrigger shouldnotactivate mustnottrigger
    mustnotactivate shouldnot triggernegative negativetrigger negativetriggers antitrigger
    antitriggers nontrigger notrigger nearmiss nearmisses negativecontrol skip
    """.split()
)
_UNCLEAR = frozenset({"trigger", "edgecase", "edge", "boundary", "ambiguous"})
"""About the choice of a skill, without saying which choice is right."""
_NOBODY = frozenset({"", "none", "null", "nobody"})


class EvalQuery(NamedTuple):
    """A query of an eval file, for some skills or not for them; None if no field says which.

    The skills are given by folded names (`str.casefold`), each once, unknown ones left out.
    """

    text: str
    kind: Kind
    is_wanted: bool | None
    skills: tuple[str, ...]


class Evals(NamedTuple):
    """Contents of the eval files of one skill: queries for skills, and queries not for them."""

    positives: tuple[EvalQuery, ...]
    not_for: tuple[EvalQuery, ...]
    diagnostics: tuple[Diagnostic, ...]


def is_eval_file(relative_path: str) -> bool:
    """Return whether a path below a skill folder is like ``evals/a.json``, ``trigger-evals.yaml``.

    Not what evals read and write (``evals/files/``, ``benchmark.json``).
    """
    path = PurePosixPath(relative_path.lower())
    folders = path.parent.parts
    is_data = _DATA_FOLDERS.intersection(folders) or _DATA_STEM.fullmatch(path.stem)
    if path.suffix not in _SUFFIXES or is_data:
        return False
    return bool(_EVAL_STEM.fullmatch(path.stem)) or any(map(_EVAL_FOLDER.fullmatch, folders))


def read_eval_files(
    files: Iterable[tuple[str, bytes]], skill_name: str, *, known: AbstractSet[str] = frozenset()
) -> Evals:
    """Read the eval files of one skill; what cannot be read is a diagnostic, never an error.

    A query is for that skill unless its file says otherwise; `known` are the folded names of all.
    """
    queries: dict[bool, list[EvalQuery]] = {True: [], False: []}
    diagnostics: list[Diagnostic] = []
    for file, data in files:
        values, problem = _load(file, data)
        diagnostics += [problem] if problem else []
        problems: Counter[str] = Counter()
        for case in eval_queries(values, skill_name, known):
            code = ""
            if sum(map(len, queries.values())) >= MAX_QUERIES:
                code = "eval-too-many"
            elif len(case.text) > MAX_QUERY_CHARS:
                code = "eval-query-too-long"
            elif case.is_wanted is None:
                code = "eval-unclear"
            elif not case.skills:
                code = "eval-skill-unknown"
            else:
                # Half a surrogate pair is valid JSON, but not valid text.
                text = case.text.encode("utf-8", "replace").decode()
                queries[case.is_wanted].append(case._replace(text=text))
            problems[code] += 1
        if not problems and not problem:
            problems["eval-empty"] = 1
        del problems[""]
        for code, count in problems.items():
            diagnostics.append(Diagnostic(code, "note", _PROBLEMS[code].format(count), file))
    return Evals(tuple(queries[True]), tuple(queries[False]), tuple(diagnostics))


def _load(file: str, data: bytes) -> tuple[JsonValue, Diagnostic | None]:
    """Return the values of a file, None if it cannot be read, and what is wrong with it."""
    if len(data) > MAX_FILE_BYTES:
        message = f"The eval file is larger than {MAX_FILE_BYTES} bytes; split it."
        return None, Diagnostic("eval-too-large", "warning", message, file)
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
    message = f"The eval file cannot be read ({problem}); fix it or move it away."
    return None, Diagnostic("eval-unreadable", "warning", message, file, line)


def _load_lines(file: str, text: str) -> tuple[list[JsonValue], Diagnostic | None]:
    """Return the values of JSON lines without blank lines, comments and broken lines."""
    values: list[JsonValue] = []
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


def eval_queries(
    values: JsonValue, skill_name: str, known: AbstractSet[str]
) -> Iterator[EvalQuery]:
    """Yield the cases in an eval file, each judged by what stands in and above it.

    Nothing is found below 12 levels. The skill that the file lies in need not be known.
    """
    own = skill_name.casefold()
    yield from _Finder(known | {own}).cases(values, own, None, 0)


class _Finder(NamedTuple):
    known: AbstractSet[str]

    def resolve(self, name: str) -> str | None:
        """Return the known skill that a file names, maybe as ``plugin:name`` or by its path."""
        plain = name.strip().casefold().removesuffix("/skill.md").lstrip("/$")
        meant = (name.casefold(), plain, re.split("[:/]", plain)[-1])
        return next(filter(self.known.__contains__, meant), None)

    def query(
        self, text: str, fields: Mapping[str, JsonValue], owner: str, is_wanted: bool | None
    ) -> EvalQuery:
        is_wanted, skills, kind = _judge(fields, owner, is_wanted)
        resolved = dict.fromkeys(filter(None, map(self.resolve, skills)))
        return EvalQuery(text, kind, is_wanted, tuple(resolved))

    def cases(
        self, value: JsonValue, owner: str, is_wanted: bool | None, depth: int
    ) -> Iterator[EvalQuery]:
        """Yield the cases in a value, given what is said above it."""
        if depth > _MAX_DEPTH:
            return
        if isinstance(value, list):
            for item in value:
                if is_wanted is not None and isinstance(item, str) and item.strip():
                    yield self.query(item.strip(), {}, owner, is_wanted)
                yield from self.cases(item, owner, is_wanted, depth + 1)
        elif isinstance(value, dict):
            fields = {_fold(key): inner for key, inner in value.items()}
            named = _first_text(fields, _OWNER_KEYS)
            # A file may lag behind the name of its skill; a single case means what it names.
            owner = self.resolve(named) or (named if named and depth else owner)
            is_judged = is_wanted is not None or not fields.keys().isdisjoint(_JUDGING_KEYS)
            keys = [*_TEXT_KEYS, *(_TEXT_KEYS_IF_JUDGED if is_judged else ())]
            if text := _first_text(fields, keys):
                yield self.query(text, fields, owner, is_wanted)
                return
            for key, inner in value.items():
                yield from self._cases_below(key, inner, owner, is_wanted, depth + 1)

    def _cases_below(
        self, key: str, value: JsonValue, owner: str, is_wanted: bool | None, depth: int
    ) -> Iterator[EvalQuery]:
        """Yield the cases below a key, which may judge them or name their skill."""
        word = _fold(key)
        if word in _NO_CASES:
            return
        if word == "skills" and isinstance(value, dict):
            for name, inner in value.items():
                yield from self.cases(inner, name, is_wanted, depth)
            return
        if word in _YES or word in _NO:
            is_wanted = word in _YES
        elif isinstance(value, dict):
            owner = self.resolve(key) or owner
        yield from self.cases(value, owner, is_wanted, depth)


def _judge(
    fields: Mapping[str, JsonValue], owner: str, is_wanted: bool | None
) -> tuple[bool | None, Sequence[str], Kind]:
    """Decide by the clearest sign: a flag, a skill, a kind, what stands above."""
    named = (_named_skills(key, fields[key], owner) for key in _RIGHT_KEYS if key in fields)
    right = next((names for names in named if names is not None), None)
    for key in _FLAG_KEYS:
        if isinstance(flag := fields.get(key), bool):
            return flag, right or [owner], "trigger"
    if right is not None:
        return bool(right), right or [owner], "trigger"
    words = {_fold(text) for key in _KIND_KEYS if isinstance(text := fields.get(key), str)}
    if words & (_YES | _NO):
        return not words & _NO, [owner], "trigger"
    if is_wanted is not None or words & _UNCLEAR:
        return is_wanted, [owner], "trigger"
    return True, [owner], "task"


def _named_skills(key: str, value: JsonValue, owner: str) -> list[str] | None:
    """Return the skills that a field names, none for nobody; None if it means something else."""
    if isinstance(value, dict):
        value = next((value[part] for part in ("route", "skill", "name") if part in value), 0)
    if value is None and key not in _FLAG_KEYS:
        return []
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    if key in _OUTPUT_TOO and any(len(name.split()) > 1 for name in names):
        return None
    meant = [(name, word) for name in names if (word := _fold(name)) not in _NO | _NOBODY]
    return [owner if word in _YES else name for name, word in meant]


def _first_text(fields: Mapping[str, JsonValue], keys: Iterable[str]) -> str:
    texts = (text.strip() for key in keys if isinstance(text := fields.get(key), str))
    return next(filter(None, texts), "")


def _fold(key: object) -> str:
    return re.sub(r"[\W_]", "", str(key).lower())
