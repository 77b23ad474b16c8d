"""The calibration of the package, and files in its place."""

import json
import math

import pytest

from skillsearch.errors import ConfigError
from skillsearch.index.search.calibration import (
    EVIDENCE,
    FEATURES,
    OPPOSING,
    PACKAGED,
    SUPPORTING,
    Calibration,
    default_calibration,
    load_calibration,
)

CURE = "python scripts/fit_fusion.py"


def test_the_packaged_calibration_can_be_used():
    """Every number is there, and none has a sign that would let more evidence lower a score."""
    calibration = default_calibration()
    assert set(calibration.weights) == set(FEATURES)
    assert set(calibration.evidence) == set(EVIDENCE)
    assert min(calibration.weights.values()) >= 0
    assert min(calibration.evidence[name] for name in SUPPORTING) >= 0
    assert max(calibration.evidence[name] for name in OPPOSING) <= 0
    assert calibration.lag > 0
    assert 0 < calibration.threshold < 1
    assert max(calibration.weights.values()) > 0


def test_the_packaged_calibration_is_read_once():
    """And is what its file says."""
    assert default_calibration() is default_calibration()
    values = json.loads(PACKAGED.read_text(encoding="utf-8"))
    assert default_calibration() == Calibration.from_dict(values) == load_calibration(PACKAGED)


def test_a_file_of_ones_own_is_read(tmp_path):
    """With a byte order mark or without, and whatever else it says."""
    values = default_calibration().to_dict() | {"lag": 0.25, "date": "2026-11-22"}
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path = tmp_path / f"{encoding}.json"
        path.write_text(json.dumps(values), encoding=encoding)
        assert load_calibration(path).lag == 0.25


GOOD = default_calibration().to_dict()


def without(name):
    """Return a calibration's JSON form without a key."""
    return {key: value for key, value in GOOD.items() if key != name}


def with_evidence(**changes):
    """Return a calibration's JSON form with other evidence."""
    return GOOD | {"evidence": GOOD["evidence"] | changes}


HOSTILE = {
    "empty": b"",
    "not JSON": b"{",
    "NUL": b"\0" * 100,
    "not UTF-8": b'{"lag": "\xff\xfe"}',
    "a list": b"[]",
    "a number": b"3",
    "deep": b"[" * 200_000,
    "an object deep": b'{"weights":' * 100_000,
    "many digits": b'{"lag": ' + b"9" * 10_000 + b"}",
    "no keys": {},
    "NaN": GOOD | {"intercept": math.nan},
    "infinity": GOOD | {"lag": math.inf},
    "a number beyond floats": GOOD | {"lag": 10**400},
    "bool": GOOD | {"lag": True},
    "a long text": GOOD | {"lag": "x" * 100_000},
    "a list for a number": GOOD | {"lag": [1] * 1000},
    "support against": with_evidence(name=-0.1),
    "opposition for": with_evidence(corpus_size=0.1),
    "threshold": GOOD | {"threshold": 1.5},
    "a missing piece": GOOD | {"evidence": {}},
    **{f"no {name}": without(name) for name in GOOD},
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_is_no_calibration_is_a_config_error(tmp_path, content):
    """On one line that names the file and says how to make one."""
    path = tmp_path / "calibration.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(ConfigError) as caught:
        load_calibration(path)
    message = str(caught.value)
    assert str(path) in message
    assert CURE in message
    assert "\n" not in message
    assert len(message) < 600 + len(str(path))
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("kind", ["missing", "folder", "huge"])
def test_what_cannot_be_read_whole_is_a_config_error(tmp_path, kind):
    """A file that is not there, a folder, and 5 GB of blanks that no memory could hold."""
    path = tmp_path / "calibration.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(5 << 30)
    with pytest.raises(ConfigError, match=CURE) as caught:
        load_calibration(path)
    assert str(path) in str(caught.value)
