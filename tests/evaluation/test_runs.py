"""Run files: what is read, in which order, what is refused, and what others read of ours."""

import math
from pathlib import Path
from urllib.parse import unquote

import ir_measures
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.runs import read_run, write_run
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery

IDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from(" %2 \u3000\ufeff"),
    min_size=1,
    max_size=5,
).filter(str.strip)
SCORES = st.floats(-(2.0**126), 2.0**127, width=32) | st.sampled_from([0, 0.5, 1])


def make_collection(doc_ids="abcd", query_ids=("q1", "q2"), negatives=("n1",), unjudged=()):
    return Collection(
        name="letters",
        documents=tuple(JudgedDocument(key, key, "") for key in doc_ids),
        queries=tuple(JudgedQuery(key, key) for key in query_ids),
        qrels={key: {doc_ids[0]: 1} for key in query_ids},
        negatives=tuple(JudgedQuery(key, key) for key in negatives),
        unjudged=frozenset(unjudged),
    )


@pytest.fixture
def read(tmp_path):
    """Read a run of the letters from its text."""

    def run(text, collection=None):
        path = tmp_path / "run.trec"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_run(path, collection or make_collection())

    return run


def order(ranking):
    return [doc_id for doc_id, _ in ranking]


def trec_eval_order(scores):
    """Return documents in the order of trec_eval: a document's rank is 1 over its RR."""
    ranks = {}
    for doc_id in scores:
        qrels, run = {"q": {doc_id: 1}}, {"q": scores}
        means = ir_measures.pytrec_eval.calc_aggregate([ir_measures.RR], qrels, run)
        ranks[doc_id] = 1 / means[ir_measures.RR]
    return sorted(ranks, key=ranks.__getitem__)


def test_the_order_is_by_score_then_by_later_id_whatever_the_rank_says(read):
    run = read(
        "q1 Q0 a 1 0.5 x\nq1\tQ0\tb\t7\t.5\tx\n\n q1  Q0 c nonsense 5e-1 x\r\nq1 0 d 0 0.75 x\n"
        "n1 Q0 a 1 -3 x"
    )
    assert run == {"q1": (("d", 0.75), ("c", 0.5), ("b", 0.5), ("a", 0.5)), "n1": (("a", -3.0),)}


def test_scores_are_told_apart_as_32_bit_floats(read):
    """Scores that trec_eval cannot tell apart are ties; they stay as written."""
    run = read("q1 Q0 a 1 0.500000001 x\nq1 Q0 b 2 0.5 x\nq1 Q0 c 3 0.5000001 x\n")
    assert run["q1"] == (("c", 0.5000001), ("b", 0.5), ("a", 0.500000001))
    assert trec_eval_order({"a": 0.500000001, "b": 0.5, "c": 0.5000001}) == order(run["q1"])


def test_answers_to_queries_that_were_asked_again_keep_their_mark(read):
    run = read("dropped:q1 Q0 b 1 0.5 x\nq1 Q0 a 1 0.5 x\n")
    assert run == {"dropped:q1": (("b", 0.5),), "q1": (("a", 0.5),)}
    with pytest.raises(EvaluationError, match="dropped:n1"):
        read("dropped:n1 Q0 b 1 0.5 x\n")


def test_queries_that_the_collection_left_out_are_passed_over(read):
    """An empty file is the run of a system that never answers."""
    assert read("") == {}
    collection = make_collection(unjudged=["q3"])
    assert read("q3 Q0 a 1 1 x\nq1 Q0 b 1 1 x", collection) == {"q1": (("b", 1.0),)}
    with pytest.raises(EvaluationError, match=":1: 'z' is not an _id in corpus"):
        read("q3 Q0 z 1 1 x", collection)


def test_an_id_with_percent_signs_is_taken_as_it_stands_first(read):
    collection = make_collection(["a b", "c%20d", "100%"], ["q 1"])
    text = "q%201 Q0 a%20b 1 3 x\nq%201 Q0 c%20d 2 2 x\nq%201 Q0 100% 3 1 x\n"
    assert order(read(text, collection)["q 1"]) == ["a b", "c%20d", "100%"]


LINES = {
    "a column less": ("q1 Q0 a 1 0.5", ["'q1 Q0 a 1 0.5' has 5 columns, not 6", "rank score tag"]),
    "a column more": ("q1 Q0 a b 1 0.5 x", ["has 7 columns, not 6"]),
    "judgments": ("q1\t0\ta\t1", ["has 4 columns"]),
    "no number": ("q1 Q0 a 1 high x", ["the score is 'high'", "must be a number"]),
    "nan": ("q1 Q0 a 1 nan x", ["'nan'"]),
    "infinite": ("q1 Q0 a 1 -inf x", ["'-inf'"]),
    "beyond all floats": ("q1 Q0 a 1 1e999 x", ["'1e999'"]),
    "beyond 32 bits": ("q1 Q0 a 1 1e39 x", ["'1e39'", "3.4e38"]),
    "unknown query": ("q9 Q0 a 1 1 x", ["'q9' is not an _id in queries.jsonl", "of another coll"]),
    "unknown document": ("q1 Q0 Z 1 1 x", ["'Z' is not an _id in corpus.jsonl", "of another coll"]),
    "unknown decoded": ("q1 Q0 %5A 1 1 x", ["'%5A' is not an _id"]),
    "a document twice": ("q1 Q0 d 1 9 x", ["'d'", "'q1'", "remove one of the two"]),
    "not UTF-8": (b"q1 Q0 \xff 1 1 x", ["UTF-8"]),
    "NUL": ("q1 Q0 a\0 1 1 x", ["'a\\x00' is not an _id"]),
    "a long word": ("q1 Q0 " + "a" * 100_000 + " 1 1 x", ["is not an _id"]),
}


@pytest.mark.parametrize("case", LINES)
def test_a_line_that_cannot_be_used_is_named_with_its_value(read, case):
    line, parts = LINES[case]
    data = line if isinstance(line, bytes) else line.encode()
    with pytest.raises(EvaluationError, match=r"/run\.trec:3: ") as caught:
        read(b"q1 Q0 d 1 1 x\n\n" + data)
    message = str(caught.value)
    assert [part for part in parts if part not in message] == []
    assert len(message) < 400


def test_an_unknown_document_comes_with_the_nearest(read):
    with pytest.raises(EvaluationError, match=r"\(nearest: 'team/fill-pdf'\)"):
        read("q1 Q0 team-fill-pdf 1 1 x", make_collection(["team/fill-pdf", "csv"]))


def test_a_run_that_cannot_be_read_is_an_error(tmp_path):
    for path in (tmp_path / "absent", tmp_path, Path("a" * 5000), Path("a\0b")):
        with pytest.raises(EvaluationError, match=r"missing or not a file|cannot be read"):
            read_run(path, make_collection())


@given(st.binary(max_size=40), st.integers(0, 30))
def test_whatever_the_bytes_they_are_read_or_refused(tmp_path_factory, data, offset):
    path = tmp_path_factory.mktemp("fuzz") / "run"
    line = b"q1 Q0 a 1 0.5 x\nq2 Q0 b 1 0.5 x\n"
    path.write_bytes(line[:offset] + data + line[offset:])
    try:
        run = read_run(path, make_collection())
        message = str(path) if run.keys() <= {"q1", "q2", "n1"} else ""
    except EvaluationError as exc:
        message = str(exc)
    assert str(path) in message


def test_a_run_is_written_in_the_form_of_trec(tmp_path):
    ranking = (("a", 0.7), ("b", 0.7), ("c", 0.9), ("d", 0.1))
    write_run(tmp_path / "run", {"q1": ranking, "q2": (), "q 3": (("x y%", -0.0),)}, "my system")
    assert (tmp_path / "run").read_text("utf-8").splitlines() == [
        "q1 Q0 a 1 0.7 my%20system",
        "q1 Q0 b 2 0.6999999 my%20system",
        "q1 Q0 c 3 0.69999987 my%20system",
        "q1 Q0 d 4 0.1 my%20system",
        "q%203 Q0 x%20y%25 1 -0.0 my%20system",
    ]
    write_run(tmp_path / "run", {"q1": (("a", 1.0),)}, "")
    assert (tmp_path / "run").read_text() == "q1 Q0 a 1 1.0 -\n"


@st.composite
def answered(draw):
    """Draw a collection and rankings of it with scores in no order."""
    doc_ids = draw(st.lists(IDS, min_size=1, max_size=6, unique=True))
    query_ids = draw(st.lists(IDS, min_size=1, max_size=3, unique=True))
    drawn_ids = {*doc_ids, *query_ids}
    # Where the encoded form of an id is an id too, that is what is read: by the rule, not by luck.
    assume(not any(unquote(key) != key and unquote(key) in drawn_ids for key in drawn_ids))
    rankings = st.lists(st.sampled_from(doc_ids), unique=True).flatmap(
        lambda ids: st.tuples(*(st.tuples(st.just(key), SCORES) for key in ids))
    )
    return make_collection(doc_ids, query_ids, ()), {key: draw(rankings) for key in query_ids}


@given(answered())
def test_a_run_comes_back_in_the_same_order(tmp_path_factory, drawn):
    collection, answers = drawn
    path = tmp_path_factory.mktemp("runs") / "run"
    write_run(path, answers, "ours")
    run = read_run(path, collection)
    assert {key: order(run.get(key, ())) for key in answers} == {
        key: order(ranking) for key, ranking in answers.items()
    }
    written = {}
    for line in ir_measures.read_trec_run(str(path)):
        written.setdefault(line.query_id, {})[line.doc_id] = line.score
    assert [len(scores) for scores in written.values()] == [
        len(ranking) for ranking in answers.values() if ranking
    ]
    for scores in written.values():
        assert trec_eval_order(scores) == list(scores)


@given(
    st.dictionaries(
        st.text("aB_é\uffee😀", min_size=1, max_size=2),
        st.sampled_from([0.0, -0.0, 1.0, 1.0 + 1e-9, 1.0 + 1e-6, 1e-46, -2.5, 3e38]),
        min_size=1,
        max_size=9,
    )
)
def test_the_order_is_that_of_trec_eval(tmp_path_factory, scores):
    path = tmp_path_factory.mktemp("order") / "run"
    lines = [f"q1 Q0 {key} 1 {score!r} x\n" for key, score in scores.items()]
    path.write_text("".join(lines), "utf-8")
    collection = make_collection(tuple(scores))
    assert order(read_run(path, collection)["q1"]) == trec_eval_order(scores)


@pytest.mark.parametrize("score", [math.nan, -math.inf, -1e39])
def test_a_score_that_is_no_number_is_not_written(tmp_path, score):
    path = tmp_path / "run"
    path.write_text("before")
    with pytest.raises(EvaluationError, match=r"'a' scores .* for 'q', which no run can hold"):
        write_run(path, {"p": (("a", 1.0),), "q": (("a", score),)}, "x")
    assert [path.read_text(), *tmp_path.iterdir()] == ["before", path]


def test_a_score_too_large_for_32_bits_is_the_largest(tmp_path, read):
    """The order stays; only room below can run out."""
    write_run(tmp_path / "run", {"q1": (("a", 1e300), ("b", math.inf))}, "x")
    assert order(read((tmp_path / "run").read_bytes())["q1"]) == ["a", "b"]
    lowest = float(np.finfo(np.float32).min)
    with pytest.raises(EvaluationError, match="'b' scores"):
        write_run(tmp_path / "run", {"q1": (("a", lowest), ("b", lowest))}, "x")


def test_a_run_that_cannot_be_written_is_an_error(tmp_path):
    answers = {"q1": (("a", 1.0),)}
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "absent" / "run", tmp_path / "folder", tmp_path / "a\0b"):
        with pytest.raises(EvaluationError, match="cannot be written"):
            write_run(path, answers, "x")
    with pytest.raises(EvaluationError, match="cannot be written"):
        write_run(tmp_path / "run", {"\ud83d": (("a", 1.0),)}, "x")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]
