"""Judged collections: what is read from a folder, what is refused and how, and what is written."""

import csv
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.collection import (
    digest,
    load_collection,
    negatives_by_source,
    save_collection,
)
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.settings.values import MAX_QUERY_CHARS

FILES = {
    "corpus.jsonl": '{"_id": "pdf", "name": "fill-pdf", "description": "Forms.", "body": "#"}\n'
    '{"_id": "csv", "name": "chart-csv", "description": "Draws charts.", "body": null}\n',
    "queries.jsonl": '{"_id": "q1", "text": "fill in a form", "kind": "trigger", "lang": "en"}\n'
    '{"_id": "q2", "text": "draw a chart", "leak": false}\n',
    "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\tpdf\t1\nq2\tcsv\t2\nq2\tpdf\t-1\n",
    "ignore.tsv": "query-id\tcorpus-id\nq1\tcsv\n",
    "negatives.jsonl": '{"_id": "n1", "text": "boil an egg", "kind": "twin", "twin_of": "q1"}\n',
}
"""A small collection with everything in it."""

PLAIN = st.characters(exclude_categories=["Cs"])
IDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6).filter(
    str.strip
)
TEXTS = st.text(PLAIN, min_size=1, max_size=12).filter(str.strip)


@pytest.fixture
def write(tmp_path):
    """Write the small collection, with some of its files changed, added or, by None, left out."""
    return lambda **changed: write_files(tmp_path / "small", **changed)


def write_files(folder, **changed):
    """Write the small collection; a keyword names a file with one underscore for its dot."""
    named = {key.replace("_", "."): content for key, content in changed.items()}
    folder.mkdir(exist_ok=True)
    for name, content in {**FILES, **named}.items():
        if content is not None:
            data = content if isinstance(content, bytes) else content.encode()
            (folder / name).write_bytes(data)
    return folder


def problem(folder, **options):
    with pytest.raises(EvaluationError) as caught:
        load_collection(folder, **options)
    return str(caught.value)


def test_everything_in_a_folder_is_read(write):
    assert load_collection(write()) == Collection(
        name="small",
        documents=(
            JudgedDocument("pdf", "fill-pdf", "Forms.", "#"),
            JudgedDocument("csv", "chart-csv", "Draws charts."),
        ),
        queries=(
            JudgedQuery("q1", "fill in a form", "trigger", "en"),
            JudgedQuery("q2", "draw a chart"),
        ),
        qrels={"q1": {"pdf": 1}, "q2": {"csv": 2, "pdf": -1}},
        ignored={"q1": frozenset({"csv"})},
        negatives=(JudgedQuery("n1", "boil an egg", "twin", twin_of="q1"),),
    )


def test_ignored_documents_and_negatives_are_optional(write):
    without = load_collection(write(ignore_tsv=None, negatives_jsonl=None))
    assert (without.ignored, without.negatives) == ({}, ())
    assert load_collection(write(ignore_tsv="", negatives_jsonl="")) == without


def test_a_folder_of_beir_is_read_as_it_is(write):
    folder = write(
        corpus_jsonl='{"_id": "1", "title": "T", "text": "long", "metadata": {}}\n'
        '{"_id": "2", "title": " ", "text": "x"}\n{"_id": "3", "text": "y"}\n',
        queries_jsonl='{"_id": "7", "text": "what?", "metadata": {}}\n',
        qrels_tsv=None,
        ignore_tsv=None,
        negatives_jsonl=None,
    )
    (folder / "qrels").mkdir()
    for split, doc_id in (("test", 1), ("dev", 2)):
        rows = f"query-id\tcorpus-id\tscore\n7\t{doc_id}\t1\n"
        (folder / "qrels" / f"{split}.tsv").write_text(rows)
    collection = load_collection(folder)
    assert collection.documents == (
        JudgedDocument("1", "T", "long"),
        JudgedDocument("2", "2", "x"),
        JudgedDocument("3", "3", "y"),
    )
    assert collection.qrels == {"7": {"1": 1}}
    assert load_collection(folder, "dev").qrels == {"7": {"2": 1}}
    assert "Splits there: dev, test" in problem(folder, split="train")


def test_a_document_may_name_its_language(write):
    """In our form and in BEIR's; it is not text, so the digest does not cover it."""
    lines = (
        '{"_id": "pdf", "name": "fill-pdf", "lang": "pt-BR"}',
        '{"_id": "csv", "title": "T", "text": "x", "lang": "de"}',
        '{"_id": "c", "name": "c", "lang": null}',
    )
    documents = load_collection(write(corpus_jsonl="\n".join(lines))).documents
    assert [document.language for document in documents] == ["pt-BR", "de", ""]
    assert digest(documents) == digest([replace(document, language="") for document in documents])
    wrong = '{"_id": "pdf", "name": "fill-pdf", "lang": ["pt"]}'
    assert "\"lang\" is ['pt']; it must be a text" in problem(write(corpus_jsonl=wrong))


def test_a_split_is_not_passed_over_for_the_judgments_of_all(write):
    folder = write()
    assert "leave out --split" in problem(folder, split="dev")
    (folder / "qrels").mkdir()
    (folder / "qrels" / "dev.tsv").write_text((folder / "qrels.tsv").read_text())
    assert load_collection(folder, "dev").qrels == load_collection(folder).qrels


def test_our_judgments_come_before_those_of_a_split(write):
    folder = write()
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("nonsense")
    assert load_collection(folder).qrels["q1"] == {"pdf": 1}


def test_whole_numbers_are_ids(write):
    collection = load_collection(
        write(
            queries_jsonl='{"_id": 1, "text": "a"}\n{"_id": "2", "text": "b"}\n',
            qrels_tsv="query-id\tcorpus-id\tscore\n1\tpdf\t1\n2\tpdf\t1\n",
            ignore_tsv=None,
        )
    )
    assert [query.query_id for query in collection.queries] == ["1", "2"]
    message = problem(write(queries_jsonl='{"_id": 1, "text": "a"}\n{"_id": "1", "text": "b"}'))
    assert "queries.jsonl:1 has it too" in message


def test_line_ends_marks_and_blank_lines_do_not_matter(write):
    plain = load_collection(write())
    odd = {}
    for name, text in FILES.items():
        gap = "\r\n\r\n" if name.endswith(".tsv") else "\r\n \t\r\n "
        content = text.rstrip("\n").replace("\n", gap)
        odd[name.replace(".", "_")] = b"\xef\xbb\xbf\r\n" + content.encode()
    assert load_collection(write(**odd)) == plain


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("one\u2028two\x85three\u2029four", "one\u2028two\x85three\u2029four"),
        ("cut \\ud83d", "cut \ufffd"),
    ],
)
def test_odd_characters_end_no_line_and_half_a_pair_is_replaced(write, written, text):
    """JSON can hold what UTF-8 cannot, such as an emoji cut in two."""
    collection = load_collection(write(negatives_jsonl=f'{{"_id": "n1", "text": "{written}"}}'))
    assert collection.negatives == (JudgedQuery("n1", text),)


def test_queries_without_a_relevant_document_are_left_out_with_a_note(write):
    queries = FILES["queries.jsonl"] + '{"_id": "q3", "text": "c"}\n'
    header = "query-id\tcorpus-id\tscore\n"
    collection = load_collection(
        write(queries_jsonl=queries, qrels_tsv=f"{header}q2\tcsv\t1\nq1\tpdf\t0\nq1\tcsv\t-2\n")
    )
    assert [query.query_id for query in collection.queries] == ["q2"]
    assert (collection.qrels, collection.ignored) == ({"q2": {"csv": 1}}, {})
    assert collection.unjudged == {"q1", "q3"}
    assert collection.notes == ("2 of 3 queries have no relevant document and are not measured",)
    fewer = load_collection(write(queries_jsonl=queries))
    assert fewer.notes == ("1 of 3 queries has no relevant document and is not measured",)


def test_queries_and_their_judgments_are_in_the_order_of_the_queries(write):
    rows = "query-id\tcorpus-id\tscore\nq2\tcsv\t1\nq1\tpdf\t1\n"
    collection = load_collection(write(qrels_tsv=rows))
    ids = [query.query_id for query in collection.queries]
    assert ids == list(collection.qrels) == ["q1", "q2"]


def test_a_pair_may_be_judged_twice_alike(write):
    collection = load_collection(write(qrels_tsv=FILES["qrels.tsv"] + "q2\tcsv\t+2\n"))
    assert collection.qrels["q2"] == {"csv": 2, "pdf": -1}


LINES = {
    "not UTF-8": ("queries.jsonl", b'\n{"_id": "q1", "text": "caf\xe9"}', 2, ["xe9", "UTF-8"]),
    "UTF-16": ("qrels.tsv", "query-id\tcorpus-id".encode("utf-16"), 1, ["save the file as UTF-8"]),
    "not JSON": ("corpus.jsonl", "\n\n{_id: 1}", 3, ["'{_id: 1}' is not JSON (Expecting"]),
    "too deep": ("corpus.jsonl", "[" * 100_000, 1, ["is not JSON"]),
    "too many digits": ("corpus.jsonl", "9" * 5000, 1, ["is not JSON"]),
    "no object": ("corpus.jsonl", "[1, 2]", 1, ["[1, 2]", "not an object like"]),
    "no id": ("corpus.jsonl", '{"name": "a"}', 1, ['"_id" is missing; it must be']),
    "id a fraction": ("corpus.jsonl", '{"_id": 1.5, "name": "a"}', 1, ['"_id" is 1.5']),
    "id a switch": ("corpus.jsonl", '{"_id": true, "name": "a"}', 1, ['"_id" is True']),
    "id with a tab": ("corpus.jsonl", '{"_id": "a\\tb", "name": "a"}', 1, ["'a\\tb'", "control"]),
    "id half a pair": ("queries.jsonl", '{"_id": "\\ud83d", "text": "a"}', 1, ["'\\ud83d'"]),
    "id twice": ("corpus.jsonl", FILES["corpus.jsonl"] * 2, 3, ["'pdf'", "corpus.jsonl:1 has it"]),
    "query, negative": ("negatives.jsonl", '{"_id": "q2", "text": "a"}', 1, ["queries.jsonl:2 "]),
    "no name": ("corpus.jsonl", '{"_id": "a", "description": "b"}', 1, ['"name" is missing']),
    "blank name": ("corpus.jsonl", '{"_id": "a", "name": ""}', 1, ["\"name\" is ''"]),
    "null name": ("corpus.jsonl", '{"_id": "a", "name": null, "text": "b"}', 1, ['"name" is miss']),
    "body a list": ("corpus.jsonl", '{"_id": "a", "name": "b", "body": []}', 1, ['"body" is []']),
    "a text": ("corpus.jsonl", '{"_id": "a", "name": "b", "examples": "c"}', 1, ["is 'c'"]),
    "a number": ("corpus.jsonl", '{"_id": "a", "name": "b", "examples": ["c", 1]}', 1, ["a list"]),
    "no text": ("queries.jsonl", '{"_id": "a"}', 1, ['"text" is missing']),
    "blank text": ("queries.jsonl", '{"_id": "a", "text": "\\n "}', 1, ["not blank"]),
    "no header": ("qrels.tsv", "q1\tpdf\t1\n", 1, ["'q1\\tpdf\\t1'", "-id<TAB>corpus-id<TAB>"]),
    "header of another file": ("ignore.tsv", FILES["qrels.tsv"], 1, ["query-id<TAB>corpus-id."]),
    "empty judgments": ("qrels.tsv", "", 1, ["is not the header"]),
    "blanks for tabs": ("qrels.tsv", FILES["qrels.tsv"] + "q1 csv 1", 5, ["1 column ", "not 3"]),
    "a column more": ("ignore.tsv", FILES["ignore.tsv"] + "q1\tpdf\t1", 3, ["3 columns", "not 2"]),
    "unknown query": ("qrels.tsv", FILES["qrels.tsv"] + "q9\tpdf\t1", 5, ["'q9'", "queries.jsonl"]),
    "unknown document": ("qrels.tsv", FILES["qrels.tsv"] + "q1\tpdg\t1", 5, ["'pdg'", "corpus.js"]),
    "unknown to ignore": ("ignore.tsv", FILES["ignore.tsv"] + "q1\tpd\n", 3, ["(nearest: 'pdf')"]),
    "a fraction": ("qrels.tsv", FILES["qrels.tsv"] + "q1\tcsv\t0.5", 5, ["'0.5'", "integer"]),
    "other digits": ("qrels.tsv", FILES["qrels.tsv"] + "q1\tcsv\t\u0661", 5, ["integer"]),
    "a huge score": ("qrels.tsv", FILES["qrels.tsv"] + "q1\tcsv\t10000", 5, ["to 9999"]),
    "two scores": ("qrels.tsv", FILES["qrels.tsv"] + "q2\tcsv\t1", 5, ["'q2'", "'csv'", "line 3"]),
}


@pytest.mark.parametrize("case", LINES)
def test_a_line_that_cannot_be_used_is_named_with_its_value(write, case):
    name, content, number, parts = LINES[case]
    folder = write(**{name.replace(".", "_"): content})
    message = problem(folder)
    assert message.startswith(f"{folder / name}:{number}: ")
    assert [part for part in parts if part not in message] == []
    assert len(message) < 500


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_a_missing_file_is_named_and_a_collection_described(write, name):
    message = problem(write(**{name.replace(".", "_"): None}))
    assert name in message
    assert 'queries.jsonl ({"_id": …, "text": …} a line)' in message


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl"])
def test_an_empty_file_is_named(write, name):
    folder = write(**{name.replace(".", "_"): "\n \n"})
    assert problem(folder).startswith(f"{folder / name} is empty. A collection is")


def test_judgments_must_hold_a_relevant_document(write):
    for rows in ("", "q1\tpdf\t0\nq2\tpdf\t-1\n"):
        folder = write(qrels_tsv=f"query-id\tcorpus-id\tscore\n{rows}")
        start = f"{folder / 'qrels.tsv'}: no query has a relevant document; judge a pair"
        assert problem(folder).startswith(start)


def test_what_is_no_folder_is_no_collection(write, tmp_path):
    assert "is not a folder. A collection is a folder with" in problem(tmp_path / "absent")
    assert "is not a folder" in problem(write() / "corpus.jsonl")
    assert problem(Path("a" * 5000))
    assert problem(Path("a\0b"))


def test_a_query_may_be_as_long_as_search_takes(write):
    longest, longer = (
        json.dumps({"_id": f"n{more}", "text": "x" * (MAX_QUERY_CHARS + more)}) for more in (0, 1)
    )
    assert len(load_collection(write(negatives_jsonl=longest)).negatives[0].text) == 65_536
    folder = write(negatives_jsonl=f"{longest}\n{longer}")
    assert 'negatives.jsonl:2: "text" has 65,537 characters' in problem(folder)


def test_a_collection_has_the_name_of_its_folder(write, monkeypatch):
    monkeypatch.chdir(write())
    assert load_collection(Path()).name == "small"


@given(st.sampled_from(sorted(FILES)), st.binary(max_size=60), st.integers(0, 80))
def test_whatever_the_bytes_it_is_read_or_refused(tmp_path_factory, name, data, offset):
    folder = write_files(tmp_path_factory.mktemp("fuzz") / "small")
    content = FILES[name].encode()
    (folder / name).write_bytes(content[:offset] + data + content[offset:])
    try:
        message = str(folder) if load_collection(folder).queries else ""
    except EvaluationError as exc:
        message = str(exc)
    assert str(folder) in message


@st.composite
def collections(draw):
    doc_ids = draw(st.lists(IDS, min_size=1, max_size=4, unique=True))
    query_ids = draw(st.lists(IDS, min_size=2, max_size=5, unique=True))
    *judged, negative = query_ids
    some = st.lists(st.sampled_from(doc_ids), min_size=1, unique=True)
    qrels = {
        key: {doc_id: draw(st.integers(-3, 3)) for doc_id in draw(some)} | {draw(some)[0]: 1}
        for key in judged
    }
    ignored = {key: frozenset(draw(some)) for key in judged if draw(st.booleans())}
    texts = st.text(PLAIN, max_size=8)
    return Collection(
        name="saved",
        documents=tuple(
            JudgedDocument(key, draw(TEXTS), *(draw(texts) for _ in range(3))) for key in doc_ids
        ),
        queries=tuple(JudgedQuery(key, draw(TEXTS), draw(texts), draw(texts)) for key in judged),
        qrels=qrels,
        ignored=ignored,
        negatives=tuple(
            JudgedQuery(negative, draw(TEXTS), twin_of=draw(st.sampled_from(["", *judged])))
            for _ in range(draw(st.integers(0, 1)))
        ),
    )


@given(collections())
def test_what_is_saved_is_loaded_again(tmp_path_factory, collection):
    folder = tmp_path_factory.mktemp("save") / "saved"
    save_collection(collection, folder)
    assert load_collection(folder) == collection


def test_saved_files_are_what_others_read(write, tmp_path):
    collection = load_collection(write())
    folder = tmp_path / "deep" / "saved"
    save_collection(collection, folder)
    lines = (folder / "queries.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"_id": "q1", "text": "fill in a form", "kind": "trigger", "lang": "en"},
        {"_id": "q2", "text": "draw a chart"},
    ]
    with (folder / "qrels.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert rows[1] == {"query-id": "q2", "corpus-id": "csv", "score": "2"}
    save_collection(replace(collection, negatives=(), ignored={}), tmp_path / "less")
    names = {path.name for path in (tmp_path / "less").iterdir()}
    assert names == {"corpus.jsonl", "queries.jsonl", "qrels.tsv"}


def test_a_folder_with_something_in_it_is_not_written_to(write, tmp_path):
    folder = write()
    collection = load_collection(folder)
    before = (folder / "corpus.jsonl").read_bytes()
    with pytest.raises(EvaluationError, match="is not empty; name a folder"):
        save_collection(collection, folder)
    assert (folder / "corpus.jsonl").read_bytes() == before
    with pytest.raises(EvaluationError, match="cannot be written"):
        save_collection(collection, folder / "corpus.jsonl")
    (tmp_path / "empty").mkdir()
    save_collection(collection, tmp_path / "empty")
    assert load_collection(tmp_path / "empty").queries == collection.queries


@pytest.mark.parametrize("key", ["a\tb", "a\nb", "\ud83d"])
def test_an_id_that_could_not_be_read_again_is_not_saved(write, tmp_path, key):
    collection = replace(load_collection(write()), negatives=(JudgedQuery(key, "x"),))
    with pytest.raises(EvaluationError, match="control character; rename it"):
        save_collection(collection, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_half_a_surrogate_pair_is_saved_as_a_question_mark(write, tmp_path):
    collection = replace(load_collection(write()), negatives=(JudgedQuery("n", "cut \ud83d"),))
    save_collection(collection, tmp_path / "saved")
    assert load_collection(tmp_path / "saved").negatives[0].text == "cut ?"


def test_the_digest_is_of_ids_and_texts():
    documents = [JudgedDocument("a", "n", "é", "b\n"), JudgedDocument("b", "\ud800", "")]
    lines = b'["a", "n", "\\u00e9", "b\\n"]\n["b", "\\ud800", "", ""]\n'
    assert digest(documents) == hashlib.sha256(lines).hexdigest()[:16]
    assert digest([]) == hashlib.sha256(b"").hexdigest()[:16]


@given(
    st.lists(st.builds(JudgedDocument, *[st.text('ab",\n[]', max_size=3)] * 4), max_size=3),
    st.lists(st.builds(JudgedDocument, *[st.text('ab",\n[]', max_size=3)] * 4), max_size=3),
)
def test_other_documents_have_another_digest(documents, other):
    """Text cannot move from one field or document to the next unseen."""
    assert (digest(documents) == digest(other)) == (documents == other)


def test_negatives_are_told_apart_by_their_kind():
    kinds = {"1": "twin", "2": "", "3": "trigger", "4": "foreign", "5": "twin", "6": "answerable"}
    collection = Collection(
        "c",
        (),
        (JudgedQuery("q", "x", "trigger"),),
        {},
        negatives=tuple(JudgedQuery(key, "y", kind) for key, kind in kinds.items()),
    )
    groups = negatives_by_source(collection)
    actual = {source: [negative.query_id for negative in group] for source, group in groups.items()}
    assert actual == {"twin": ["1", "5"], "negatives": ["2", "3", "4", "6"]}
