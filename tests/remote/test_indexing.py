"""States of the rows of new, changed and deleted documents, and of an interrupted run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.remote.indexing import RowStates
from skillsearch.remote.rows import FOREVER, RemoteGeneration, kept_key, key_of, state_of
from skillsearch.skills.example_requests import ExampleBook, digest_of_skill
from skillsearch.types.skills import Example

VERSION = 5
GENERATION = RemoteGeneration("skills", 1)
STATES = ("first", "second")


def make_row(doc_id, state, since=1, until=FOREVER, *, shadowed=False, examples=()):
    """Return the fields of a row that its state is read from."""
    return {
        "id": f"{doc_id}-{since}",
        "key": key_of(doc_id),
        "state": state_of(state, "path", "root"),
        "since": since,
        "until": until,
        "name_key": len(doc_id),
        "shadowed": shadowed,
        "skill": digest_of_skill(doc_id, ""),
        "examples": kept_key(examples),
    }


@pytest.fixture
def read(memory_server):
    """Read the states of some rows, and return them with the server."""

    def make(*rows, **examples):
        server = memory_server()
        server.create(GENERATION.documents, None, None)
        server.insert(GENERATION.documents, rows)
        book_examples = {digest_of_skill(name, ""): texts for name, texts in examples.items()}
        book = ExampleBook(None, packaged=False, extra=book_examples)
        return RowStates(server, GENERATION, VERSION, book), server

    return make


def take(states, doc_id, state, *, shadowed=False):
    """Take the rows of a document that is in a state now."""
    key, digest = key_of(doc_id), state_of(state, "path", "root")
    return states.take(bytes.fromhex(key), bytes.fromhex(digest), shadowed=shadowed)


def test_a_row_with_other_examples_than_the_book_has_is_replaced(read):
    by_user = (Example("ask", "user"),)
    for has, had, is_same in (
        (("ask",), by_user, True),
        (("ask",), (*by_user, Example("own", "skill")), True),
        ((), (Example("own", "skill"),), True),
        (("ask",), (), False),
        (("another",), by_user, False),
        ((), by_user, False),
    ):
        states, _ = read(make_row("a", "first", examples=had), a=has)
        assert take(states, "a", "first") == (None if is_same else "a-1")


def test_a_document_that_changed_again_gets_another_row(read):
    states, _ = read(make_row("a", "first"), make_row("a", "second", since=6))
    assert take(states, "a", "third") == "a-1"
    assert (states.replaced, states.discarded) == (["a-1"], ["a-6"])


def test_a_new_document_replaces_nothing(read):
    states, _ = read()
    assert take(states, "a", "first") == ""
    assert (states.unchanged, states.take_rest()) == (0, [])


@pytest.mark.parametrize("since", [1, 6])
def test_a_skill_that_its_name_no_longer_means_gets_another_row(read, since):
    states, _ = read(make_row("a", "first", since=since))
    assert take(states, "a", "first", shadowed=True) == ("a-1" if since == 1 else "")


def test_rows_that_no_reader_can_see_any_more_are_removed(read):
    """One that ended with this version may be read by who began before it."""
    rows = [make_row("a", "first", since=number, until=number + 1) for number in range(1, VERSION)]
    _, server = read(*rows, make_row("a", "second", since=VERSION))
    assert sorted(server.tables[GENERATION.documents]) == ["a-4", "a-5"]


def test_a_name_is_known_while_the_document_is_unchanged(read):
    states, _ = read(make_row("abc", "first"), make_row("abc", "second", since=6))
    keys = [bytes.fromhex(state_of(state, "path", "root")) for state in (*STATES, "third")]
    name_keys = [states.name_key(bytes.fromhex(key_of("abc")), key) for key in keys]
    assert name_keys == [3, 3, None]
    assert states.name_key(bytes.fromhex(key_of("other")), keys[0]) is None


row_sets = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(
        st.sampled_from([None, *STATES]),
        st.sampled_from([FOREVER, VERSION + 1]),
        st.sampled_from([None, *STATES]),
    ),
)


@given(row_sets, st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(STATES)))
def test_every_row_is_decided_once(memory_server, rows, files):
    server = memory_server()
    server.create(GENERATION.documents, None, None)
    for doc_id, (live, until, unseen) in rows.items():
        if live:
            server.insert(GENERATION.documents, [make_row(doc_id, live, until=until)])
        if unseen:
            server.insert(GENERATION.documents, [make_row(doc_id, unseen, since=VERSION + 1)])
    before = dict(server.tables[GENERATION.documents])
    states = RowStates(server, GENERATION, VERSION, ExampleBook.empty())
    sent = {doc_id for doc_id, state in files.items() if take(states, doc_id, state) is not None}
    ended = [*states.replaced, *states.take_rest()]
    assert len({*ended, *states.discarded, *states.resumed}) == len(
        [*ended, *states.discarded, *states.resumed]
    )
    left = before.keys() - set(states.discarded) - set(ended)
    assert set(states.resumed) | set(states.restored) <= left
    assert {row for row in left if before[row]["until"] != FOREVER} == set(states.restored)
    assert sorted([row[0] for row in left] + list(sent)) == sorted(files)
    assert states.unchanged + len(states.resumed) + len(sent) == len(files)
    for row in left:
        assert before[row]["state"] == state_of(files[row[0]], "path", "root")
