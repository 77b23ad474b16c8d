"""The request that an index was built for: what comes back of it, and what becomes none."""

from dataclasses import replace

import pytest

from skillsearch.errors import ConfigError
from skillsearch.files.atomic_files import write_record
from skillsearch.index.request import IndexRequest
from skillsearch.types import LANGUAGES


def test_a_request_comes_back(tmp_path):
    request = IndexRequest((tmp_path / "数据", tmp_path / "b\udcff"), "hashing", False)
    for languages in LANGUAGES:
        asked = replace(request, languages=languages)
        asked.save(tmp_path)
        assert IndexRequest.load(tmp_path) == asked


def test_a_flipped_bit_in_the_request_makes_it_none(tmp_path):
    """A root of another name would be worse than none."""
    IndexRequest((tmp_path,), "hashing", True).save(tmp_path)
    path = tmp_path / "request.json"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        assert IndexRequest.load(tmp_path) is None


def test_a_request_for_unknown_languages_is_none(tmp_path):
    request = IndexRequest((tmp_path,), "hashing", True)
    record = {"roots": [str(tmp_path)], "model": "hashing", "with_body": True}
    for languages in ("chinese", "", 3, None, ["all"]):
        write_record(tmp_path / "request.json", record | {"languages": languages})
        assert IndexRequest.load(tmp_path) is None
        with pytest.raises(ConfigError, match="use one of: auto, english, all"):
            replace(request, languages=languages)
    write_record(tmp_path / "request.json", record)
    assert IndexRequest.load(tmp_path) == request
