"""Eval files inside skill folders: known by their path, read into queries."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.settings.values import MAX_QUERY_CHARS
from skillsearch.skills.eval_files import (
    MAX_FILE_BYTES,
    MAX_QUERIES,
    EvalQuery,
    is_eval_file,
    read_eval_files,
)

KNOWN = frozenset({"brew-coffee", "steep-tea", "squeeze-lemons", "周报"})


def read(values, file="evals/evals.json", skill="brew-coffee", **options):
    data = values if isinstance(values, bytes) else json.dumps(values).encode()
    return sorted_out(read_eval_files([(file, data)], skill, skills=KNOWN, **options))


def sorted_out(queries_and_diagnostics):
    """Return queries for skills, those not for them, and what could not be used, by name."""
    queries, diagnostics = queries_and_diagnostics
    wanted = tuple(query for query in queries if query.is_wanted)
    others = tuple(query for query in queries if not query.is_wanted)
    return SimpleNamespace(positives=wanted, not_for=others, diagnostics=tuple(diagnostics))


def judged(values, **options):
    """Read one file in short: (text, skills) of the positives, then of the others."""
    evals = read(values, **options)
    return tuple(
        [(query.text, *query.skills) for query in queries]
        for queries in (evals.positives, evals.not_for)
    )


def codes(evals):
    return [diagnostic.code for diagnostic in evals.diagnostics]


EVAL_FILES, OTHER_FILES = (
    [
        "evals/evals.json", "evals/trigger-evals.json", "evals/scenarios/long.json",
        "evaluations/basic-research.json", "tests/evals/routing.jsonl", "trigger-evals.json",
        "trigger_eval.json", "eval.json", "tests/eval.yaml", "eval_queries.json",
        "tests/test-triggers.json", "skill-routing-cases.json", "Evals/EVALS.JSON",
    ],
    [
        "package.json", "scripts/evaluate.json", "assets/examples.json", "evals/files/sales.json",
        "evals/fixtures/routing.json", "evals/benchmark.json", "evals/axis.config.json",
        "evals/routing.schema.json", "evals/x/_expected.json", "evals/grade.py", "evals/README.md",
        "retrieval.json", "",
    ],
)  # fmt: skip


def test_eval_files_are_known_by_their_path():
    assert [path for path in EVAL_FILES if not is_eval_file(path)] == []
    assert [path for path in OTHER_FILES if is_eval_file(path)] == []


def test_queries_are_for_the_skill_or_not_for_it():
    evals = read([{"query": "a"}, {"query": "b", "should_trigger": False, "skill": "steep-tea"}])
    assert evals.positives == (EvalQuery("a", "task", True, ("brew-coffee",)),)
    assert evals.not_for == (EvalQuery("b", "trigger", False, ("steep-tea",)),)
    assert evals.diagnostics == ()


def test_a_byte_order_mark_is_passed_over_and_half_a_pair_replaced():
    data = b"\xef\xbb\xbf" + b'[{"query": "a\\ud800b"}]'
    assert judged(data) == ([("a?b", "brew-coffee")], [])


@pytest.mark.parametrize(
    ("fields", "code"),
    [({"kind": "edge_case"}, "eval-unclear"), ({"expected_skill": "gone"}, "eval-skill-unknown")],
)
def test_queries_for_which_no_skill_is_right_are_left_out_and_counted(fields, code):
    evals = read([{"prompt": "make tea", **fields}, {"query": "a"}, {"prompt": "x", **fields}])
    assert [query.text for query in evals.positives] == ["a"]
    (note,) = evals.diagnostics
    assert (note.code, note.severity, note.path) == (code, "note", "evals/evals.json")
    assert note.message.startswith("Queries left out: 2; ")


def test_broken_json_lines_are_told_and_comments_passed_over():
    data = (
        b'// routing\n{"prompt": "a", "expect": "steep-tea"}\n\n{"prompt"\nnope\n{"prompt": "b"}\n'
    )
    evals = read(data, file="evals/routing.jsonl")
    queries = [(query.text, query.skills[0]) for query in evals.positives]
    assert queries == [("a", "steep-tea"), ("b", "brew-coffee")]
    (warning,) = evals.diagnostics
    assert (warning.code, warning.severity, warning.line) == ("eval-unreadable", "warning", 4)
    assert "2" in warning.message


def test_yaml_is_read_unless_the_loader_refuses_it():
    data = b'scenarios:\n  - prompt: "Greet Alice"\n  - prompt: Hi\n    expect_activation: false\n'
    queries = ([("Greet Alice", "brew-coffee")], [("Hi", "brew-coffee")])
    assert judged(data, file="eval.yaml") == queries
    (diagnostic,) = read(b"a: 1\nb: &c [x]\nd: *c\n", file="eval.yml").diagnostics
    assert (diagnostic.code, diagnostic.line) == ("eval-unreadable", 2)
    assert "anchor" in diagnostic.message
    assert "frontmatter" not in diagnostic.message


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", 1),
        (b'[\n{"query": }]', 2),
        (b"[\n\n'x']", 3),
        (b'{"query": "\xff"}', 1),
        (b'\n\n{"query": "\xff"}', 3),
        (b"\xef\xbb\xbf\n\n\xff", 3),
        (b"[" * 100_000, None),
        (b"[" + b"9" * 5_000 + b"]", None),
        (b"\0\0", 1),
    ],
)
def test_a_file_that_is_no_json_is_told(data, line):
    (warning,) = read(data).diagnostics
    assert (warning.code, warning.severity, warning.line) == ("eval-unreadable", "warning", line)


def test_a_file_without_a_query_or_that_is_too_large_is_told():
    assert codes(read({"agents": [{"agent": "x"}]})) == ["eval-empty"]
    assert codes(read(3)) == ["eval-empty"]
    evals = read(b'[{"query": "a"}]' + b" " * MAX_FILE_BYTES)
    assert (evals.positives, codes(evals)) == ((), ["eval-too-large"])


def test_a_skill_has_a_limited_number_of_queries_of_limited_length():
    values = [{"query": "a" * (MAX_QUERY_CHARS + 1)}, *({"query": f"q {i}"} for i in range(2_100))]
    evals = read(values)
    assert len(evals.positives) == MAX_QUERIES
    messages = {diagnostic.code: diagnostic.message for diagnostic in evals.diagnostics}
    assert sorted(messages) == ["eval-query-too-long", "eval-too-many"]
    assert "100" in messages["eval-too-many"]


def test_files_are_read_in_order():
    files = [("evals/b.json", b'[{"query": "1"}]'), ("evals/a.json", b'[{"query": "2"}]')]
    evals = sorted_out(read_eval_files(iter(files), "Brew-Coffee"))
    queries = [(query.text, query.skills) for query in evals.positives]
    assert queries == [("1", ("brew-coffee",)), ("2", ("brew-coffee",))]


KEYS = st.sampled_from(["query", "should_trigger", "expect", "skills", "type", "negative"])


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.sampled_from(["a", "steep-tea", "skip"]),
        lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner, max_size=4),
        max_leaves=20,
    )
)
def test_whatever_json_holds_is_read_or_told(values):
    evals = read(values)
    assert evals.positives or evals.not_for or evals.diagnostics


@given(st.binary(max_size=200), st.sampled_from(["a.json", "a.jsonl", "a.yaml"]))
def test_whatever_bytes_hold_is_read_or_told(data, file):
    evals = read(data, file=file)
    assert evals.positives or evals.not_for or evals.diagnostics
