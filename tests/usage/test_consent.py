"""The line of the user's settings by which usage is kept, or not."""

import os
import re

import pytest

from skillsearch.errors import ConfigError
from skillsearch.settings.config import load_settings
from skillsearch.settings.user_folders import user_file
from skillsearch.usage.consent import set_usage, turn_on

OTHERS = b"n = 4\n[profiles.web]\nn = 3\n"


@pytest.mark.parametrize("choice", ["hashes", "off"])
@pytest.mark.parametrize("before", [None, b"", OTHERS, b"\xef\xbb\xbf" + OTHERS])
def test_the_choice_is_read_back_and_the_rest_stays(home, choice, before):
    if before is not None:
        user_file().parent.mkdir(parents=True)
        user_file().write_bytes(before)
        user_file().chmod(0o640)
    assert set_usage(choice) == user_file()
    assert load_settings().usage == choice
    if before:
        assert user_file().read_bytes().endswith(OTHERS)
        assert load_settings().n == 4
        assert user_file().stat().st_mode & 0o777 == 0o640


def test_what_another_program_writes_meanwhile_stays(home, monkeypatch):
    sync = os.fsync
    user_file().parent.mkdir(parents=True)
    user_file().write_bytes(OTHERS)

    def write_too(handle):
        user_file().write_bytes(OTHERS + b"# theirs\n")
        sync(handle)

    monkeypatch.setattr("os.fsync", write_too)
    with pytest.raises(ConfigError, match=f"changed by another.*{re.escape(turn_on())}"):
        set_usage("hashes")
    assert user_file().read_bytes() == OTHERS + b"# theirs\n"
