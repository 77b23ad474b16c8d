"""Tests of media types."""

import gzip
import io
import json
import mimetypes
import struct
import tarfile
import wave
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.files.media_types import HEAD_BYTES, is_text, media_type, type_of_name


def zipped():
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.txt", "a")
    return archive.getvalue()


def tarred():
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        file.addfile(tarfile.TarInfo("a.txt"))
    return archive.getvalue()


def recorded():
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(b"\0\0")
    return sound.getvalue()


CONTENTS = {
    "image/png": b"\x89PNG\r\n\x1a\n" + struct.pack(">I4s", 13, b"IHDR"),
    "image/jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF\0",
    "image/gif": b"GIF89a\1\0\1\0",
    "image/webp": b"RIFF\x1a\0\0\0WEBPVP8L",
    "image/tiff": b"II*\0\x08\0\0\0",
    "application/pdf": b"%PDF-1.7\n%\xe2\xe3",
    "application/zip": zipped(),
    "application/gzip": gzip.compress(b"a", mtime=0),
    "application/x-tar": tarred(),
    "audio/wav": recorded(),
    "video/mp4": b"\0\0\0\x18ftypmp42\0\0\0\0",
    "application/vnd.sqlite3": b"SQLite format 3\0\x10\0",
    "image/svg+xml": b'<?xml version="1.0"?>\n<!-- a chart --><svg xmlns="http://www.w3.org/2000/svg">',
    "text/html": b"\xef\xbb\xbf\n<!DOCTYPE html><html>",
    "application/xml": b'<?xml version="1.0"?><feed/>',
    "application/json": b' {"a": [1, 2]}\n',
    "text/plain": "Grüße aus Köln\n".encode(),
    "application/octet-stream": b"\x93\0\1\2",
}


@pytest.mark.parametrize(("expected", "head"), CONTENTS.items())
def test_content_says_what_a_file_without_a_name_is(expected, head):
    assert media_type("out/result", head) == expected


@pytest.mark.parametrize("name", ["out/a.txt", "out/a.csv", "out/a.html", "a.json", "a.PY"])
@pytest.mark.parametrize("expected", ["image/png", "application/pdf", "application/zip"])
def test_a_name_does_not_hide_a_binary_file(expected, name):
    assert media_type(name, CONTENTS[expected]) == expected


@pytest.mark.parametrize("name", ["a.png", "a.pdf", "a.zip", "a.exe", "a", "a.unknown"])
def test_a_name_does_not_make_text_a_binary_file(name):
    assert media_type(name, b"just words\n") == "text/plain"


NAMED = {
    "a.csv": "text/csv",
    "out/A.MD": "text/markdown",
    "a.json": "application/json",
    "a.tar.yaml": "application/yaml",
    "a.py": "text/x-python",
    "a.svg": "image/svg+xml",
    "a.toml": "application/toml",
    "a.txt": "text/plain",
    ".csv": "text/plain",
    "csv": "text/plain",
}


@pytest.mark.parametrize(("name", "expected"), NAMED.items())
def test_a_text_is_what_its_name_says(name, expected):
    assert media_type(name, b"a,b\n") == expected
    assert media_type(name, b"") == expected
    # Markdown may begin with HTML, and a table with a bracket.
    assert media_type("README.md", b"<html>") == "text/markdown"
    assert media_type("a.csv", b"[1]") == "text/csv"
    assert media_type("a.txt", b"<html>") == "text/html"


def test_formats_without_a_signature_of_their_own_are_told_by_name():
    assert media_type("a.parquet", b"PAR1\x15\0") == "application/vnd.apache.parquet"
    assert media_type("a.csv", b"a\0b") == "application/octet-stream"
    assert media_type("a.txt", b"\xff\xfea\0") == "application/octet-stream"
    name = "report.xlsx"
    assert media_type(name, zipped()).endswith("spreadsheetml.sheet")
    assert media_type(name, b"words") == "text/plain"
    assert media_type(name, b"\0\1") == "application/octet-stream"


@pytest.mark.parametrize("cut", range(1, 4))
def test_a_character_cut_at_the_end_of_the_head_leaves_it_text(cut):
    assert media_type("a", "x😀".encode()[: 1 + cut]) == "text/plain"


def test_json_that_goes_on_behind_the_head_is_told_by_its_beginning():
    data = json.dumps({"rows": list(range(5000))}).encode()
    assert media_type("a", data[:HEAD_BYTES]) == "application/json"
    assert media_type("a", data[: HEAD_BYTES - 1]) == "text/plain"
    assert media_type("a", b"[note] " * HEAD_BYTES) == "text/plain"


@pytest.mark.parametrize("text", ["<!-- -->" * 500, "<?xml " * 600, "<!--" * 1000, " <" * 2000])
@pytest.mark.timeout(120)
def test_hostile_markup_and_json_are_looked_at_fast(text):
    media_type("a", text[:HEAD_BYTES].encode())
    for head in (b"[" * HEAD_BYTES, b'{"a":' * 800, b"[1e999999]", b"{}" * 9):
        assert media_type("a", head) in {"application/json", "text/plain"}


@pytest.mark.parametrize(
    "ending", [".csv", ".html", ".css", ".json", ".xml", ".svg", ".js", ".tsv"]
)
def test_types_by_name_agree_with_the_standard_library(ending):
    expected = mimetypes.types_map[ending].replace("text/xml", "application/xml")
    assert media_type(f"a{ending}", b"a") in {expected, expected.replace("application", "text")}


@given(st.text(max_size=20), st.binary(max_size=40))
def test_every_file_has_a_type(name, head):
    named_type = media_type(name, head)
    assert named_type.count("/") == 1
    assert is_text(named_type, head) <= (b"\0" not in head)


TEXTS = ["text/plain", "text/x-anything", "application/json", "application/ld+json", "TEXT/CSV"]
TEXTS += ["text/html; charset=utf-8", "application/yaml", "application/toml", "image/svg+xml"]
TEXTS += ["text/javascript", "application/javascript", "application/sql"]


def test_what_is_utf8_of_a_textual_type_is_text():
    assert [kind for kind in TEXTS if not is_text(kind, "ä".encode())] == []
    for kind in ("image/png", "application/octet-stream", "application/pdf", ""):
        assert not is_text(kind, b"words")
    for data in (b"a\0b", b"\xff", "ä".encode()[:1], b"\xed\xa0\x80"):
        assert not is_text("text/plain", data)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("skill://r/tea/SKILL.md", "text/markdown"),
        ("a.PNG", "image/png"),
        ("a.jpg", "image/jpeg"),
        ("a.yml", "application/yaml"),
        ("a.zip", "application/zip"),
        ("a.bat", None),
        ("v1.2/LICENSE", None),
    ],
)
def test_a_name_alone_promises_a_type(name, expected):
    assert type_of_name(name) == expected
