"""Tests of what the hook knows of a conversation: events and transcripts have hosts' own forms."""

import json
import multiprocessing
import os
import resource
import time
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.daemon import client
from skillsearch.hosts import conversation
from skillsearch.hosts.conversation import MAX_GROWTH, MAX_SESSIONS, UNSEEN_SECONDS, Conversation

SESSION = "0199a213-81c0-7800-8aa1-bbab2a035a53"
SLOW_MACHINE = 120
KEYS = ["a:tea@1", "a:coffee@2"]


MORE = {
    "claude-code": {
        "permission_mode": "default",
        "effort": {"level": "medium"},
        "prompt_id": "5f3",
    },
    "codex": {"turn_id": "0199a213-81d0", "model": "gpt-5.5-codex", "permission_mode": "default"},
    "gemini": {"timestamp": "2026-11-26T14:24:01.000Z"},
}
"""What Claude Code 2.1.197 and Gemini CLI 0.61 send beside, and Codex 0.171 by its schema."""


def event_of(host, prompt, transcript, session=SESSION):
    """Return an event of a host."""
    return {
        "session_id": session,
        "transcript_path": str(transcript) if transcript else None,
        "cwd": "/",
        "hook_event_name": "BeforeAgent" if host == "gemini" else "UserPromptSubmit",
        "prompt": prompt,
        **MORE[host],
    }


claude_event, codex_event, gemini_event = (partial(event_of, host) for host in MORE)


def claude_turn(text):
    """Return the lines of a turn: what the user said, and what the host wrote in their name."""
    base = {"parentUuid": None, "isSidechain": False, "userType": "external", "sessionId": SESSION}
    notice = f"<command-name>/model</command-name> {text} caveat"
    hook = {"type": "hook_additional_context", "content": ["steep-tea"], "hookName": "x"}
    result = [{"type": "tool_result", "tool_use_id": "t", "content": "squeeze lemons"}]
    answer = [{"type": "text", "text": "squeeze lemons"}]
    return [
        {**base, "type": "user", "isMeta": True, "message": {"role": "user", "content": "lemons"}},
        {**base, "type": "user", "message": {"role": "user", "content": notice}},
        {**base, "type": "user", "message": {"role": "user", "content": text}},
        {**base, "type": "attachment", "attachment": hook},
        {**base, "type": "assistant", "message": {"role": "assistant", "content": answer}},
        {**base, "type": "user", "message": {"role": "user", "content": result}},
    ]


def codex_turn(text):
    """Return the lines of a turn; what the user said is there twice."""
    context = "<environment_context>squeeze lemons</environment_context>"
    messages = [("user", "input_text", context), ("user", "input_text", text)]
    messages.append(("assistant", "output_text", "squeeze lemons"))
    items = [
        {"type": "message", "role": role, "content": [{"type": kind, "text": content}]}
        for role, kind, content in messages
    ]
    event = {"type": "user_message", "message": text, "images": [], "text_elements": []}
    lines = [{"type": "response_item", "payload": message} for message in items]
    lines.append({"type": "event_msg", "payload": event})
    return [{"timestamp": "2026-11-26T14:24:01.000Z", **line} for line in lines]


def gemini_turn(text):
    """Return the lines of a turn: a message of each side, and a change of metadata."""
    base = {"id": "m", "timestamp": "2026-11-26T14:24:01.000Z"}
    context = {"text": "<hook_context>squeeze lemons</hook_context>"}
    return [
        {"sessionId": SESSION, "projectHash": "0", "kind": "main"},
        {**base, "type": "user", "content": [{"text": text}, context]},
        {"$set": {"lastUpdated": "2026-11-26T14:24:01.000Z"}},
        {**base, "type": "gemini", "content": "squeeze lemons", "thoughts": [], "model": "g"},
    ]


CLAUDE_MARK = {"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted"}
DIFFER = (("claude-code", "auto"), ("codex", "off"), ("gemini", "auto"))
HOSTS = {
    "claude-code": (claude_event, claude_turn, [CLAUDE_MARK]),
    "codex": (
        codex_event,
        codex_turn,
        [
            {"timestamp": "t", "type": "compacted", "payload": {"message": ""}},
            {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}},
        ],
    ),
    "gemini": (gemini_event, gemini_turn, [{"$set": {"messages": []}}, {"$rewindTo": "m"}]),
}
ANSWERED = [
    pytest.param(host, by, marks=pytest.mark.slow if (host, by) in DIFFER else pytest.mark.night)
    for host in HOSTS
    for by in ("auto", "off")
]
"""How the hook is answered, by the daemon or without it; events and turns differ by host alone."""
MARKS = [(host, mark) for host, (_, _, marks) in HOSTS.items() for mark in marks]


@pytest.fixture
def transcript(tmp_path):
    """Name a file of a conversation that is there, and empty."""
    path = tmp_path / "transcript.jsonl"
    path.touch()
    return path


def remember(session, keys):
    Conversation({"prompt": "tea", "session_id": session}).remember(keys)


def offered_in(session):
    return Conversation({"prompt": "tea", "session_id": session}).offered


def append(path, records):
    """Write lines as the hosts do, without blanks."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(record, separators=(",", ":")) + "\n" for record in records)


@pytest.fixture
def sessions(home):
    """Name the folder where sessions are remembered."""
    return home / "runtime" / "skillsearch" / "sessions"


@pytest.fixture
def daemon(serve):
    return serve()[0]


@pytest.fixture
def hook(cli, indexed, index_dir, daemon, monkeypatch):
    """Run the hook on an event of a host; return what the model is told, or an empty text."""
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(index_dir))

    def run(event):
        result = cli("hook", stdin=json.dumps(event), obj=SLOW_MACHINE)
        assert (result.exit_code, result.stderr) == (0, "")
        if not result.stdout:
            return ""
        output = json.loads(result.stdout)["hookSpecificOutput"]
        assert output["hookEventName"] == event["hook_event_name"]
        return output["additionalContext"]

    return run


@pytest.mark.parametrize(("host", "by"), ANSWERED)
def test_a_skill_is_offered_once_in_a_session(hook, transcript, monkeypatch, host, by):
    monkeypatch.setenv("SKILLSEARCH_DAEMON", by)
    event, turn, _ = HOSTS[host]
    first = hook(event("brew filter coffee", transcript))
    assert "brew-coffee" in first
    append(transcript, turn("brew filter coffee"))
    assert hook(event("brew filter coffee", transcript)) == ""
    assert "steep-tea" in hook(event("steep green tea", transcript))
    assert hook(event("brew filter coffee", transcript)) == ""
    assert hook(event("brew filter coffee", transcript, session="another")) == first


def test_without_a_session_it_is_offered_each_time(hook, transcript, runtime):
    event = claude_event("brew filter coffee", transcript)
    del event["session_id"]
    first = hook(event)
    assert first
    assert hook(event) == first
    assert hook({**event, "session_id": None}) == first
    assert hook({**event, "session_id": ["x"] * 200}) == first
    assert not (runtime / "sessions").exists()


def test_a_skill_that_changed_is_offered_again(hook, transcript, drinks, make_skill, cli, indexed):
    event = claude_event("brew filter coffee", transcript)
    first = hook(event)
    assert hook(event) == ""
    make_skill(drinks, "brew-coffee", "Brew filter coffee with a scale, and a timer.")
    indexed("index")
    changed = hook(event)
    assert "and a timer" in changed
    assert changed != first
    assert hook(event) == ""


@pytest.mark.parametrize(("host", "mark"), MARKS)
def test_all_is_offered_again_once_the_host_has_dropped_our_text(hook, transcript, host, mark):
    event, turn, _ = HOSTS[host]
    append(transcript, turn("hello there"))
    first = hook(event("brew filter coffee", transcript))
    append(transcript, turn(f"brew filter coffee {json.dumps(mark, separators=(',', ':'))}"))
    assert hook(event("brew filter coffee", transcript)) == ""
    append(transcript, [*turn("x"), mark, *turn("y")])
    assert hook(event("brew filter coffee", transcript)) == first
    assert hook(event("brew filter coffee", transcript)) == ""


def test_a_transcript_that_shrank_or_grew_too_much_is_another_context(transcript):
    transcript.write_bytes(b"x" * 100)
    event = claude_event("tea", transcript)
    Conversation(event).remember(KEYS)
    assert Conversation(event).offered == KEYS
    transcript.write_bytes(b"x" * 99)
    assert Conversation(event).offered == []
    transcript.write_bytes(b"x" * (100 + MAX_GROWTH))
    assert Conversation(event).offered == KEYS
    transcript.write_bytes(b"x" * (101 + MAX_GROWTH))
    assert Conversation(event).offered == []


def test_without_a_transcript_it_counts_for_an_hour(sessions):
    """Codex may have none, and then nothing tells what its model still sees."""
    event = codex_event("tea", None)
    Conversation(event).remember(KEYS)
    assert Conversation(event).offered == KEYS
    (file,) = sessions.iterdir()
    past = time.time() - UNSEEN_SECONDS - 60
    os.utime(file, (past, past))
    assert Conversation(event).offered == []


def test_that_others_fit_is_said_once_too(hook, cli, drinks, index_dir, transcript, monkeypatch):
    cli("index", drinks, "--index-dir", index_dir, "--trust", f"{drinks}=project")
    first = hook(claude_event("brew filter coffee", transcript))
    assert first
    assert "brew-coffee" not in first
    assert hook(claude_event("brew filter coffee", transcript)) == ""
    assert hook(claude_event("brew filter coffee", transcript, "another")) == first


@given(st.text(), st.lists(st.text(max_size=20), max_size=5))
def test_any_session_has_its_own_file_in_our_folder_or_none(tmp_path_factory, session, keys):
    folder = tmp_path_factory.mktemp("runtime")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        remember(session, keys)
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert {path.parent for path in files} <= {folder / "skillsearch" / "sessions"}
        assert len(files) == bool(keys and session and len(session.encode()) <= 100)
        assert offered_in(session) == (keys if files else [])
        for path in files:
            assert path.stat().st_mode & 0o777 == 0o600
            assert path.parent.stat().st_mode & 0o777 == 0o700
            assert path.parents[1].stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "damage",
    [
        *(b"", b"{", b"\xff\xfe", b"[]", b"5", b'{"size": 0}', b'{"size": "x", "offered": []}'),
        *(b'{"size": 0, "offered": 5}', b'{"size": -1, "offered": {}}', b"[" * 100_000),
    ],
)
def test_a_damaged_file_is_as_none(sessions, transcript, damage):
    event = claude_event("tea", transcript)
    Conversation(event).remember(KEYS)
    (file,) = sessions.iterdir()
    file.write_bytes(damage)
    session = Conversation(event)
    assert session.offered == []
    session.remember(KEYS[:1])
    assert Conversation(event).offered == KEYS[:1]


def test_the_oldest_of_too_many_files_is_removed(sessions):
    sessions.mkdir(parents=True, mode=0o700)
    for number in range(MAX_SESSIONS + 3):
        (sessions / f"{number:03}").touch()
        os.utime(sessions / f"{number:03}", (number, number))
    remember(SESSION, KEYS)
    names = {path.name for path in sessions.iterdir()}
    assert len(names) == MAX_SESSIONS
    assert names.isdisjoint({"000", "001", "002", "003"})
    assert offered_in(SESSION) == KEYS


@pytest.mark.parametrize("trouble", ["file", "link", "full"])
def test_where_nothing_can_be_kept_the_prompt_gets_its_answer(
    hook, transcript, runtime, tmp_path, trouble
):
    event = claude_event("brew filter coffee", transcript)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    elsewhere = tmp_path / "elsewhere"
    if trouble == "file":
        (runtime / "sessions").touch()
    elif trouble == "link":
        (runtime / "sessions").mkdir(mode=0o700)
        (runtime / "sessions" / SESSION.encode().hex()).symlink_to(elsewhere)
        elsewhere.write_text('{"size": 0, "offered": []}')
    try:
        if trouble == "full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
        assert "brew-coffee" in hook(event)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "brew-coffee" in hook(event) or trouble == "link"
    if trouble == "link":
        assert elsewhere.read_text() == '{"size": 0, "offered": []}'


def test_the_last_of_many_long_names_are_remembered(home):
    """The state was larger than what is read, so all were offered anew."""
    keys = [f"{number}:{'茶' * 300}" for number in range(400)]
    for begin in range(0, 400, 4):
        remember("long", keys[begin : begin + 4])
        assert keys[begin : begin + 4] == offered_in("long")[-4:]
    assert len(offered_in("long")) > 50


def remember_often(session, keys):
    """Keep keys one by one, as prompts of one session do."""
    for key in keys:
        remember(session, [key])


def test_prompts_of_one_session_at_once_leave_a_whole_file(sessions):
    keys = [[f"{n}:x@{i}" for i in range(40)] for n in range(4)]
    started = [multiprocessing.Process(target=remember_often, args=("one", mine)) for mine in keys]
    for process in started:
        process.start()
    seen = []
    while any(process.is_alive() for process in started):
        offered = offered_in("one")
        assert offered or not seen
        seen = offered
    offered = offered_in("one")
    assert set(offered) <= {key for mine in keys for key in mine}
    assert offered[-1] in {mine[-1] for mine in keys}  # Whoever wrote last had no more to write.
    assert len([*sessions.iterdir()]) == 1


def test_a_file_that_another_process_has_just_renamed_keeps_nothing_from_being_kept(
    sessions, monkeypatch
):
    """A new session makes room first, and looks at all files for that."""
    remember("one", ["a"])
    real = os.scandir

    def scandir(path):
        (sessions / "gone").touch()
        entries = list(real(path))
        (sessions / "gone").unlink()
        return entries

    monkeypatch.setattr(os, "scandir", scandir)
    remember("two", ["b"])
    assert offered_in("two") == ["b"]


@pytest.mark.parametrize("host", HOSTS)
def test_a_prompt_that_leans_is_searched_with_the_last_turn_that_stands_alone(transcript, host):
    """Turns between them that lean as well belong to it; thanks do not."""
    event, turn, _ = HOSTS[host]
    for text in ("squeeze a lemon", "brew filter coffee", "thanks", "and some for me too"):
        append(transcript, turn(text))
    prompt = "now the same for guests"
    expected = "and some for me too\nbrew filter coffee"
    assert Conversation(event(prompt, transcript)).last_turns() == expected
    append(transcript, turn(prompt))  # by a host that writes it down first
    assert Conversation(event(prompt, transcript)).last_turns() == expected
    for alone in ("steep green tea", "", "thanks", f"it {'says ' * 14}"):
        assert Conversation(event(alone, transcript)).last_turns() == ""


@pytest.mark.parametrize(("host", "by"), ANSWERED)
def test_it_then_gets_what_fits_both_and_neither_alone(hook, transcript, monkeypatch, host, by):
    monkeypatch.setenv("SKILLSEARCH_DAEMON", by)
    monkeypatch.setenv("SKILLSEARCH_THRESHOLD", "0.9")  # that filter alone does not reach
    event, turn, _ = HOSTS[host]
    prompt = "and a scale for it too"
    assert hook(event("filter", transcript)) == ""
    assert hook(event(prompt, transcript)) == ""
    append(transcript, turn("filter"))
    assert "brew-coffee" in hook(event(prompt, transcript))
    append(transcript, turn(prompt))
    assert hook(event("now the same again", transcript)) == ""


def test_what_only_may_fit_such_a_prompt_is_not_what_it_asks_for(hook, cli, transcript, index_dir):
    prompt = "and which filter"
    answer = json.loads(cli("query", prompt, "--index-dir", index_dir, "--json").stdout)
    assert [hit["name"] for hit in answer["perhaps"]] == ["brew-coffee"]
    assert "brew-coffee" in hook(claude_event(prompt, transcript, "s1"))
    append(transcript, claude_turn("brew filter coffee"))
    assert hook(claude_event(prompt, transcript, "s2")) == ""


@pytest.mark.parametrize("prompt", ["the same for guests", "auch das kochen"])
def test_what_an_earlier_turn_gets_by_itself_is_nothing_that_a_later_one_asks_for(
    hook, transcript, prompt
):
    append(transcript, claude_turn("brew filter coffee"))
    assert hook(claude_event(prompt, transcript, "s1")) == ""
    assert "brew-coffee" in hook(claude_event("brew filter coffee", transcript, "s2"))
    assert hook(claude_event(prompt, transcript, "s2")) == ""


def test_a_prompt_that_stands_alone_is_searched_alone(hook, transcript):
    before = hook(claude_event("steep green tea", transcript, "s1"))
    append(transcript, claude_turn("brew filter coffee"))
    assert hook(claude_event("steep green tea", transcript, "s2")) == before
    assert hook(claude_event("assemble a bookshelf", transcript, "s2")) == ""


@pytest.mark.parametrize("prompt", ["thanks!", "why?", "好的"])
def test_a_prompt_that_needs_nothing_is_not_searched(
    hook, transcript, drinks, make_skill, monkeypatch, prompt
):
    make_skill(drinks, "answers", f"{prompt} {prompt}")
    monkeypatch.setenv("SKILLSEARCH_THRESHOLD", "0")
    append(transcript, claude_turn("brew filter coffee"))
    assert hook(claude_event(prompt, transcript)) == ""
    assert client.ask("status", seconds=120)["answered"] == 0


@pytest.mark.parametrize("prompt", ["brew filter coffee", "the same for guests"])
def test_what_is_below_a_threshold_of_ones_own_is_never_pushed(
    hook, transcript, monkeypatch, prompt
):
    monkeypatch.setenv("SKILLSEARCH_THRESHOLD", "0.999")
    append(transcript, claude_turn("brew filter coffee"))
    assert hook(claude_event(prompt, transcript)) == ""


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "gone", "nul", "number"])
def test_only_a_plain_file_is_read(transcript, tmp_path, kind):
    """A pipe would keep the prompt waiting."""
    append(transcript, claude_turn("brew filter coffee"))
    path = tmp_path / kind
    if kind == "link":
        path.symlink_to(transcript)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    named = {"nul": f"{transcript}\0", "number": 5}.get(kind, str(path))
    event = {**claude_event("the same for guests", transcript), "transcript_path": named}
    assert Conversation(event).last_turns() == ""
    Conversation(event).remember(KEYS)
    assert Conversation(event).offered == KEYS


def test_of_a_large_transcript_only_the_end_is_read(transcript, monkeypatch):
    append(transcript, claude_turn("squeeze a lemon"))
    append(transcript, [{"type": "progress", "data": "x" * conversation.TAIL_BYTES}])
    event = claude_event("the same for guests", transcript)
    assert Conversation(event).last_turns() == ""
    append(transcript, claude_turn("brew filter coffee"))
    assert Conversation(event).last_turns() == "brew filter coffee"


@given(st.lists(st.binary(max_size=60) | st.sampled_from([b'{"type":"user"}', b'"user"', b"{}"])))
def test_no_line_of_a_transcript_is_a_reason_to_fail(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("t") / "t.jsonl"
    message = json.dumps({"type": "user", "message": {"content": "brew filter coffee"}}).encode()
    path.write_bytes(b"\n".join([message, *(line.replace(b"\n", b"") for line in lines)]))
    turns = Conversation(claude_event("the same for guests", path)).last_turns()
    assert turns == "brew filter coffee"


def test_lines_that_resemble_a_turn_are_passed_over(transcript):
    wrong = [5, None, [], [5], [{"text": 5}], {"content": 5}, {"text": "x"}, [None], [[]]]
    append(transcript, claude_turn("brew filter coffee"))
    append(transcript, [{"type": "user", "message": {"content": content}} for content in wrong])
    append(transcript, [{"type": "user", "message": content} for content in wrong])
    append(transcript, [{"type": "event_msg", "payload": content, "user": 1} for content in wrong])
    append(transcript, [{"type": "user_message", "message": content} for content in wrong])
    turns = Conversation(claude_event("the same for guests", transcript)).last_turns()
    assert turns == "brew filter coffee"
