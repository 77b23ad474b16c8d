"""Killed writers and busy readers, for seconds; `scripts/soak_index.py` does it for minutes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"


def soak(*args):
    """Run the soak in a separate process and return its report."""
    command = [sys.executable, str(SCRIPTS / "soak_index.py"), *map(str, args), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def states(import_script):
    return import_script("soaks.states")


@pytest.fixture
def skills(states, tmp_path):
    skills = states.Skills(tmp_path / "skills")
    for number in range(20):
        skills.put(number, 1)
    return skills


@pytest.fixture
def index(states, skills, tmp_path):
    return states.SkillIndex.from_roots(
        skills.folder, index_dir=tmp_path / "index", model="hashing"
    )


@pytest.mark.slow
def test_readers_see_whole_states_while_one_writes(tmp_path):
    options = ("--size", 100, "--seconds", 5, "--readers", 2, "--work", tmp_path)
    report = soak("readers", *options)
    assert report["first_faults"] == []
    assert report["generations read"] > 1
    assert report["opening anew searches"] > 0
    assert report["kept open searches"] > 0


def test_a_sound_index_has_no_faults(states, skills, index):
    contents = states.Contents.of(index)
    assert contents.digest == skills.digest(skills.state)
    assert contents.faults() == []
    assert states.absence_faults(index, [skills.text(3, 2)]) == []
    for doc_id in contents.names:
        assert states.search_faults(index, contents, doc_id) == []


def test_an_answer_of_another_state_is_a_fault(states, skills, index):
    """Documents of one generation and postings of another give each other away."""
    skills.put(3, 2)
    index.refresh()
    newer = states.Contents.of(index)
    older = states.SkillIndex.open(index.folder)
    skills.put(3, 3)
    index.refresh()
    newest = states.Contents.of(index)
    doc_id = skills.doc_id(3)
    assert states.search_faults(older, newer, doc_id) == []
    assert states.search_faults(older, newest, doc_id) != []
    assert states.absence_faults(older, [skills.text(3, 2)]) != []
