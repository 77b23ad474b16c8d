"""Tests of what is counted of each way to put skills before a model, by hand and by its bounds."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.budget.hosts import HOSTS, ListedSkill
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery

SCRIPTS = Path(__file__).parents[1] / "scripts"
pytestmark = pytest.mark.skipif(not SCRIPTS.exists(), reason="an installed copy has no scripts")
AB, GH, MN = (
    ListedSkill(name, text, path=f"/r/{name}", root="/r", short_path=f"~/{name}")
    for name, text in (("ab", "cdef"), ("gh", "ijkl"), ("mn", "o"))
)


@pytest.fixture(scope="module")
def counts(import_script):
    return import_script("turns.counts")


@pytest.fixture(scope="module")
def asking(import_script):
    return import_script("turns.model")


def task(text, *right, helps=()):
    return text, frozenset(right), frozenset((*right, *helps))


def count_words(text):
    """Count words, so that a reader can do the same."""
    return len(text.split())


def test_a_listing_that_is_cut_is_counted_by_hand(counts):
    """600 tokens are 24 characters: names take 14, and there is room for two descriptions."""
    shown = counts.listing("claude-code", [AB, GH, MN], 600, count_words)
    assert shown.text == "- ab: cdef\n- gh\n- mn: o"
    assert shown.tokens == 8
    tasks = [
        counts.Task(*task("first", "ab", helps=["mn"])),
        counts.Task(*task("second", "gh")),
        counts.Task(*task("third", "gh", "mn")),
        counts.Task(*task("fourth", "elsewhere")),
    ]
    record = counts.tally([(each, shown) for each in tasks])
    shares = {"whole": 0.5, "shortened": 0, "name only": 0.25, "omitted": 0.25, "hidden": 0}
    assert record == {"tokens": 8, "right": shares, "wrong": (1 + 2 + 1 + 3) / 4}
    assert counts.tally_nothing([shown]) == {"tokens": 8, "skills": 3, "none": 0}
    nothing = [shown, counts.Shown("", 0)]
    assert counts.tally_nothing(nothing) == {"tokens": 4, "skills": 1.5, "none": 0.5}


def test_each_host_s_form_is_written_with_what_it_keeps(counts):
    """Codex counts 4 bytes as a token: the lines need 9 and 7, and below an alias no less."""
    whole = counts.listing("codex", [AB, MN], 2000, count_words)
    assert whole.text == "- ab: cdef (file: /r/ab)\n- mn: o (file: /r/mn)"
    cut = counts.listing("codex", [AB, MN], 350, count_words)
    assert set(cut.fates.values()) == {"name only", "omitted"}
    assert cut.text == "### Skill roots\n- `r0` = `/r`\n- ab: (file: r0/ab)"
    xml = counts.listing("openclaw", [GH], 2000, count_words).text
    assert xml.splitlines()[:3] == ["<available_skills>", "<skill>", "<name>"]
    assert "~/gh" in xml
    hidden = counts.listing("openclaw", [ListedSkill("own", "x", hidden=True)], 2000, count_words)
    assert (hidden.standing(), hidden.fates) == (frozenset(), {"own": "hidden"})


_NAMES = st.text("abcdefgh", min_size=1, max_size=12)
_SKILLS = st.dictionaries(_NAMES, st.text("xyz &<", max_size=2000).map(str.strip), min_size=1)


@given(_SKILLS, st.sampled_from(sorted(HOSTS)), st.integers(1, 400_000), st.data())
def test_perfect_choice_is_a_bound(import_script, skills, host, window, data):
    """No listing shows a right skill whole for fewer characters, nor fewer wrong ones."""
    counts = import_script("turns.counts")
    right = frozenset(data.draw(st.sets(st.sampled_from(sorted(skills)), min_size=1)))
    listed = [
        ListedSkill(name, text, path=f"/r/{name}", root="/r") for name, text in skills.items()
    ]
    task = counts.Task("do it", right, right)
    shown = counts.listing(host, listed, window, len)
    best = counts.oracle(task, skills, len)
    assert (best.fate_of(right), best.standing() - right) == ("whole", frozenset())
    assert counts.oracle(counts.Task("do nothing"), skills, len).tokens == 0
    if shown.fate_of(right) == "whole":
        assert best.tokens <= shown.tokens


def test_a_library_holds_only_requests_that_it_can_answer(import_script):
    script = import_script("turns.library")
    documents = [
        JudgedDocument(f"d{number}", name, f"Makes {name}.")
        for number, name in enumerate(("tea", "ink", "Tea", "jam"))
    ]
    queries = tuple(
        JudgedQuery(f"q{number}", f"my {each.name}") for number, each in enumerate(documents)
    )
    qrels = {"q0": {"d0": 2, "d1": 1}, "q1": {"d1": 1}, "q2": {"d2": 2}, "q3": {"d3": 2}}
    twins = tuple(
        JudgedQuery(f"t{number}", f"no {number}", twin_of=f"q{number}") for number in range(4)
    )
    collection = Collection("c", tuple(documents), queries, qrels, negatives=twins)
    fillers = [JudgedDocument(name, name, "Fills.") for name in ("INK", "wax", "oak", "elm")]
    drawn = script.draw(4, [collection], [collection], fillers, ["sing", "dance"], 10)
    assert [skill.name for skill in drawn.skills] == ["tea", "ink", "wax", "oak"]
    assert drawn.judged == 2
    assert (
        drawn.tasks
        == drawn.agent
        == (
            script.Task(*task("my tea", "tea", helps=["ink"])),
            script.Task(*task("my ink", "ink")),
        )
    )
    nothing = {kind: [each.text for each in tasks] for kind, tasks in drawn.nothing.items()}
    assert nothing == {"ordinary": ["sing", "dance"], "twins": ["no 0", "no 1"]}
    few = script.draw(4, [collection], [], fillers, ["sing", "dance"], 1)
    assert (len(few.tasks), [*map(len, few.nothing.values())]) == (1, [1, 1])
    with pytest.raises(SystemExit, match="There are 6 skills for a library of 7"):
        script.draw(7, [collection], [], fillers, [], 10)


@contextmanager
def stand_in(reply):
    """Serve an API that answers as a function does of the two messages; yield its calls."""
    calls = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            calls.append((self.path, self.headers["Authorization"], data))
            said = reply(*(message["content"] for message in data["messages"]))
            answer = json.dumps({"choices": [{"message": {"content": said}}]}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            """Write no log."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/", calls
        finally:
            server.shutdown()
            thread.join()


def test_a_model_that_the_environment_names_is_asked_and_its_choices_are_counted(
    counts, asking, monkeypatch
):
    """Without an address there is none; and it is not asked where no skill stands before it."""
    assert asking.Model.from_environment() is None
    shown = counts.listing("hermes", [AB, GH], 600, count_words)
    replies = {"one": " `AB`.\n", "two": "ab", "three": "None", "four": "I would load ab"}
    pairs = [(counts.Task(*task(text, "ab" if text == "one" else "gh")), shown) for text in replies]
    pairs.append((counts.Task("five"), counts.Shown("No skill fits.", 4)))
    with stand_in(lambda _, request: replies[request]) as (url, calls):
        monkeypatch.setenv("END_TO_END_URL", url)
        monkeypatch.setenv("END_TO_END_MODEL", "small")
        monkeypatch.setenv("END_TO_END_KEY", "secret")
        model = asking.Model.from_environment()
        record = asking.ask(model, pairs)
    assert record == {"requests": 5, "right": 1, "wrong": 1, "none": 2, "unreadable": 1}
    assert [request["messages"][1]["content"] for _, _, request in calls] == [*replies]
    path, key, first = calls[0]
    assert (path, key, first["model"]) == ("/v1/chat/completions", "Bearer secret", "small")
    assert first["messages"][0]["content"] == asking.QUESTION + shown.text
    assert "secret" not in repr(model)


def test_without_an_address_nothing_can_be_asked(import_script):
    pytest.importorskip("mcp")
    with pytest.raises(SystemExit, match="--ask needs END_TO_END_URL"):
        import_script("end_to_end").choice_of(1)


def test_an_address_of_another_kind_is_refused(asking, monkeypatch):
    monkeypatch.setenv("END_TO_END_URL", "file:///etc/hostname")
    with pytest.raises(SystemExit, match="begins with http"):
        asking.Model.from_environment()
