"""Tests of the registry beside the server: what it tells, to whom, and what it says no to."""

import http.client
import json
import re
import threading
from contextlib import contextmanager
from urllib.parse import quote, urlsplit

import pytest

from skillsearch.mcp_server.listening import listen
from skillsearch.mcp_server.registry_app import registry_app

TOKEN = "correct-horse-battery-staple"
MARKDOWN = 'text/markdown; profile="urn:air:agent-skills"'
QUERIES = ["how long does sencha steep", "water for gyokuro"]
PAGE = b"<script>fetch('/mcp')</script>"


@pytest.fixture(scope="module")
def skills(tmp_path_factory, write_skill):
    """Make skills that are told, and some that are not."""
    root = tmp_path_factory.mktemp("registry") / "drinks"
    tea = write_skill(
        root,
        "steep-tea",
        "Steep green tea.\u200b",
        "Use 80 C.\n",
        representativeQueries=QUERIES,
        tags=["hot"],
    )
    (tea.parent / "page.html").write_bytes(PAGE)
    (tea.parent / "a b").mkdir()
    (tea.parent / "a b" / "é.txt").write_text("é")
    write_skill(root, "brew-coffee", "Brew filter coffee with a scale.")
    write_skill(root, "brew-secretly", "Brew filter coffee in secret.")
    write_skill(root, "hidden-tea", "Steep tea, hidden.", **{"disable-model-invocation": True})
    write_skill(root, "Odd_Tea", "Steep tea, oddly named.")
    return root


@pytest.fixture(scope="module")
def url(skills, tmp_path_factory, launch, module_variables):
    """Start a server that selects some skills, and return its origin."""
    args = (skills, "--exclude", "brew-secretly", "--http", "127.0.0.1:0")
    with launch(tmp_path_factory.mktemp("work"), module_variables, *args) as process:
        line = process.stderr.readline().decode()
        yield re.search(r"(http://\S+)/mcp", line)[1]


def request(url, verb, path, body=None, **headers):
    """Send a request; return status, headers and bytes of the answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        data = body if isinstance(body, bytes | None) else json.dumps(body)
        sent = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(verb, path, data, {**sent, **headers})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


@pytest.fixture
def ask(url, conforms):
    """Ask the server; return the record of an answer by the rules of its kind."""

    def send(kind, verb, path, body=None, **headers):
        status, _, data = request(url, verb, path, body, **headers)
        assert (status == 200) == (kind != "error"), data
        record = conforms(kind, json.loads(data))
        return (status, record["errorCode"], record["message"]) if kind == "error" else record

    return send


def test_a_search_tells_what_fits_with_score_and_state(ask, url):
    answer = ask("search", "POST", "/search", {"query": {"text": "steep green tea"}})
    (result,) = answer["results"]
    assert result["identifier"] == "urn:air:agent.localhost:drinks:steep-tea"
    assert (result["displayName"], result["type"]) == ("steep-tea", MARKDOWN)
    assert result["description"] == "Steep green tea."
    assert result["source"] == f"{url}/"
    assert result["score"] >= 65
    assert result["metadata"]["state"] == "fits"
    assert result["metadata"]["trust"] == "vetted"
    assert result["metadata"]["skillUri"] == "skill://drinks/steep-tea/SKILL.md"
    status, headers, data = request(url, "GET", urlsplit(result["url"]).path)
    assert (status, headers["content-type"]) == (200, "text/markdown; charset=utf-8")
    assert b"Use 80 C." in data


def test_a_search_that_nothing_fits_is_answered_by_nothing(ask):
    answer = ask("search", "POST", "/search", {"query": {"text": "who won the world cup"}})
    assert answer == {"results": []}


@pytest.mark.parametrize("federation", ["auto", "referrals", "none"])
def test_a_search_is_filtered_and_asks_nobody_else(ask, federation):
    def names(**wanted):
        query = {"text": "steep green tea", "filter": wanted}
        body = {"query": query, "federation": federation, "pageSize": 3}
        return [r["displayName"] for r in ask("search", "POST", "/search", body)["results"]]

    assert names(type=[MARKDOWN], tags="hot") == ["steep-tea"]
    assert names(type=["application/mcp-server-card+json"]) == []


def test_only_published_skills_that_the_server_selects_are_told(ask, url):
    listed = ask("list", "GET", "/agents")
    assert [item["displayName"] for item in listed["items"]] == ["brew-coffee", "steep-tea"]
    for text in ("brew filter coffee in secret", "steep tea, hidden", "steep tea, oddly named"):
        answer = ask("search", "POST", "/search", {"query": {"text": text}})
        names = {result["displayName"] for result in answer["results"]}
        assert names <= {"brew-coffee", "steep-tea"}
    for name in ("brew-secretly", "hidden-tea", "Odd_5f_Tea"):
        path = quote(f"urn:air:agent.localhost:drinks:{name}", safe="")
        assert ask("error", "GET", f"/agents/{path}")[:2] == (404, "NOT_FOUND")
        assert request(url, "GET", f"/skills/drinks/{name}/SKILL.md")[0] == 404


def test_a_list_goes_on_page_by_page(ask):
    first = ask("list", "GET", "/agents?pageSize=1")
    second = ask("list", "GET", f"/agents?pageSize=1&pageToken={quote(first['pageToken'])}")
    assert [first["items"][0]["displayName"], second["items"][0]["displayName"]] == [
        "brew-coffee",
        "steep-tea",
    ]
    assert "pageToken" not in second


def test_an_entry_is_told_whole_by_its_identifier(ask):
    entry = ask("list", "GET", "/agents?filter=" + quote("displayName = 'steep'"))["items"][0]
    path = quote(entry["identifier"], safe="")
    assert ask("entry", "GET", f"/agents/{path}") == entry
    assert ask("entry", "GET", f"/agents/{entry['identifier']}") == entry
    assert entry["representativeQueries"] == QUERIES
    assert entry["tags"] == ["hot"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/agents/urn%3Aair%3Anobody.invalid%3Aa%3Ab", 404, "NOT_FOUND"),
        ("/agents/urn%3Aair%3Aagent.localhost%3Adrinks%3ASteep-Tea", 404, "NOT_FOUND"),
        ("/agents/not-a-urn", 400, "INVALID_ARGUMENT"),
        (
            "/agents/urn%253Aair%253Aagent.localhost%253Adrinks%253Asteep-tea",
            400,
            "INVALID_ARGUMENT",
        ),
        ("/agents/urn%3Aair%3Aagent.localhost%3Adrinks%3A%zz", 400, "INVALID_ARGUMENT"),
        ("/agents/%ff%1b%5b2J", 400, "INVALID_ARGUMENT"),
        ("/agents/" + "a" * 9_000, 400, "INVALID_ARGUMENT"),
        ("/agents?pageSize=0", 400, "INVALID_ARGUMENT"),
        ("/agents?filter=x", 400, "INVALID_ARGUMENT"),
        ("/agents?pageToken=AAAA", 400, "INVALID_ARGUMENT"),
        ("/search", 405, "INVALID_ARGUMENT"),
        ("/", 404, "NOT_FOUND"),
        ("/skills/", 404, "NOT_FOUND"),
        ("/skills/drinks/steep-tea/../../../etc/passwd", 404, "NOT_FOUND"),
        ("/skills/drinks/steep-tea/..%2f..%2fx", 404, "NOT_FOUND"),
        ("/skills/drinks/steep-tea/%00", 404, "NOT_FOUND"),
    ],
)
def test_what_cannot_be_answered_is_said_in_the_form_of_the_draft(ask, path, status, code):
    answered = ask("error", "GET", path)
    assert answered[:2] == (status, code)
    assert not re.search(r"[\x00-\x1f]|/tmp|/home", answered[2])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 200_000,
        b"null",
        {"query": {}},
        {"query": {"text": ["x"]}},
        {"query": {"text": "x"}, "pageSize": 1e9},
        {"query": {"text": " "}},
        {"query": {"text": "x" * 4_097}},
        {"query": {"text": "é" * 2_049}},
        {"query": {"text": "x", "filter": {"\x1b[2J": "y"}}},
        {"query": {"text": "x", "filter": {"type": [["y"]]}}},
    ],
)
def test_a_hostile_body_is_answered_by_a_reason(ask, body):
    status, code, message = ask("error", "POST", "/search", body)
    assert (status, code) == (400, "INVALID_ARGUMENT")
    assert "\x1b" not in message
    ask("search", "POST", "/search", {"query": {"text": "steep green tea"}})


@pytest.mark.parametrize("text", ["\ud800", "\x00\x1b[2J", "\u202etea", "a" * 4_096, "é" * 2_048])
def test_an_odd_text_is_searched(ask, text):
    ask("search", "POST", "/search", {"query": {"text": text}})


def test_a_body_of_five_megabytes_is_refused(url):
    assert request(url, "POST", "/search", b" " * (5 << 20))[0] == 413


def test_a_body_that_says_to_be_something_else_is_refused(ask):
    """A web page can send a text anywhere without a question, but no JSON."""
    body = {"query": {"text": "steep green tea"}}
    answered = ask("error", "POST", "/search", body, Content_Type="text/plain")
    assert answered[:2] == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
@pytest.mark.parametrize(
    ("verb", "path"),
    [("POST", "/search"), ("GET", "/agents"), ("GET", "/skills/drinks/steep-tea/SKILL.md")],
)
def test_a_web_page_cannot_ask(ask, headers, status, verb, path):
    body = {"query": {"text": "tea"}} if verb == "POST" else None
    assert ask("error", verb, path, body, **headers)[0] == status


def test_the_registry_says_where_it_is(ask, url):
    """By either name of the file, so that a client needs only the host."""
    for path in ("/.well-known/ard.json", "/.well-known/ai-catalog.json"):
        (entry,) = ask("catalog", "GET", path)["entries"]
        assert (entry["type"], entry["url"]) == ("application/ai-registry+json", f"{url}/")


def test_exploring_is_not_offered(ask):
    body = {"resultType": {"facets": [{"field": "type"}]}}
    assert ask("error", "POST", "/explore", body)[:2] == (501, "NOT_IMPLEMENTED")


def test_no_file_of_a_skill_can_act_as_a_page_of_this_server(url):
    """A page that it sent would be of its origin, and could call its tools."""
    status, headers, data = request(url, "GET", "/skills/drinks/steep-tea/page.html")
    assert (status, data) == (200, PAGE)
    assert headers["content-type"] == "application/octet-stream"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-disposition"] == "attachment"
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"


def test_a_file_is_read_by_any_name(url):
    path = quote("/skills/drinks/steep-tea/a b/é.txt")
    assert request(url, "GET", path)[2] == "é".encode()


@pytest.fixture
def serving(serve_over_http):
    """Serve the registry beside a server in this process; yield its origin."""

    @contextmanager
    def serve(server, host="127.0.0.1", **options):
        listener = listen(host, **options)
        app = registry_app(server.thread, server.served, listener)
        with serve_over_http(server, listener, beside=app) as (_, port):
            yield f"http://127.0.0.1:{port}"

    return serve


SEARCH = {"query": {"text": "steep green tea"}}


def test_only_who_shows_the_token_is_answered(serving, make_server, drinks, conforms):
    """Of a server for other machines, whose clients are told the address that they use."""
    with serving(make_server(drinks), "0.0.0.0", token=TOKEN, allow_remote=True) as url:
        for headers in ({}, {"Authorization": f"Bearer {TOKEN}x"}):
            for verb, path in (("POST", "/search"), ("GET", "/agents"), ("GET", "/skills/a")):
                status, _, data = request(url, verb, path, SEARCH, **headers)
                record = conforms("error", json.loads(data))
                assert (status, record["errorCode"]) == (401, "UNAUTHENTICATED")
        shown = {"Authorization": f"Bearer {TOKEN}"}
        for host, source in (
            ("skills.example:8000", "http://skills.example:8000/"),
            ("[fe80::1]:80", "http://[fe80::1]:80/"),
            ('a"b', None),
        ):
            status, _, data = request(url, "POST", "/search", SEARCH, Host=host, **shown)
            (result,) = conforms("search", json.loads(data))["results"]
            assert source in (result["source"], None)
            assert '"' not in result["source"]


def test_a_server_without_skills_says_what_to_do(serving, make_server, tmp_path, conforms):
    with serving(make_server(tmp_path / "missing")) as url:
        status, _, data = request(url, "POST", "/search", SEARCH)
        record = conforms("error", json.loads(data))
        assert (status, record["errorCode"]) == (500, "INTERNAL_ERROR")
        assert str(tmp_path) not in record["message"]


def test_too_many_requests_and_too_slow_ones_are_told_so(serving, make_server, drinks, conforms):
    for options, expected in (
        ({"max_waiting": 0}, (429, "RATE_LIMIT_EXCEEDED")),
        ({"call_seconds": 0}, (500, "INTERNAL_ERROR")),
    ):
        with serving(make_server(drinks, **options)) as url:
            status, _, data = request(url, "GET", "/agents")
            assert (status, conforms("error", json.loads(data))["errorCode"]) == expected


def test_a_bug_is_told_without_a_traceback(serving, make_server, drinks, conforms, monkeypatch):
    server = make_server(drinks)
    monkeypatch.setattr(server.served, "publisher", lambda: 1 / 0)
    with serving(server) as url:
        status, _, data = request(url, "GET", "/agents")
        assert status == 500
        assert "ZeroDivisionError" not in conforms("error", json.loads(data))["message"]


def test_what_changes_on_disk_is_told(serving, make_server, drinks, make_skill, conforms):
    with serving(make_server(drinks)) as url:
        assert request(url, "GET", "/agents")[0] == 200
        make_skill(drinks, "stir-cocoa", "Stir cocoa.")
        (drinks / "steep-tea" / "SKILL.md").unlink()
        names = []
        for _ in range(60):
            if "stir-cocoa" in names and "steep-tea" not in names:
                break
            threading.Event().wait(0.2)
            record = conforms("list", json.loads(request(url, "GET", "/agents")[2]))
            names = [item["displayName"] for item in record["items"]]
        assert names == ["brew-coffee", "squeeze-lemons", "stir-cocoa"]
