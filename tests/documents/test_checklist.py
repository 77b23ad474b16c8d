"""The checklist of what the five documents say, row by row, and what shows it.

A row is shown by a test, which has to exist, or by an expression over the five systems, which has
to be true. A row that differs says why.
"""

import dataclasses
import importlib
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

from skillsearch import agents, errors
from skillsearch.agents import session, tool
from skillsearch.agents.toolsets import (
    chunks,
    context,
    environments,
    server_environment,
    skills_manager,
    workspace,
)
from skillsearch.execution import executors, runner, types
from skillsearch.library.skill_library import SkillLibrary

TESTS = Path(__file__).parents[1]
PAGE = Path(agents.__file__).with_name("toolsets") / "README.md"
COLUMNS = ["document", "section", "says", "shown_by", "state", "why"]
LINES = Path(__file__).with_name("checklist.tsv").read_text(encoding="utf-8").splitlines()
ROWS = [dict(zip(COLUMNS, line.split("\t"), strict=True)) for line in LINES[1:]]
TEST = re.compile(r"([\w/]+\.py)::(test_\w+)")
EXPRESSIONS = [(n, row) for n, row in enumerate(ROWS, 2) if not TEST.fullmatch(row["shown_by"])]
DOCUMENTS = ("000", "001", "002", "003", "004")
WRITTEN = re.compile(r"\bs\.(add|call|environments|folder|run|server|state|workspace)\b")
"""What an expression names that writes files, or needs others than the skills of all documents."""
STATEFUL = re.compile(r"\bs\.chunks\b")
"""What an expression names that remembers what was loaded."""
HOME = re.compile(r"^\| `(\w+)` \| (?:\d{3}|ours) \| `([\w.]+)` \|", re.MULTILINE)


def sig(function):
    """Return the arguments of a function that can be given by place, as they are written."""
    parameters = [
        parameter.name
        if parameter.default is parameter.empty
        else str(parameter.replace(annotation=parameter.empty))
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self" and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    return ", ".join(parameters)


def fields(type_):
    """Return the names of the fields of a dataclass or a pydantic model."""
    if dataclasses.is_dataclass(type_):
        return [field.name for field in dataclasses.fields(type_)]
    return list(type_.model_fields)


def raises(error, act):
    try:
        act()
    except error:
        return True
    return False


SCOPE = {
    "Path": Path, "SkillLibrary": SkillLibrary,
    "agents": agents, "chunks": chunks, "context": context, "environments": environments,
    "server_environment": server_environment,
    "errors": errors, "executors": executors, "fields": fields, "page": PAGE.read_text("utf-8"),
    "raises": raises, "runner": runner, "session": session, "sig": sig,
    "skills_manager": skills_manager, "tool": tool, "types": types, "workspace": workspace,
}  # fmt: skip


def test_the_checklist_is_whole():
    assert LINES[0].split("\t") == COLUMNS
    assert {row["document"] for row in ROWS} == set(DOCUMENTS)
    blank = [row for row in ROWS if not all(row[column].strip() for column in COLUMNS[:-1])]
    assert blank == []
    assert {row["state"] for row in ROWS} == {"same", "differs"}
    assert [row for row in ROWS if bool(row["why"]) != (row["state"] == "differs")] == []
    statements = Counter((row["document"], row["section"], row["says"]) for row in ROWS)
    assert [row for row, count in statements.items() if count > 1] == []
    assert len(ROWS) >= 250


def test_every_test_that_a_row_names_exists():
    missing = []
    for row in ROWS:
        if match := TEST.fullmatch(row["shown_by"]):
            path = TESTS / match[1]
            if not path.exists() or f"def {match[2]}(" not in path.read_text("utf-8"):
                missing.append(row)
    assert missing == []


@pytest.mark.parametrize(("number", "row"), EXPRESSIONS, ids=[str(n) for n, _ in EXPRESSIONS])
@pytest.mark.slow
def test_every_expression_of_a_row_is_true(make_systems, read_systems, shared, logged, number, row):
    if WRITTEN.search(row["shown_by"]):
        systems = make_systems(model="hashing")
    elif STATEFUL.search(row["shown_by"]):
        systems = make_systems(model="hashing", **shared)
    else:
        systems = read_systems
    scope = SCOPE | {"s": systems, "logged": logged}
    assert eval(row["shown_by"], scope) is True, f"line {number}: {row['says']}"


def test_every_name_of_the_page_is_where_it_says():
    homes = HOME.findall(SCOPE["page"])
    assert len(homes) >= 14
    for name, home in homes:
        exec(f"from {home} import {name}", {})
    assert importlib.import_module("skillsearch").SkillLibrary is SkillLibrary
