"""Who writes examples and for which skills, and which of those kept are forgotten."""

import sys
from dataclasses import replace

import pytest

from skillsearch.errors import ConfigError, ExecutionError, SkillError, StorageError
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library import user_examples
from skillsearch.library.example_review import BATCH, Review
from skillsearch.library.example_writers import Pending, Writer, batches_of, read_wanted, to_forget
from skillsearch.library.user_examples import change_examples
from skillsearch.skills.example_requests import user_file
from skillsearch.types.answers import Selection

EXAMPLES = ["fill a kettle and steep", "leaves in a warm pot", "how long do leaves steep"]


@pytest.fixture
def index(drinks, index_dir):
    return SkillIndex.from_roots(drinks, index_dir=index_dir, model="hashing")


@pytest.fixture
def entry(index):
    """Return examples of a skill as they are kept."""
    document = index.find("steep-tea")
    ((wanted,), _) = read_wanted(index, [document])
    printed = f'print({{"digest": "{wanted.digest}", "examples": {EXAMPLES}}})'.replace("'", '"')
    line = f"import json; {printed.replace('print(', 'print(json.dumps(')})"
    ((good, refused),) = Writer([sys.executable, "-c", line], is_host=False).write(
        [[wanted]], Review(index), 60
    )
    assert refused == []
    return good[0]


def test_a_skill_is_pending_until_it_has_examples(index, entry):
    before = Pending.of(index, Selection())
    assert {document.name for document in before.documents} >= {"steep-tea", "brew-coffee"}
    change_examples([entry])
    assert "steep-tea" not in {
        document.name for document in Pending.of(index, Selection()).documents
    }
    assert Pending.of(index, Selection(), ["steep-tea"]).documents == []


def test_no_more_examples_are_kept_than_are_read(index, entry, monkeypatch):
    change_examples([entry])
    before = user_file().read_bytes()
    monkeypatch.setattr(user_examples, "MAX_BYTES", len(before))
    other = replace(entry, digest="another")
    with pytest.raises(StorageError, match=r"would have .* bytes, and .* are read.*--stale"):
        change_examples([other])
    assert user_file().read_bytes() == before
    change_examples([entry])
    change_examples([other], [entry.digest])
    monkeypatch.setattr(user_examples, "MAX_BYTES", 1)
    change_examples(forget=["another"])
    assert user_file().read_bytes() == b""


def test_skills_that_nobody_vouches_for_are_counted_and_not_written_for(drinks, index_dir):
    index = SkillIndex.from_roots(
        drinks, index_dir=index_dir, model="hashing", trust=[f"{drinks}=fetched"]
    )
    count = len(index)
    assert Pending.of(index, Selection()) == ([], count)
    assert len(Pending.of(index, Selection(), include_unvetted=True).documents) == count


@pytest.mark.parametrize(
    ("line", "reason"),
    [("'open", "cannot be read: No closing quotation"), ("  ", "--command is empty")],
)
def test_a_command_that_is_none_is_refused(line, reason):
    with pytest.raises(ConfigError, match=reason):
        Writer.of(line)


def test_a_host_that_cannot_write_without_tools_is_told_from_those_that_can():
    assert Writer.of("claude-code").is_host
    assert Writer.of("cat 'a file'") == Writer(["cat", "a file"], is_host=False)
    with pytest.raises(ConfigError, match=r"how zed writes without tools; hosts are .*claude-code"):
        Writer.of("zed")


def test_an_answer_without_json_is_an_error_with_its_beginning(index):
    (wanted, _) = read_wanted(index, [index.find("steep-tea")])
    writer = Writer([sys.executable, "-c", "print('of course')"], is_host=False)
    with pytest.raises(ExecutionError, match="cannot be read as JSON lines: of course"):
        list(writer.write([wanted], Review(index), 60))


def test_no_batch_is_larger_than_what_is_asked_at_once():
    assert [len(batch) for batch in batches_of([None] * (2 * BATCH + 1))] == [BATCH, BATCH, 1]
    assert batches_of([]) == []


def test_what_is_named_is_forgotten_and_what_fits_no_skill_if_stale(index, entry):
    change_examples([entry])
    assert to_forget(["steep-tea"], [], stale=False) == [entry]
    assert to_forget([entry.digest], [], stale=False) == [entry]
    assert to_forget([], [entry.digest], stale=True) == []
    assert to_forget([], ["another"], stale=True) == [entry]
    with pytest.raises(SkillError, match="No examples of yours are kept for 'brew-coffee'"):
        to_forget(["brew-coffee"], [], stale=False)
