"""The calibration of the package, and files in its place."""

import json
import math

import pytest

from skillsearch.errors import ConfigError
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.calibration_file import (
    PACKAGED,
    default_calibration,
    load_calibration,
)

CURE = "python scripts/fit_fusion.py"


def test_the_packaged_calibration_is_read_once():
    assert default_calibration() is default_calibration()
    values = json.loads(PACKAGED.read_text(encoding="utf-8"))
    assert default_calibration() == Calibration.from_dict(values) == load_calibration(PACKAGED)


def test_a_file_of_ones_own_is_read(tmp_path):
    values = default_calibration().to_dict() | {"reader": 0.25, "date": "2026-11-22"}
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path = tmp_path / f"{encoding}.json"
        path.write_text(json.dumps(values), encoding=encoding)
        assert load_calibration(path).reader == 0.25


GOOD = default_calibration().to_dict()


HOSTILE = {
    "empty": b"",
    "not JSON": b"{",
    "NUL": b"\0" * 100,
    "not UTF-8": b'{"reader": "\xff\xfe"}',
    "a list": b"[]",
    "a number": b"3",
    "deep": b"[" * 200_000,
    "an object deep": b'{"weights":' * 100_000,
    "many digits": b'{"reader": ' + b"9" * 10_000 + b"}",
    "no keys": {},
    "NaN": GOOD | {"reader": math.nan},
    "a long text": GOOD | {"reader": "x" * 100_000},
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_is_no_calibration_is_a_config_error(tmp_path, content):
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


@pytest.mark.parametrize("trouble", ["missing", "folder", "huge"])
def test_what_cannot_be_read_whole_is_a_config_error(tmp_path, trouble):
    path = tmp_path / "calibration.json"
    if trouble == "folder":
        path.mkdir()
    elif trouble == "huge":
        with path.open("wb") as file:
            file.truncate(5 << 30)
    with pytest.raises(ConfigError, match=CURE) as caught:
        load_calibration(path)
    assert str(path) in str(caught.value)
