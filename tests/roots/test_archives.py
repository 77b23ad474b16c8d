"""Archives of every kind are unpacked, and hostile ones refused without a trace."""

import bz2
import copy
import gzip
import io
import lzma
import random
import stat
import struct
import tarfile
import tempfile
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillsearch.errors import RootError
from skillsearch.roots.archives import archive_kind, extract
from skillsearch.roots.unpacking import UnpackLimits

KINDS = [f"skills.{end}" for end in ("zip", "tar", "tar.gz", "tgz", "tar.bz2", "tar.xz")]
FILES = {
    "top/tea/SKILL.md": b"tea\n" * 20_000,
    "top/tea/" + "long/" * 15 + "name-" * 12 + ".md": b"",
    "top/茶/SKILL.md": b"\0\xff",
}
SMALL = UnpackLimits(members=50, file_bytes=100_000, total_bytes=200_000)


def refused(archive, limits=SMALL):
    """Return the message that refuses an archive, of which nothing may be left."""
    into = archive.parent / "unpacked"
    before = set(archive.parent.iterdir())
    with pytest.raises(RootError) as caught:
        extract(archive, into, limits)
    assert set(archive.parent.iterdir()) == before
    message = str(caught.value)
    assert str(archive) in message
    assert "Nothing was unpacked" in message
    return message


def tar_info(name, **fields):
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def tar_header(name="a", **fields):
    return tar_info(name, **fields).tobuf(tarfile.GNU_FORMAT)


@pytest.fixture
def write(tmp_path):
    def run(data, name="skills.tar"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return run


@pytest.mark.parametrize("name", KINDS[:2])
def test_the_right_to_run_is_kept_and_no_more(pack, tmp_path, name):
    extract(pack(name, {"run.sh": b"#!/bin/sh\n"}, mode=0o6777), tmp_path / "into")
    assert stat.S_IMODE((tmp_path / "into" / "run.sh").stat().st_mode) == 0o755


@pytest.mark.parametrize("name", KINDS)
def test_what_an_archive_is_shows_from_its_bytes(pack, tmp_path, name, contents):
    archive = pack(name, FILES).rename(tmp_path / "download")
    extract(archive, tmp_path / "into")
    assert contents(tmp_path / "into") == FILES


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_form_of_tar_is_read(tmp_path, form, contents):
    with tarfile.open(tmp_path / "a.tar", "w", format=form, pax_headers={"comment": "c"}) as tar:
        tar.addfile(tar_info("./top/", type=tarfile.DIRTYPE))
        tar.addfile(tar_info("./top/" + "n" * 99, size=3), io.BytesIO(b"abc"))
    extract(tmp_path / "a.tar", tmp_path / "into")
    assert contents(tmp_path / "into") == {"top/" + "n" * 99: b"abc"}


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_several_compressed_streams_are_one_file(pack, write, tmp_path, compress, contents):
    data = pack("plain.tar", FILES).read_bytes()
    middle = len(data) // 2
    joined = compress(data[:middle]) + compress(data[middle:]) + b"\0" * 1024
    extract(write(joined), tmp_path / "into")
    assert contents(tmp_path / "into") == FILES


@pytest.mark.parametrize("head", [b"", b"PK", b"---\nname: x\n", b"\0" * 512, b"<html>" * 100])
def test_what_is_no_archive_is_told(write, head):
    assert archive_kind(head) == ""
    assert "was refused: it is not one of .tar.gz" in refused(write(head))


@pytest.mark.parametrize("name", KINDS[:2])
@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"../evil": b"x"}, "the member '../evil' climbs"),
        ({"a": b"x", "a/b": b"y"}, "the member 'a/b' makes 'a' both a file and a folder"),
        ({"big": b"0" * 100_001}, "the member 'big' is larger than 100,000 bytes"),
        ({c: b"0" * 90_000 for c in "abc"}, "the member 'c' brings all files to over 200,000"),
        ({str(number): b"" for number in range(51)}, "50 members"),
    ],
)
def test_an_archive_of_nothing_else_or_of_too_much_is_refused(pack, name, files, reason):
    assert reason in refused(pack(name, files))


LEFT_OUT = {
    "../evil": "climbs with '..'",
    "top/../../evil": "climbs with '..'",
    "/abs": "is absolute",
    "a:b": "has a colon in its name",
    "a\x1bb": "has hidden or undecodable characters in its name",
    "TOP/tea/SKILL.md": "differs from 'top' only in case or accents",
}


@pytest.mark.parametrize("name", KINDS[:2])
def test_members_that_lead_elsewhere_are_left_out_and_told(pack, tmp_path, name, contents):
    base = tmp_path / "base"
    base.mkdir()
    bad = dict.fromkeys(LEFT_OUT, b"x")
    reports = extract(pack(name, FILES | bad), base / "into")
    assert contents(base / "into") == FILES
    assert list(base.iterdir()) == [base / "into"]
    for report, reason in zip(reports, LEFT_OUT.values(), strict=True):
        assert report.endswith(reason)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}, "is a link"),
        ({"type": tarfile.LNKTYPE, "linkname": "good"}, "is a link"),
        ({"type": tarfile.FIFOTYPE}, "is neither a regular file nor a folder"),
        ({"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5}, "is neither"),
        ({"type": tarfile.BLKTYPE}, "is neither"),
        ({"type": b"D"}, "is neither"),
        ({"type": tarfile.GNUTYPE_SPARSE}, "is a sparse file"),
    ],
)
def test_what_is_neither_file_nor_folder_is_left_out_of_a_tar(tmp_path, fields, reason, contents):
    with tarfile.open(tmp_path / "skills.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("good"))
        tar.addfile(tar_info("bad", **fields))
        tar.addfile(tar_info("bad/last", size=4), io.BytesIO(b"last"))
    (report,) = extract(tmp_path / "skills.tar.gz", tmp_path / "into")
    assert report.startswith(f"'bad' {reason}")
    assert contents(tmp_path / "into") == {"good": b"", "bad/last": b"last"}


def test_names_of_what_is_left_out_take_no_memory(tmp_path):
    with tarfile.open(tmp_path / "skills.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("good"))
        for number in range(500):
            tar.addfile(tarfile.TarInfo(f"{number:03}\U0001f375" + "n" * 15_000))
    tracemalloc.start()
    try:
        reports = extract(tmp_path / "skills.tar.gz", tmp_path / "into")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(reports) == 500
    assert peak < 6_000_000  # all names take 30 MB


def test_a_bomb_that_is_left_out_counts(write):
    bomb = tar_header("bomb", type=tarfile.SYMTYPE, linkname="a") + b"\0" * 3_000_000
    path = write(gzip.compress(tar_header("good") + bomb), "skills.tgz")
    assert "unpacks to more than 302,400 bytes" in refused(path)
    links = b"".join(tar_header(f"l{n}", type=tarfile.SYMTYPE, linkname="a") for n in range(51))
    assert "is beyond 50 members" in refused(write(tar_header("good") + links + b"\0" * 1024))


def test_what_cannot_be_read_of_a_zip_is_left_out(tmp_path, contents):
    with zipfile.ZipFile(tmp_path / "skills.zip", "w") as archive:
        archive.writestr("top/AGENTS.md", "rules")
        link = zipfile.ZipInfo("top/CLAUDE.md")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "AGENTS.md")
        archive.writestr("top/odd", "1" * 1000, zipfile.ZIP_LZMA)
    reports = extract(tmp_path / "skills.zip", tmp_path / "into")
    assert reports == (
        "'top/CLAUDE.md' is a link",
        "'top/odd' is compressed with method 14; use deflate",
    )
    assert contents(tmp_path / "into") == {"top/AGENTS.md": b"rules"}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (stat.S_IFLNK, "is a link"),
        (stat.S_IFIFO, "is neither a regular file nor a folder"),
        (stat.S_IFCHR, "is neither a regular file nor a folder"),
        (stat.S_IFDIR, "is neither a regular file nor a folder"),
    ],
)
def test_what_is_neither_file_nor_folder_refuses_a_zip(tmp_path, kind, reason):
    with zipfile.ZipFile(tmp_path / "skills.zip", "w") as archive:
        info = zipfile.ZipInfo("bad")
        info.external_attr = (kind | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    assert f"the member 'bad' {reason}" in refused(tmp_path / "skills.zip")


def test_a_zip_entry_named_twice_is_refused(tmp_path):
    """The second of them could hide behind the first."""
    with zipfile.ZipFile(tmp_path / "skills.zip", "w") as archive:
        archive.writestr("a", "1")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a", "2")
    assert "the member 'a' occurs twice" in refused(tmp_path / "skills.zip")


def test_a_zip_folder_with_content_is_refused(tmp_path):
    """Some readers would write it as a file."""
    with zipfile.ZipFile(tmp_path / "skills.zip", "w") as archive:
        archive.writestr("a/", "content")
    assert "the member 'a/' is a folder that has content" in refused(tmp_path / "skills.zip")


def test_an_encrypted_zip_is_refused(pack):
    path = pack("skills.zip", {"secret": b"x"})
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    path.write_bytes(data)
    assert "the member 'secret' is encrypted" in refused(path)


def test_a_nul_in_a_zip_name_is_seen(pack):
    """Libraries end the name there, and others do not."""
    path = pack("skills.zip", {"aXb": b"x"})
    path.write_bytes(path.read_bytes().replace(b"aXb", b"a\0b"))
    assert "hidden or undecodable" in refused(path)


def test_zip_entries_that_share_their_bytes_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "skills.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"0" * 90_000)
        archive.writestr("b", b"0")
        twin = copy.copy(archive.filelist[0])
        twin.filename = "c"
        archive.filelist.append(twin)
    assert "overlaps the entry after it" in refused(tmp_path / "skills.zip")


@pytest.mark.parametrize("declared", [0, 10, 2**31])
def test_a_zip_that_lies_about_a_size_gains_nothing(pack, declared, tmp_path):
    """Bytes are counted as they come: the file is refused, or what it says does not matter."""
    path = pack("skills.zip", {"a": b"0" * 150_000})
    real = struct.pack("<L", 150_000)
    path.write_bytes(path.read_bytes().replace(real, struct.pack("<L", declared)))
    message = refused(path)
    assert "is damaged" in message or "is larger than 100,000 bytes" in message


def test_a_zip64_that_lies_about_a_size_gains_nothing(tmp_path):
    """The sizes of its extra field are as little believed."""
    path = tmp_path / "skills.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("a", "w", force_zip64=True) as file:
            file.write(b"0" * 150_000)
        archive.filelist[0].extra = struct.pack("<HHQ", 1, 8, 7)
        archive.filelist[0].file_size = 0xFFFFFFFF - 1
    message = refused(path)
    assert "is damaged" in message or "is larger than 100,000 bytes" in message


def test_a_directory_of_a_zip_that_takes_much_memory_is_not_read(write):
    """It is only as large as it says, and that is looked at first."""
    size = 9 << 20
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, size, 4, 0)
    path = write(b"PK\x03\x04" + b"\0" * size + end, "skills.zip")
    assert "has a directory of over 8,388,608 bytes" in refused(path)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_bomb_is_refused_while_it_unpacks(write, compress):
    bomb = tar_header("bomb", size=3_000_000) + b"\0" * 3_000_000
    path = write(compress(bomb), "skills.tgz")
    assert path.stat().st_size < 6_000
    assert "the member 'bomb' is larger than 100,000 bytes" in refused(path)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_bomb_behind_the_end_of_a_tar_is_refused(pack, write, compress):
    """Data there is unpacked to check the sum, and counted too."""
    data = pack("plain.tar", {"a": b"x"}).read_bytes()
    path = write(compress(data + b"\0" * 3_000_000), "skills.tgz")
    assert "unpacks to more than 302,400 bytes" in refused(path)


def test_many_empty_streams_are_refused(write):
    assert "more than 10,000 compressed streams" in refused(write(gzip.compress(b"") * 10_001))


def test_an_xz_that_wants_much_memory_is_refused(write):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]
    data = bytearray(lzma.compress(tar_header() + b"\0" * 1024, filters=filters))
    # The dictionary's size is a byte in the block header, whose checksum follows it.
    offset = data.index(bytes([0x21, 0x01])) + 2
    data[offset] = 38  # 2 GiB
    start, length = 12, (data[12] + 1) * 4
    crc = zlib.crc32(bytes(data[start : start + length - 4]))
    data[start + length - 4 : start + length] = struct.pack("<L", crc)
    assert "is damaged (Memory usage limit" in refused(write(bytes(data)))


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
@pytest.mark.parametrize("size", [16_385, 8 << 30, -512])
def test_a_header_of_a_huge_size_is_not_read(write, kind, size):
    """Long names and pax records are read into memory, so only small ones are."""
    data = tar_header("././@LongLink", type=kind, size=size) + b"\0" * 40_000
    assert "has a header of improper size" in refused(write(data))


def test_headers_without_end_are_refused(write):
    link = tar_header("././@LongLink", type=b"L", size=512) + b"a" * 512
    assert "has a header of improper size" in refused(write(link * 100 + tar_header()))


def test_a_sparse_map_without_end_is_refused(write):
    head = bytearray(tar_header("sparse", type=tarfile.GNUTYPE_SPARSE))
    head[482] = 1
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    more = (b"%011o " % 1) * 42 + b"\1" + b"\0" * 7
    data = bytes(head) + more * 10_000
    assert "has a header of improper size" in refused(write(data))


@pytest.mark.parametrize(
    ("fields", "data", "reason"),
    [
        ({"type": tarfile.DIRTYPE}, b"\0" * 512, "the member 'bad' is a folder that has content"),
        ({"pax_headers": {"GNU.sparse.map": "0,1,9,1"}}, b"ab", "is a sparse file"),
        ({"pax_headers": {"path": "../evil"}}, b"", "the member '../evil' climbs"),
    ],
    ids=["folder with content", "sparse file of pax", "name of pax"],
)
def test_a_member_that_readers_take_for_different_ones_is_refused(tmp_path, fields, data, reason):
    """They disagree on where the next member begins, how large it is, and what it is called."""
    with tarfile.open(tmp_path / "skills.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(tar_info("bad", size=len(data), **fields), io.BytesIO(data))
    assert reason in refused(tmp_path / "skills.tar")


@pytest.mark.parametrize("size", [-1, -512, -(1 << 40)])
def test_a_member_of_negative_size_is_refused(write, size):
    assert "has a negative size" in refused(write(tar_header(size=size) + b"\0" * 1024))


@pytest.mark.parametrize("name", [*KINDS[:2], *KINDS[4:]])
def test_an_archive_that_is_cut_off_is_refused(pack, name):
    path = pack(name, {**FILES, "noise": random.Random(0).randbytes(50_000)})
    data = path.read_bytes()
    for part in range(1, 10):
        path.write_bytes(data[: len(data) * part // 12])
        refused(path, UnpackLimits())


def test_a_damaged_header_is_not_taken_for_the_end(pack):
    path = pack("skills.tar", {"a": b"x", "b": b"y"})
    data = bytearray(path.read_bytes())
    data[1024:1030] = b"\xff" * 6
    path.write_bytes(data)
    assert "is damaged (a header is truncated or invalid)" in refused(path)


@pytest.mark.parametrize("name", [*KINDS[:2], *KINDS[4:]])
@settings(max_examples=40)
@given(data=st.data())
def test_whatever_the_bytes_an_archive_is_unpacked_or_refused(name, data):
    with tempfile.TemporaryDirectory() as base:
        path = Path(base, name)
        if name.endswith(".zip"):
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("a/SKILL.md", b"tea " * 30)
                archive.writestr("b", b"")
        else:
            mode = name.rpartition(".")[2]
            with tarfile.open(path, "w" if mode == "tar" else f"w:{mode}") as tar:
                info = tar_info("a/SKILL.md" + "x" * 100, size=120)
                tar.addfile(info, io.BytesIO(b"tea " * 30))
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            offset = data.draw(st.integers(0, min(len(content), 2600) - 1))
            content[offset] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        try:
            extract(path, Path(base, "into"), SMALL)
        except RootError:
            assert not Path(base, "into").exists()


def test_backslashes_in_a_zip_part_folders(pack, tmp_path, contents):
    """Windows writes them; the same names as ever are refused."""
    extract(pack("skills.zip", {"tea\\SKILL.md": b"x", "tea\\docs/a.md": b"y"}), tmp_path / "into")
    assert contents(tmp_path / "into") == {"tea/SKILL.md": b"x", "tea/docs/a.md": b"y"}
    for names in (["..\\evil"], ["a\\..\\..\\evil"], ["\\abs"], ["C:\\evil"], ["a/b", "a\\b"]):
        assert repr(names[-1].replace("\\", "/")) in refused(
            pack("skills.zip", dict.fromkeys(names, b""))
        )
