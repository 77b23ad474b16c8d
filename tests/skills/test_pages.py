"""Tests of files that are read page by page."""

import base64
import hashlib
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from skillsearch.errors import SkillError
from skillsearch.skills.resources import read_page
from skillsearch.types.skills import FileContent

GUIDE = "references/guide.md"


@pytest.fixture
def read(skill_dir):
    def read(data, **options):
        (skill_dir / GUIDE).write_bytes(data)
        return read_page(skill_dir, GUIDE, **options)

    return read


def test_without_limits_the_page_is_the_whole_file(read):
    data = "Grüner Tee\n".encode()
    assert read(data) == FileContent(
        path=GUIDE,
        content="Grüner Tee\n",
        encoding="text",
        offset=0,
        next_offset=None,
        size=12,
        content_hash=hashlib.sha256(data).hexdigest(),
        stale=False,
    )


def test_the_path_is_told_in_plain_form_and_in_utf8(skill_dir):
    assert read_page(skill_dir, "./references%2F/guide.md").path == GUIDE
    (skill_dir / "caf\udce9.md").write_bytes(b"tea")
    assert read_page(skill_dir, "caf%e9.md").path == "caf\\udce9.md"


@pytest.mark.parametrize(
    "data", [b"\xff", b"tea\0", b"\xed\xa0\x80", b"\xc0\xaf", b"tea \xc3"], ids=repr
)
def test_what_is_no_utf8_or_holds_nul_is_base64(read, data):
    """The whole file decides, so that all its pages agree."""
    page = read(data)
    assert page.encoding == "base64"
    assert base64.b64decode(page.content) == data
    assert read(data, limit=1).encoding == "base64"


def test_a_byte_order_mark_is_not_shown(read):
    """It is part of the first page's bytes, not of its text; elsewhere the character stays."""
    data = "\ufefftea\ufeff".encode()
    assert read(data).content == "tea\ufeff"
    assert read(data).size == 9
    assert read(data, offset=6).content == "\ufeff"


def bounds(page):
    """Return the text of a page, its offset, and the offset of the next."""
    return page.content, page.offset, page.next_offset


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        (0, 1, ("a", 0, 1)),
        (0, 2, ("a", 0, 1)),
        (0, 3, ("aé", 0, 3)),
        (1, 1, ("é", 1, 3)),
        (2, 1, ("é", 1, 3)),
        (2, 3, ("é", 1, 3)),
        (6, 1, ("🫖", 3, 7)),
        (6, 4, ("🫖", 3, 7)),
        (6, 5, ("🫖z", 3, None)),
        (7, 9, ("z", 7, None)),
        (3, None, ("🫖z", 3, None)),
        (8, 1, ("", 8, None)),
        (10**30, 10**30, ("", 8, None)),
    ],
)
def test_a_page_of_text_is_cut_between_characters(read, offset, limit, expected):
    assert bounds(read("aé🫖z".encode(), offset=offset, limit=limit)) == expected


def test_a_page_of_bytes_is_cut_where_it_was_asked_for(read):
    page = read(b"\x00\x80\x80\x80", offset=2, limit=1)
    assert bounds(page) == (base64.b64encode(b"\x80").decode(), 2, 3)
    page = read(b"", limit=1)
    assert (*bounds(page), page.encoding) == ("", 0, None, "text")


@pytest.mark.parametrize("whole", [np.int64, np.uint8])
def test_whole_numbers_of_numpy_are_numbers_too(read, whole):
    page = read(b"water", offset=whole(1), limit=whole(2))
    assert (page.content, page.offset, page.next_offset) == ("at", 1, 3)
    assert json.dumps(page.to_dict())


NUMBERS = [-1, True, 1.0, "1", float("nan"), "x" * 1000]


@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: repr(value)[:9])
def test_what_is_no_such_number_is_refused(skill_dir, value):
    """A page of no bytes would never end."""
    for offset in (value, None):
        with pytest.raises(SkillError, match=r"^offset is .{1,50}; give a whole number of bytes"):
            read_page(skill_dir, GUIDE, offset=offset)
    for limit in (value, 0, False):
        with pytest.raises(SkillError, match=r"^limit is .{1,50}; .* at least 1\.$"):
            read_page(skill_dir, GUIDE, limit=limit)


def test_a_file_that_changed_is_served_and_marked(read):
    content_hash = read(b"steep").content_hash
    assert not read(b"steep", content_hash=content_hash, offset=3).stale
    page = read(b"steep longer", content_hash=content_hash)
    digest = hashlib.sha256(b"steep longer").hexdigest()
    assert (page.stale, page.content, page.content_hash) == (True, "steep longer", digest)


TEXTS = st.text(st.sampled_from("aé技🫖\n\ufeff"), max_size=30).map(str.encode)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(TEXTS, st.binary(max_size=40)), limits=st.lists(st.integers(1, 9)))
@example(data="\ufeffé".encode(), limits=[1])
@example(data=b"\x80\0" * 9, limits=[2, 5])
def test_pages_add_up_to_the_file(read, data, limits):
    whole, offset, pages = read(data), 0, []
    while offset is not None:
        limit = limits[len(pages)] if len(pages) < len(limits) else None
        page = read(data, offset=offset, limit=limit)
        end = page.size if page.next_offset is None else page.next_offset
        assert page.offset == offset
        assert end > offset or not data
        assert limit is None or end - offset <= limit or len(data[offset:end].decode()) == 1
        pages.append(page)
        offset = page.next_offset
    if whole.encoding == "text":
        assert "".join(page.content for page in pages) == data.decode("utf-8-sig") == whole.content
    else:
        assert b"".join(base64.b64decode(page.content) for page in pages) == data


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=TEXTS, offset=st.integers(0, 130), limit=st.integers(1, 9))
def test_any_page_of_text_is_what_lies_between_its_offsets(read, data, offset, limit):
    page = read(data, offset=offset, limit=limit)
    end = page.size if page.next_offset is None else page.next_offset
    shown = data[page.offset : end].decode()
    assert page.content == (shown if page.offset else shown.removeprefix("\ufeff"))
    if offset < len(data):
        assert offset - 4 < page.offset <= offset < end
    else:
        assert page.offset == end == len(data)
