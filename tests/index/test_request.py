"""The request that an index was built for: what comes back of it, and what becomes none."""

import pytest

from skillsearch.errors import ConfigError
from skillsearch.files.atomic_files import write_record
from skillsearch.index.roots.request import IndexRequest, require_readable


def test_a_request_comes_back(tmp_path):
    roots = tmp_path / "数据", tmp_path / "b\udcff"
    trust = {str(roots[0]): "project"}
    request = IndexRequest(roots, "hashing", False, trust=trust, found=(str(roots[1]),))
    request.save(tmp_path)
    assert IndexRequest.load(tmp_path) == request


def test_a_flipped_bit_in_the_request_makes_it_none(tmp_path):
    """A root of another name would be worse than none."""
    IndexRequest((tmp_path,), "hashing", True).save(tmp_path)
    path = tmp_path / "request.json"
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        assert IndexRequest.load(tmp_path) is None


@pytest.mark.parametrize("more", [{}, {"languages": "all"}])
def test_a_request_of_an_earlier_version_is_read(tmp_path, more):
    record = {"roots": [str(tmp_path)], "model": "hashing", "with_body": True}
    write_record(tmp_path / "request.json", record | more)
    assert IndexRequest.load(tmp_path) == IndexRequest((tmp_path,), "hashing", True)


@pytest.mark.parametrize(
    "wrong", [{"model": 3}, {"roots": "x"}, {"follows": "all"}, {"trust": {"/a": "odd"}}]
)
def test_a_request_of_another_form_is_none(tmp_path, wrong):
    record = {"roots": [str(tmp_path)], "model": "hashing", "with_body": True}
    write_record(tmp_path / "request.json", record | wrong)
    assert IndexRequest.load(tmp_path) is None
    with pytest.raises(ConfigError, match=r"Another version .* rm -r"):
        require_readable(tmp_path)


def test_a_request_that_is_missing_or_damaged_may_be_made_anew(tmp_path):
    require_readable(tmp_path)
    (tmp_path / "request.json").write_bytes(b"damaged")
    require_readable(tmp_path)
