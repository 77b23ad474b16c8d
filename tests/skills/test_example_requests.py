"""Example requests of skills: where they come from, and how many of them count."""

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.skills import example_requests
from skillsearch.skills.example_requests import (
    MAX_CHARS,
    MAX_EXAMPLES,
    PACKAGED,
    EvalFiles,
    ExampleBook,
    digest_of_skill,
    own_examples,
    read_examples,
    usable,
    user_file,
)
from skillsearch.text.safe_text import visible
from skillsearch.types.skills import SkillMetadata

TEA = SkillMetadata(name="steep-tea", description="Steep green tea.")
KEY = digest_of_skill(TEA.name, TEA.description)
ASKED = "my leaves turned bitter"


def line(*texts, digest=KEY):
    return json.dumps({"digest": digest, "examples": list(texts)})


def examples_of(book, skill=TEA):
    return [example.text for example in book.of(skill.name, skill.description)]


@pytest.fixture
def keep(home):
    def keep(*records):
        user_file().parent.mkdir(parents=True, exist_ok=True)
        lines = (text if isinstance(text, bytes) else text.encode() for text in records)
        user_file().write_bytes(b"".join(line + b"\n" for line in lines))

    return keep


@pytest.fixture
def own(tmp_path):
    """Write files of a skill, and return the examples that it brings."""

    def own(files, metadata=TEA):
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return own_examples(metadata, EvalFiles.of(tmp_path))

    return own


def test_what_comes_with_the_package_is_whole():
    records = [json.loads(record) for record in gzip.decompress(PACKAGED.read_bytes()).splitlines()]
    assert list(read_examples(PACKAGED)) == records
    assert len({record["digest"] for record in records}) == len(records) == 1_359
    for record in records:
        assert usable(record["examples"]) == tuple(record["examples"])
        assert len(record["examples"]) == 4
        assert len(bytes.fromhex(record["digest"])) == 32
        assert record["name"]


def test_the_digest_of_a_skill_is_that_of_its_name_and_description():
    """Worked out by hand, with sha256sum: what is in use must not change."""
    assert digest_of_skill("steep-tea", "Steep green tea.") == (
        "e39c1d0e6160773c447197210d5e7c268033c995068bfd68e1f43979bfa86b28"
    )


WORDS = st.lists(st.text(st.characters(exclude_categories=["Z", "Cc"]), min_size=1), min_size=1)
BLANKS = st.text(st.sampled_from(" \n\t"), min_size=1)


@given(WORDS, st.data())
def test_white_space_in_a_description_does_not_count(words, data):
    blanks = data.draw(st.lists(BLANKS, min_size=len(words), max_size=len(words)))
    wrapped = "".join(blank + word for blank, word in zip(blanks, words, strict=True))
    assert digest_of_skill("s", wrapped) == digest_of_skill("s", " ".join(words))
    assert digest_of_skill("s", wrapped) != digest_of_skill("s", f"{wrapped} x")
    assert digest_of_skill("s", wrapped) != digest_of_skill("t", wrapped)


@given(
    st.lists(st.one_of(st.text(), st.text(min_size=250, max_size=350), st.none(), st.integers()))
)
def test_a_few_short_and_different_texts_are_usable(texts):
    requests = usable(texts)
    assert len(requests) == len(set(requests)) <= MAX_EXAMPLES
    for request in requests:
        assert 0 < len(request) <= MAX_CHARS
        assert request == visible(request) == " ".join(request.split())
    assert usable(requests) == requests
    assert usable([*requests, *texts]) == requests


def test_control_characters_and_halves_of_a_pair_are_left_out():
    shown = ("steep[2J it", "half \ufffd a pair")
    assert usable(["steep\x1b[2J it\0", "half \ud800 a pair"]) == shown


def test_the_user_says_more_than_the_package(keep, tmp_path, monkeypatch):
    packaged = tmp_path / "packaged.jsonl.gz"
    packaged.write_bytes(gzip.compress(line("ours", "theirs").encode()))
    monkeypatch.setattr(example_requests, "PACKAGED", packaged)
    skill = replace(TEA, examples=("theirs", "too hot"))

    def sources(**options):
        examples = ExampleBook(**options).with_own(skill, EvalFiles())
        return [(example.text, example.source) for example in examples]

    assert sources() == [("ours", "package"), ("theirs", "package"), ("too hot", "skill")]
    keep(line("mine"))
    assert sources() == [("mine", "user"), ("theirs", "skill"), ("too hot", "skill")]
    assert sources(extra={KEY: ("given",)}, own=False) == [("given", "user")]
    assert sources(path=None, packaged=False) == [("theirs", "skill"), ("too hot", "skill")]
    packaged.write_bytes(b"\x1f\x8b no gzip")
    assert sources(path=None) == [("theirs", "skill"), ("too hot", "skill")]


def test_the_last_record_of_a_skill_counts(keep):
    keep(line("first"), line("second"), line("other", digest="0" * 64))
    assert examples_of(ExampleBook()) == ["second"]
    assert examples_of(ExampleBook(), SkillMetadata(name="steep-tea", description="Boil it.")) == []
    keep(line("first"), line())
    assert examples_of(ExampleBook()) == []


def test_a_book_is_as_its_files_were(keep):
    before, nothing = ExampleBook(), ExampleBook().digest
    assert examples_of(before) == []
    keep(line(ASKED))
    assert (examples_of(before), before.digest) == ([], nothing)
    assert examples_of(ExampleBook()) == [ASKED]
    assert ExampleBook().digest != nothing
    assert ExampleBook(packaged=False).digest != ExampleBook().digest
    user_file().unlink()
    assert ExampleBook().digest == nothing


BROKEN = (
    b"{", b"[]", b"1", b"null", b'"text"', b"\xff\xfe", b"{}", b"[" * 50_000, b'{"digest": 1}',
    b'{"digest": "0", "examples": "text"}', b'{"digest": ["0"], "examples": []}',
)  # fmt: skip


def test_a_broken_line_is_left_out_and_told(keep, caplog):
    keep(*BROKEN, b"", b"  ", line(ASKED, 1, None, {"a": 2}, " \n"))
    assert examples_of(ExampleBook()) == [ASKED]
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{len(BROKEN)} lines of {user_file()} are not example requests and are left out"
    )


NOT_REGULAR = "it is not a regular file"
TOO_LARGE = "it has more than 67,108,864 bytes"
ODD = {  # how something odd comes to a path, and what is told of it in place of the user's file
    "folder": (Path.mkdir, NOT_REGULAR),
    "pipe": (os.mkfifo, NOT_REGULAR),
    "huge": (lambda path: path.touch() or os.truncate(path, 1 << 30), TOO_LARGE),
    "device": (lambda path: path.symlink_to("/dev/zero"), NOT_REGULAR),
    "loop": (lambda path: path.symlink_to(path), None),
}


@pytest.mark.parametrize(("put", "said"), ODD.values(), ids=ODD)
def test_what_cannot_be_read_in_place_of_the_file_is_told_once(put, said, home, caplog):
    nothing = ExampleBook().digest
    user_file().parent.mkdir(parents=True)
    put(user_file())
    for book in (ExampleBook(), ExampleBook()):
        assert book.digest == nothing
        assert examples_of(book) == []
    expected = f"no examples are taken from {user_file()}: {said}; mend or remove it"
    assert [record.getMessage() for record in caplog.records] == [expected] * bool(said)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_read(keep, caplog):
    keep(line(ASKED))
    os.chown(user_file(), 12_345, -1)
    assert examples_of(ExampleBook()) == []
    assert "it belongs to user 12345" in caplog.text


def test_a_link_to_a_file_is_followed(keep, tmp_path):
    keep(line(ASKED))
    user_file().rename(tmp_path / "kept.jsonl")
    user_file().symlink_to(tmp_path / "kept.jsonl")
    assert examples_of(ExampleBook()) == [ASKED]


def test_an_eval_file_says_what_its_skill_is_for(own):
    requests = own(
        {
            "evals/evals.json": [
                {"prompt": "Steep this for me"},
                {"query": "is my tea done", "should_trigger": True},
                {"query": "book a flight", "should_trigger": False},
                {"query": "brew an espresso", "expected_skill": "brew-coffee"},
                {"query": "green leaves", "expected_skill": "steep-tea"},
            ],
            "triggers.yaml": "should_not_trigger: [chop wood]\nshould_trigger: [warm the pot]\n",
        }
    )
    assert requests == ("is my tea done", "green leaves", "warm the pot", "Steep this for me")


def test_the_frontmatter_comes_before_eval_files_and_a_few_requests_count(own):
    skill = SkillMetadata(name="steep-tea", description="", examples=("a", "b", "a"))
    assert own({"evals/a.json": [{"query": "c"}]}, skill) == ("a", "b", "c")
    many = [{"query": "x" * 100_000, "should_trigger": True}]
    many += [{"query": f"request {n}", "should_trigger": True} for n in range(200)]
    requests = own({"evals/a.json": many, **{f"evals/{n:02}.json": many for n in range(50)}})
    assert requests == tuple(f"request {n}" for n in range(MAX_EXAMPLES))


def test_an_eval_file_of_an_inner_skill_is_not_the_outer_ones(own, tmp_path):
    requests = own(
        {
            "inner/SKILL.md": "---\nname: inner\n---\n",
            "inner/evals.json": [{"query": "ask the inner one"}],
            "evals/SKILL.md": "---\nname: evals\n---\n",
            "evals/a.json": [{"query": "ask the one that is called evals"}],
            "lower/skill.md": "---\nname: lower\n---\n",
            "lower/evals.json": [{"query": "ask the one in lower case"}],
            "tests/evals.json": [{"query": "ask the outer one"}],
            "a/b/evals.json": [{"query": "too deep"}],
        }
    )
    assert requests == ("ask the outer one",)
    inner = SkillMetadata(name="inner", description="")
    assert own_examples(inner, EvalFiles.of(tmp_path / "inner")) == ("ask the inner one",)


def test_a_bounded_part_of_eval_files_is_read(own, tmp_path):
    large, small = "[" + " " * (300 << 10) + "]", [{"query": "small"}]
    assert own({"evals/a.json": large, "evals/b.json": small}) == ("small",)
    evals = EvalFiles.of(tmp_path)
    assert [name for name, _ in evals.files] == ["evals/b.json"]
    assert [path for path, _ in evals.stats] == [f"{tmp_path}/evals/{n}.json" for n in "ab"]
    own({f"evals/{n:03}.json": "[" + " " * (100 << 10) + "]" for n in range(100)})
    assert len(EvalFiles.of(tmp_path).files) == 2


@pytest.mark.parametrize("put", [put for put, _ in ODD.values()], ids=ODD)
def test_nothing_odd_in_place_of_an_eval_file_is_read(put, own, tmp_path):
    (tmp_path / "evals").mkdir()
    put(tmp_path / "evals/a.json")
    assert own({"evals/b.json": [{"query": "hello"}], "evals/c.json": "{"}) == ("hello",)


def test_the_digest_of_eval_files_is_that_of_names_and_bytes(own, tmp_path):
    digests = {EvalFiles.of(tmp_path).digest}
    assert digests == {""}
    for files in ({"evals/a.json": "12"}, {"evals/a.json": "1"}, {"evals/b.json": "2"}):
        own(files)
        digests.add(EvalFiles.of(tmp_path).digest)
    (tmp_path / "evals/a.json").unlink()
    digests.add(EvalFiles.of(tmp_path).digest)
    assert len(digests) == 5


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_hard_link_to_a_file_of_another_user_is_no_eval_file(own, tmp_path):
    """Somebody may have linked what that user keeps for himself."""
    (tmp_path / "evals").mkdir()
    other = tmp_path / "other.txt"
    other.write_text('[{"query": "secret"}]')
    os.chown(other, 12_345, -1)
    os.link(other, tmp_path / "evals/a.json")
    assert own({}) == ()
