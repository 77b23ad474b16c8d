"""Tests of the events of usage and their lines."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.usage.events import Event, OfferedSkill, is_request, packed, read_line, unpacked

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
EVENTS = st.builds(
    Event,
    kind=st.sampled_from(["asked", "loaded", "pin"]),
    at=st.integers(0, 1 << 33),
    index_id=TEXTS,
    interface=TEXTS,
    vector=st.binary(max_size=32),
    offered=st.lists(st.builds(OfferedSkill, TEXTS, st.floats(0, 1))).map(tuple),
    is_shadow=st.booleans(),
    skill=TEXTS,
    after=st.integers(0, 9),
    text=TEXTS,
)


@given(EVENTS)
def test_an_event_is_read_as_it_was_written(event):
    line = event.line()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert read_line(line) == event
    assert is_request(line) == (event.kind == "asked")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\x00",
        b"[]",
        b"{}",
        b'{"kind": "asked"}',
        b'{"kind": "sold", "at": 1, "index_id": ""}',
        b'{"kind": "asked", "at": 1, "index_id": "", "more": 1}',
        b'{"kind": "asked", "at": "1", "index_id": ""}',
        b'{"kind": "asked", "at": -1, "index_id": ""}',
        b'{"kind": "asked", "at": 1' + b"0" * 400 + b', "index_id": ""}',
        b'{"kind": "asked", "at": 1, "index_id": "", "vector": "*"}',
        b'{"kind": "asked", "at": 1, "index_id": "", "offered": [["a"]]}',
        b'{"kind": "asked", "at": 1, "index_id": "", "offered": 5}',
        b'{"kind": ["asked"], "at": 1, "index_id": ""}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_event_is_skipped(line):
    assert read_line(line) is None


@given(st.lists(st.floats(-1, 1, width=32), min_size=4, max_size=4))
def test_a_vector_keeps_its_direction_in_8_bits(numbers):
    vector = np.array(numbers, np.float32)
    data = packed(vector)
    length = float(np.linalg.norm(vector))
    if length < 1e-6:
        assert len(data) in (0, 4)
    else:
        assert len(data) == 4
        assert float(unpacked([data])[0] @ vector / length) > 0.999


def test_a_line_leaves_out_what_says_nothing():
    line = Event("loaded", 5, "i", skill="tea:steep").line()
    assert json.loads(line) == {"kind": "loaded", "at": 5, "index_id": "i", "skill": "tea:steep"}
