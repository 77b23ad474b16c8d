"""A reader's requests, and its retries if a writer is faster, without a server."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillsearch.errors import CacheError, CollectionMissingError, IndexNotFoundError, RemoteError
from skillsearch.remote.remote_index import TRIES
from skillsearch.remote.rows import HEAD, token
from skillsearch.remote.view import QUERY_TERMS, RemoteView
from skillsearch.text.tokenizer import term_hash

WORDS = ("tea", "bread", "wood", "jars", "beans")


@pytest.fixture
def index(index_in, root):
    return index_in(root)[0]


def ahead(memory, by):
    """Let a writer be some versions ahead with every term, as if it had published between reads."""
    terms = memory.tables["skills_g000001_terms"]
    for key, row in terms.items():
        if key != HEAD and row["kind"] == 0:
            terms[key] = {**row, "version": row["version"] + by}


def test_frequencies_are_read_with_the_version(index, memory):
    memory.requested.clear()
    view = RemoteView.open(memory, "skills", ["tea", "tea", "zeppelin"])
    assert memory.requested == ["skills"]
    assert view.frequencies.keys() == {term_hash("tea"), term_hash("zeppelin")}
    assert view.frequencies[term_hash("tea")] == (1, 1)
    assert view.frequencies[term_hash("zeppelin")] == (0, 0)
    assert view.name == index.generation == "skills_g000001@1"


def test_frequencies_of_the_version_before_are_known(index, memory):
    ahead(memory, 1)
    assert RemoteView.open(memory, "skills", ["tea"]).frequencies[term_hash("tea")] == (0, 0)
    ahead(memory, 1)
    assert RemoteView.open(memory, "skills", ["tea"]) is None
    with pytest.raises(RemoteError, match=f"was rewritten {TRIES} times while it was read"):
        index.search("tea")
    assert RemoteView.open(memory, "skills") is not None


def test_a_small_index_is_read_whole(index, memory):
    memory.nearest = None
    assert index.search("steep green tea")[0].name == "steep-tea"


def test_in_a_larger_one_words_and_vectors_are_asked(index_in, tmp_path, make_skill, memory):
    for number in range(60):
        make_skill(tmp_path / "many", f"skill-{number}", f"Sort parcel {number}.", "Sort by size.")
    index, _ = index_in(tmp_path / "many")
    requests, nearest_rows = [], memory.nearest

    def nearest(name, queries, condition, limit, fields):
        requests.append((queries, condition, limit))
        return nearest_rows(name, queries, condition, limit, fields)

    memory.nearest = nearest
    query = "sort parcel 7 gearbox"
    result = index.search(query, n=14, include_hidden=False, threshold=0.0)
    assert result[0].name == "skill-7"
    ((queries, condition, limit),) = requests
    assert limit == 56
    assert condition == "since <= 1 and until > 1 and shadowed == false and hidden == false"
    dense = {"dense_metadata", "dense_examples"}
    assert queries.keys() == {"sparse_metadata", "sparse_full", *dense}
    metric, text = queries["sparse_metadata"]
    assert metric == "BM25"
    tokens = text.split()
    assert tokens[0] == token(term_hash("7"))
    assert set(tokens) == {token(term_hash(term)) for term in ("7", "sort", "parcel")}
    metric, vector = queries["dense_metadata"]
    assert (metric, vector.dtype, vector.shape) == ("IP", np.float32, (512,))


def test_a_query_asks_for_so_many_terms_at_most(index_in, tmp_path, make_skill, memory):
    words = [f"parcel{number}" for number in range(QUERY_TERMS)]
    for number in range(60):
        body = " ".join([f"rare{number}", *words])
        make_skill(tmp_path / "many", f"skill-{number}", "Sort parcels.", body)
    index, _ = index_in(tmp_path / "many")
    requests = []
    memory.nearest = lambda name, queries, *_: requests.append(queries) or []
    index.search(" ".join([*words, "rare1"]))
    ((_, text),) = [queries["sparse_full"] for queries in requests]
    assert len(text.split()) == QUERY_TERMS
    assert text.split()[0] == token(term_hash("rare1"))


@pytest.mark.parametrize("times", [1, TRIES - 1, TRIES])
def test_a_search_that_was_overtaken_begins_again(index, memory, times):
    calls, query = Counter(), memory.query

    def vanish(name, condition, fields, limit):
        calls["query"] += 1
        if calls["query"] <= times:
            raise CollectionMissingError("dropped")
        return query(name, condition, fields, limit)

    memory.query = vanish
    if times < TRIES:
        assert index.search("steep green tea")[0].name == "steep-tea"
        assert calls["query"] == times + 1
    else:
        with pytest.raises(RemoteError, match="try again"):
            index.search("steep green tea")


def test_a_skill_that_goes_between_two_reads_is_looked_up_again(index, memory):
    query, gone = memory.query, ["kitchen:steep-tea"]

    def slow(name, condition, fields, limit):
        if "content" in fields and gone:
            gone.pop()
            return []
        return query(name, condition, fields, limit)

    memory.query = slow
    assert index.get("steep-tea").description == "Steep green tea."


@pytest.mark.parametrize("field", ["record", "counts", "chunks", "dense_metadata"])
def test_a_damaged_row_is_an_error_with_the_command_that_mends_it(index, memory, field):
    documents = memory.tables["skills_g000001"]
    key = next(iter(documents))
    documents[key] = {**documents[key], field: ["%%%"]}
    with pytest.raises(IndexNotFoundError, match=r"cannot be used: .*To fix: run `skillsearch"):
        index.search("tea", threshold=0.0)


def test_a_head_that_is_gone_is_told(index, memory):
    """The alias still stands for the collection."""
    del memory.tables["skills_g000001_terms"][HEAD]
    with pytest.raises(CacheError, match="has no head"):
        RemoteView.open(memory, "skills")
    with pytest.raises(IndexNotFoundError, match="--collection skills"):
        len(index)


edits = st.dictionaries(
    st.sampled_from("abcd"),
    st.one_of(st.none(), st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS))),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(edits, min_size=2, max_size=4), st.integers(1, 30))
@pytest.mark.slow
def test_any_updates_lead_to_the_index_that_is_made_at_once(
    check_statistics, memory_server, tmp_path_factory, index_on, changes, cut
):
    folder, server = tmp_path_factory.mktemp("updates"), memory_server()
    for number, change in enumerate(changes):
        for name, texts in change.items():
            path = folder / name / "SKILL.md"
            path.parent.mkdir(exist_ok=True)
            if texts is None:
                path.unlink(missing_ok=True)
            else:
                path.write_text(
                    f"---\nname: {name}\ndescription: Mind {texts[0]}.\n---\n{texts[1]}"
                )
        if number % 2:
            index_on(server, folder, cut=cut)
        index, report = index_on(server, folder)
        assert report.indexed == len(index) == len(list(folder.rglob("SKILL.md")))
        check_statistics(server, "skills")
    anew, _ = index_on(memory_server(), folder)
    for query in WORDS:
        ours, theirs = (either.search(query, threshold=0.0) for either in (index, anew))
        assert [(hit.doc_id, pytest.approx(hit.score, abs=1e-9)) for hit in theirs] == [
            (hit.doc_id, hit.score) for hit in ours
        ]
