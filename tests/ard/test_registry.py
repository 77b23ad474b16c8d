"""Tests of what a registry is asked, and answers."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.ard import registry
from skillsearch.ard.registry import (
    MAX_HITS,
    Listed,
    list_answer,
    matches,
    read_list,
    read_search,
    result_of,
    search_answer,
)
from skillsearch.errors import QueryError

MARKDOWN = 'text/markdown; profile="urn:air:agent-skills"'
NAMES = ["Zebra", "apple", "mango", "apple pie", "äpfel", "kiwi", "Apple"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def make_entry(name="tea", number=0, **terms):
    """Make an entry."""
    return {
        "identifier": f"urn:air:example.org:drinks:{number}",
        "displayName": name,
        "type": MARKDOWN,
        "url": "https://example.org/a",
        "tags": ["hot", "green"],
        "updatedAt": f"2026-01-{number + 1:02}T00:00:00Z",
        "metadata": {"trust": "vetted", "digest": "x"},
    } | terms


def ask(query=None, **more):
    """Read the request of a search, with whatever a client says."""
    return read_search(json.dumps({"query": query or {"text": "tea"}} | more).encode())


def list_by(**parameters):
    """Read the request of a list."""
    return read_list(list(parameters.items()))


def test_a_search_is_read_with_the_defaults_of_the_draft():
    request = ask()
    assert request[:4] == ("tea", {}, 10, 0)
    request = ask({"text": "tea", "filter": {"tags": "hot"}, "@context": {}}, federation="auto")
    assert request.filter == {"tags": {"hot"}}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"query": {"text": "x"}, "pageSize": ' + b"9" * 9_999 + b"}", "not JSON"),
        (b"null", "The body is None"),
        (b"[]", "The body is list"),
        (b"{}", "query is None"),
        (b'{"query": "tea"}', "query is 'tea'"),
        (b'{"query": {"text": ""}}', "query.text is ''"),
        (b'{"query": {"text": ["tea"]}}', "query.text is list"),
        (b'{"query": {"text": 5}}', "query.text is 5"),
        (b'{"query": {"text": "x", "limit": 1}}', "query has unknown keys: limit"),
        (b'{"query": {"text": "x"}, "\\u001b[2J": 1}', "unknown keys: [2J;"),
        (b'{"query": {"text": "x"}, "federation": "all"}', "federation is 'all'"),
        (b'{"query": {"text": "x"}, "federation": []}', "federation is list"),
        (b'{"query": {"text": "x"}, "pageSize": 0}', "pageSize is 0"),
        (b'{"query": {"text": "x"}, "pageSize": 101}', "pageSize is 101"),
        (b'{"query": {"text": "x"}, "pageSize": true}', "pageSize is True"),
        (b'{"query": {"text": "x"}, "pageSize": "5"}', "pageSize is '5'"),
        (b'{"query": {"text": "x"}, "pageSize": NaN}', "pageSize is nan"),
        (b'{"query": {"text": "x"}, "pageToken": "AA"}', "pageToken is 'AA'"),
        (b'{"query": {"text": "x"}, "pageToken": "\\u00e9"}', "pageToken is"),
        (b'{"query": {"text": "x"}, "pageToken": 5}', "pageToken is 5"),
        (b'{"query": {"text": "x", "filter": []}}', "query.filter is list"),
        (b'{"query": {"text": "x", "filter": {"colour": "red"}}}', "has 'colour'"),
        (b'{"query": {"text": "x", "filter": {"okf:tax": "red"}}}', "has 'okf:tax'"),
        (b'{"query": {"text": "x", "filter": {"type": 5}}}', "type is 5; use texts"),
        (b'{"query": {"text": "x", "filter": {"type": [5]}}}', "type is list; use texts"),
    ],
)
def test_a_search_that_cannot_be_read_is_refused_with_a_reason(body, message):
    with pytest.raises(QueryError) as raised:
        read_search(body)
    assert message in str(raised.value)
    assert "\x1b" not in str(raised.value)


@given(JSON, JSON, JSON)
def test_whatever_a_body_holds_it_is_read_or_refused(query, text, size):
    searches = {"query": query}, {"query": {"text": "x", "filter": text}}
    for record in (query, *searches, *(record | {"pageSize": size} for record in searches)):
        with suppress(QueryError):
            request = read_search(json.dumps(record).encode())
            assert len(search_answer(request, [make_entry()])["results"]) <= 1


@pytest.mark.parametrize(
    ("wanted", "is_match"),
    [
        ({}, True),
        ({"tags": ["cold", "green"]}, True),
        ({"tags": ["cold"]}, False),
        ({"tags": ["hot"], "displayName": ["coffee"]}, False),
        ({"type": ['Text/Markdown;profile="urn:air:agent-skills"']}, True),
        ({"type": ["application/mcp-server-card+json"]}, False),
        ({"publisher": ["example.org"]}, True),
        ({"publisher": ["example"]}, False),
        ({"metadata.trust": ["vetted"]}, True),
        ({"metadata.trust.more": ["vetted"]}, False),
        ({"metadata": ["vetted"]}, False),
        ({"trustManifest.attestations.type": ["SOC2-Type2"]}, False),
        ({"tags": []}, False),
    ],
)
def test_a_filter_takes_one_of_the_values_of_each_term(wanted, is_match):
    request = ask({"text": "tea", "filter": wanted})
    assert matches(make_entry(), request.filter) is is_match


def test_the_pages_of_a_search_are_the_whole(conforms):
    entries = [result_of(make_entry(number=n), 0.5, "fits", "https://x.org/") for n in range(25)]
    seen, more = [], {}
    while more is not None:
        answer = conforms("search", search_answer(ask(pageSize=10, **more), entries))
        seen += answer["results"]
        more = {"pageToken": answer["pageToken"]} if "pageToken" in answer else None
    assert seen == entries


def test_a_search_ends_after_its_most_entries():
    entries = [make_entry(number=n) for n in range(MAX_HITS)]
    token = None
    for _ in range(MAX_HITS // 50):
        assert token is not False
        more = {"pageToken": token} if token else {}
        token = search_answer(ask(pageSize=50, **more), entries).get("pageToken", False)
    assert token is False


def test_the_token_of_another_search_is_refused():
    entries = [make_entry(number=n) for n in range(3)]
    token = search_answer(ask(pageSize=1), entries)["pageToken"]
    ask(pageSize=2, pageToken=token)
    for query in ({"text": "coffee"}, {"text": "tea", "filter": {"tags": "hot"}}):
        with pytest.raises(QueryError, match="pageToken is"):
            ask(query, pageToken=token)


@pytest.mark.parametrize("position", [[-1], [MAX_HITS], ["1"], [None], [1.5], []])
def test_a_forged_token_is_refused(position):
    token = registry._token(ask().digest, *position)
    with pytest.raises(QueryError, match="pageToken is"):
        ask(pageToken=token)


@pytest.mark.parametrize(("score", "percent"), [(0.651, 65), (1.0, 100), (0.0, 0), (1.2, 100)])
def test_a_score_is_in_percent_and_says_nothing_of_trust(score, percent, conforms):
    made = result_of(
        make_entry(representativeQueries=["a b", "c d"]), score, "perhaps", "https://x.org/"
    )
    assert conforms("search", {"results": [made]})
    assert (made["score"], made["source"]) == (percent, "https://x.org/")
    assert made["metadata"] == {"trust": "vetted", "digest": "x", "state": "perhaps"}
    assert "representativeQueries" not in made


@pytest.fixture
def pages(conforms):
    """Return the names of each page of a list, and check them."""

    def read(size=2, gone=(), **parameters):
        entries = {
            f"urn:air:example.org:d:{n}": make_entry(name, n) for n, name in enumerate(NAMES)
        }
        entries = {key: entry | {"identifier": key} for key, entry in entries.items()}
        listed = [Listed(key, entry["displayName"], MARKDOWN) for key, entry in entries.items()]
        more, made = {}, []
        while more is not None:
            request = list_by(pageSize=str(size), **parameters, **more)
            answer = list_answer(
                request, listed, lambda key: None if key[-1] in gone else entries[key]
            )
            made.append([item["displayName"] for item in conforms("list", answer)["items"]])
            more = {"pageToken": answer["pageToken"]} if "pageToken" in answer else None
        return made

    return read


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("order", ["displayName", "displayName DESC", "identifier desc"])
def test_the_pages_of_a_list_hold_each_entry_once_in_order(pages, size, order):
    names = [name for page in pages(size, orderBy=order) for name in page]
    by_name = ["apple", "Apple", "apple pie", "kiwi", "mango", "Zebra", "äpfel"]
    wanted = by_name if order.startswith("displayName") else NAMES
    assert names == (wanted[::-1] if order.lower().endswith("desc") else wanted)


def test_entries_that_cannot_be_had_are_left_out(pages):
    assert pages(2, gone="16") == [["apple pie", "kiwi"], ["mango", "Zebra"], ["äpfel"]]


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("displayName = 'APPLE'", ["apple", "Apple", "apple pie"]),
        ("displayName = kiwi,mango", ["kiwi", "mango"]),
        ("displayName='kiwi' AND type = 'text/markdown'", []),
        (f"displayName='kiwi' AND type = '{MARKDOWN}'", ["kiwi"]),
        (f"type = {MARKDOWN} AND displayName=kiwi", ["kiwi"]),
        ("publisherId = 'other.org, example.org' AND displayName=\"kiwi\"", ["kiwi"]),
        ("publisherId = 'other.org'", []),
        ("updatedAfter > '2026-01-05T12:00:00Z'", ["Apple", "kiwi"]),
        ("updatedAfter = 2026-01-06", ["Apple"]),
        ("displayName = 'a AND b'", []),
        ("  ", ["apple", "Apple", "apple pie", "kiwi", "mango", "Zebra", "äpfel"]),
    ],
)
def test_a_list_is_filtered_as_the_draft_says(pages, expression, names):
    assert [name for page in pages(filter=expression) for name in page] == names


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"filter": "kiwi"}, "'kiwi', which is no clause"),
        ({"filter": "displayName = "}, "with a value"),
        ({"filter": "displayName = ''"}, "with a value"),
        ({"filter": "displayName = a AND "}, "write it as"),
        ({"filter": "displayName = a AND"}, "write it as"),
        ({"filter": "displayName > a"}, "write it as"),
        ({"filter": "createdAfter > 2026-01-01"}, "use each of these once"),
        ({"filter": "displayName = a AND displayName = b"}, "use each of these once"),
        ({"filter": "updatedAfter > soon"}, "updatedAfter is 'soon'"),
        ({"filter": "displayName =" + " " * 980 + "\n"}, "use each of these once"),
        ({"filter": "a" * 1001}, "1,001 characters"),
        ({"orderBy": ""}, "orderBy is ''"),
        ({"orderBy": "updatedAt DESC"}, "orderBy is 'updatedAt DESC'"),
        ({"orderBy": "displayName down"}, "orderBy is"),
        ({"pageSize": "0"}, "pageSize is 0"),
        ({"pageSize": "101"}, "pageSize is 101"),
        ({"pageSize": "²"}, "pageSize is '²'"),
        ({"pageSize": "-1"}, "pageSize is '-1'"),
        ({"pageSize": "9" * 5000}, "pageSize is '999"),
        ({"pageToken": "AAAA"}, "pageToken is 'AAAA'"),
        ({"pageToken": "A" * 5000}, "pageToken is"),
        ({"limit": "5"}, "The parameter 'limit' is unknown"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused_with_a_reason(parameters, message):
    with pytest.raises(QueryError) as raised:
        list_by(**parameters)
    assert message in str(raised.value)


def test_a_parameter_is_there_once():
    with pytest.raises(QueryError, match="there twice"):
        read_list([("pageSize", "1"), ("pageSize", "2")])


def test_the_token_of_another_list_is_refused():
    listed = [Listed(f"urn:air:x.org:{n}", "a", MARKDOWN) for n in range(3)]
    answer = list_answer(list_by(pageSize="1"), listed, lambda key: {"identifier": key})
    for changed in ({"orderBy": "identifier"}, {"filter": "displayName = a"}):
        with pytest.raises(QueryError, match="pageToken is"):
            list_by(pageToken=answer["pageToken"], **changed)


@given(st.text(), st.text(), st.text(max_size=40))
def test_whatever_parameters_say_they_are_read_or_refused(expression, order, token):
    for parameters in ({"filter": expression}, {"orderBy": order}, {"pageToken": token}):
        with suppress(QueryError):
            assert list_by(**parameters).size == registry.LIST_PAGE


def test_an_error_has_the_form_of_the_draft(conforms):
    made = conforms("error", registry.error_record("NOT_FOUND", "a\x1bb\n" + "c" * 2_000))
    assert made["message"].startswith("ab c")
    assert len(made["message"]) == 1_000
