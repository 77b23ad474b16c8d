"""Archives of skills, unpacked with distrust: zip, and tar with and without compression.

What a header says is never believed: sizes are counted as bytes come. Every file is written by
us and not by the libraries that read the archives. Nothing of an archive with a bad member stays.
"""

from __future__ import annotations

import errno
import io
import lzma
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from skillsearch.errors import RootError
from skillsearch.files.paths import printable
from skillsearch.roots.sources import SUFFIXES
from skillsearch.roots.streams import BLOCK, TarStream, blocks
from skillsearch.roots.unpacking import Member, RefusedMemberError, Unpacker, UnpackLimits
from skillsearch.text.safe_text import one_line

LIMITS = UnpackLimits()

_MAX_DIRECTORY = 8 << 20
"""Bytes of a zip's directory, which is read whole before its entries can be counted."""
_LOCAL_HEADER = struct.Struct("<26x2H")
"""Of the header before a zip entry's data: the lengths of its name and of its extra field."""
_TAR_OVERHEAD = 2048
"""Bytes of headers and padding that a member of a tar may have on average."""
_MAGIC = {
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"\x1f\x8b": "gz",
    b"BZh": "bz2",
    b"\xfd7zXZ\0": "xz",
}
_DAMAGES = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    ValueError,
    OverflowError,
)
"""What the libraries raise over bytes that are no archive."""


def archive_kind(head: bytes) -> str:
    """Tell an archive by how it begins.

    Args:
        head: Its first 512 bytes.

    Returns:
        ``zip``, ``tar``, or ``gz``, ``bz2`` or ``xz`` for what should hold a tar; empty for none.
    """
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    try:
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return ""
    return "tar"


def extract(archive: Path, into: Path, limits: UnpackLimits = LIMITS, *, name: str = "") -> None:
    """Unpack an archive into a new folder.

    Files keep their permissions within ``rwxr-xr-x``, without set-user-id; their times are those
    of the unpacking.

    Args:
        archive: The archive.
        into: The folder, which is made here; its parent is ours alone.
        limits: What the archive may come to.
        name: What messages call the archive; by default its path.

    Raises:
        RootError: When the archive is damaged or has a member that is refused; names it.
        OSError: When it cannot be read or written.
    """
    into.mkdir(mode=0o700)
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, into, ignore_errors=True)
        try:
            with archive.open("rb", buffering=0) as raw, _BoundedReader(raw) as file:
                _unpack(file, into, limits)
        except (OSError, RefusedMemberError, *_DAMAGES) as exc:
            if problem := _problem(exc):
                raise RootError(f"The archive {name or printable(archive)} is {problem}.") from exc
            raise
        undo.pop_all()


def _problem(error: BaseException) -> str:
    """Say what an error means for an archive; nothing where the archive is not at fault."""
    if isinstance(error, RefusedMemberError):
        whose = f"the member {one_line(error.member, 200)!r}" if error.member else "it"
        return (
            f"refused, for {whose} {error.reason}. Nothing of it was taken; mend it, or unpack it "
            "yourself and name the folder"
        )
    is_seek = isinstance(error, OSError) and error.errno == errno.EINVAL
    if is_seek or isinstance(error, _DAMAGES):
        reason = one_line(str(error), 200) or "no reason known"
        return f"damaged ({reason}). Nothing of it was taken; get it again"
    return ""


class _BoundedReader(io.BufferedReader):
    """A file of which nobody reads much at once: a zip's directory is only as large as it says."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read at most so many bytes, or all; to ask for too many is refused."""
        wanted = _MAX_DIRECTORY + 1 if size is None or size < 0 else size
        data = super().read(wanted) if wanted <= _MAX_DIRECTORY + 1 else None
        if data is None or len(data) > _MAX_DIRECTORY:
            raise RefusedMemberError("", f"has a directory of over {_MAX_DIRECTORY:,} bytes")
        return data


def _unpack(file: BinaryIO, into: Path, limits: UnpackLimits) -> None:
    """Write all members."""
    kind = archive_kind(file.read(512))
    file.seek(0)
    if not kind:
        raise RefusedMemberError("", f"is none of {', '.join(SUFFIXES)}")
    read = _zip_members(file, limits) if kind == "zip" else _tar_members(file, kind, limits)
    with Unpacker(into, limits) as unpacker:
        for member in read:
            unpacker.add(member)


def _zip_members(file: BinaryIO, limits: UnpackLimits) -> Iterator[Member]:
    """Yield the members of a zip."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if len(entries) > limits.members:
            raise RefusedMemberError("", f"has more than {limits.members:,} members")
        _refuse_overlaps(file, entries, archive.start_dir)
        for entry in entries:
            # The name ends at a NUL for zipfile, but not for us.
            name = entry.orig_filename if "\0" in entry.orig_filename else entry.filename
            is_folder = name.endswith("/")
            if reason := _zip_reason(entry, is_folder):
                raise RefusedMemberError(name, reason)
            mode = entry.external_attr >> 16 or 0o644
            yield Member(name, is_folder, mode, _zip_content(archive, entry))


def _zip_reason(entry: zipfile.ZipInfo, is_folder: bool) -> str:
    """Return what speaks against an entry of a zip, or nothing."""
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if entry.flag_bits & 0x2041:
        return "is encrypted"
    if kind == stat.S_IFLNK:
        return "is a link"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or (kind == stat.S_IFDIR and not is_folder):
        return "is neither a plain file nor a folder"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"is compressed by the method {entry.compress_type}; pack it by deflate"
    return "is a folder that has content" if is_folder and entry.file_size else ""


def _refuse_overlaps(file: BinaryIO, entries: Sequence[zipfile.ZipInfo], end: int) -> None:
    """Refuse entries that share bytes: so a small zip comes to be a large one."""
    previous = end
    for entry in sorted(entries, key=lambda entry: entry.header_offset, reverse=True):
        file.seek(entry.header_offset)
        lengths = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        data = entry.header_offset + _LOCAL_HEADER.size + sum(lengths)
        if data + entry.compress_size > previous:
            raise RefusedMemberError(entry.filename, "overlaps with what comes behind it")
        previous = entry.header_offset


def _zip_content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the content of an entry."""
    with archive.open(entry) as file:
        while block := file.read(BLOCK):
            yield block


def _tar_members(file: BinaryIO, kind: str, limits: UnpackLimits) -> Iterator[Member]:
    """Yield the members of a tar."""
    room = limits.total_bytes + limits.members * _TAR_OVERHEAD
    stream = TarStream(blocks(file, "" if kind == "tar" else kind), room)
    with tarfile.TarFile(fileobj=stream) as archive:  # type: ignore[arg-type]  # reads, no more
        while entry := archive.next():
            if reason := _tar_reason(entry):
                raise RefusedMemberError(entry.name, reason)
            yield Member(entry.name, entry.isdir(), entry.mode, _tar_content(stream, entry))
            stream.begin_header()
    if not stream.ended_well:
        raise EOFError("a header is cut off or no header")
    for _ in stream.data(room):  # the checksum of a compressed file stands at its end
        pass


def _tar_reason(entry: tarfile.TarInfo) -> str:
    """Return what speaks against an entry of a tar, or nothing."""
    if entry.issym() or entry.islnk():
        return "is a link"
    if entry.issparse() or entry.type == tarfile.GNUTYPE_SPARSE:
        return "is a sparse file; pack it without --sparse"
    if not entry.isdir() and entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        return "is neither a plain file nor a folder"
    if entry.size < 0:
        return "has a negative size"
    return "is a folder that has content" if entry.isdir() and entry.size else ""


def _tar_content(stream: TarStream, entry: tarfile.TarInfo) -> Iterator[bytes]:
    """Yield the content of an entry."""
    start = stream.tell()
    yield from stream.data(entry.size)
    if stream.tell() != start + entry.size:
        raise EOFError("a file is cut off")
