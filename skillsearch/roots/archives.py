"""Unpack zip and tar archives from strangers.

Headers are never trusted: sizes are counted as bytes arrive, and compressed data is expanded in
bounded pieces. A member that cannot be written as it is, such as a link or a path that leads
elsewhere, is left out and reported; what costs too much or is ambiguous refuses the archive.
"""

from __future__ import annotations

import bz2
import errno
import io
import lzma
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

from skillsearch.errors import RootError
from skillsearch.files.paths import first_of, printable
from skillsearch.roots.sources import SUFFIXES
from skillsearch.roots.unpacking import (
    LIMITS,
    Member,
    RefusedMemberError,
    UnpackLimits,
    refuse_if,
    write_members,
)
from skillsearch.text.safe_text import one_line

MAX_STREAMS = 10_000
"""Concatenated compressed streams in one file; each takes time, even an empty one."""
MAX_HEADER_READ = 1 << 14
"""Bytes that one read of a tar header may ask for, such as a long name or a pax record."""
MAX_HEADER_BYTES = 1 << 16
"""Bytes of all headers of one tar member."""
_BLOCK = 1 << 16
_MAX_DIRECTORY = 8 << 20
"""Bytes of a zip's directory, which is read whole before its entries can be counted."""
_LOCAL_HEADER = struct.Struct("<26x2H")
"""Lengths of name and extra field in the header before a zip entry's data."""
_TAR_OVERHEAD = 2048
"""Average bytes of headers and padding for each member of a tar."""
_XZ_MEMORY = 128 << 20
"""Twice what the highest level of xz needs."""
_MAGIC = dict.fromkeys((b"PK\x03\x04", b"PK\x05\x06"), "zip")
_MAGIC |= {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\0": "xz"}
_DAMAGES = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, LookupError, NotImplementedError, RuntimeError, ValueError, OverflowError),
)
"""Errors that the libraries raise for damaged archives."""


def archive_kind(head: bytes) -> str:
    """Return ``zip``, ``tar``, or ``gz``, ``bz2``, ``xz`` of a compressed tar; empty for others."""
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    with suppress(tarfile.TarError, ValueError):
        tarfile.TarInfo.frombuf(head[:512], "utf-8", "surrogateescape")
        return "tar"
    return ""


def extract(
    archive: Path, into: Path, limits: UnpackLimits = LIMITS, *, name: str = ""
) -> tuple[str, ...]:
    """Unpack an archive into a new folder, which is removed again if that fails.

    Return a line about each member that was left out.

    The parent of `into` must be ours alone; `name` names the archive in messages. Files keep their
    permissions within ``rwxr-xr-x``, but neither set-user-id nor their times. An archive that is
    damaged or refused raises `RootError`.
    """
    shown = name or printable(archive)
    into.mkdir(mode=0o700)
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, into, ignore_errors=True)
        try:
            with archive.open("rb", buffering=0) as raw, _BoundedReader(raw) as file:
                kind = archive_kind(file.read(512))
                file.seek(0)
                refuse_if("", {f"is not one of {', '.join(SUFFIXES)}": not kind})
                is_zip = kind == "zip"
                members = _zip_members(file, limits) if is_zip else _tar_members(file, kind, limits)
                left_out = write_members(members, into, limits)
        except RefusedMemberError as exc:
            subject = f"the member {one_line(exc.member, 200)!r}" if exc.member else "it"
            raise RootError(
                f"The archive {shown} was refused: {subject} {exc.reason}. Nothing was unpacked;"
                " fix the archive, or unpack it yourself and name the folder."
            ) from exc
        except (OSError, *_DAMAGES) as exc:
            # A bad seek raises EINVAL; damaged bz2 raises an OSError without a number.
            if not isinstance(exc, _DAMAGES) and exc.errno not in (errno.EINVAL, None):
                raise
            reason = one_line(str(exc), 200) or "unknown reason"
            raise RootError(
                f"The archive {shown} is damaged ({reason}). Nothing was unpacked;"
                " download it again."
            ) from exc
        undo.pop_all()
    return left_out


class _BoundedReader(io.BufferedReader):
    """A file that refuses large reads: a zip's directory may claim any size."""

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = _MAX_DIRECTORY + 1 if size is None or size < 0 else size
        data = super().read(wanted) if wanted <= _MAX_DIRECTORY + 1 else None
        if data is None or len(data) > _MAX_DIRECTORY:
            raise RefusedMemberError("", f"has a directory of over {_MAX_DIRECTORY:,} bytes")
        return data


def _zip_members(file: BinaryIO, limits: UnpackLimits) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        refuse_if("", {f"has more than {limits.members:,} members": len(entries) > limits.members})
        _refuse_overlaps(file, entries, archive.start_dir)
        for entry in entries:
            # zipfile cuts a name at a NUL; other readers do not.
            name = entry.orig_filename if "\0" in entry.orig_filename else entry.filename
            name = name.replace("\\", "/")  # the format knows slashes alone, Windows writes both
            mode = entry.external_attr >> 16
            is_folder = name.endswith("/")
            kind, method = stat.S_IFMT(mode), entry.compress_type
            is_plain = kind in (0, stat.S_IFREG) or (kind == stat.S_IFDIR and is_folder)
            is_usual = method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            refusals = {
                "is encrypted": entry.flag_bits & 0x2041,
                "is a link": kind == stat.S_IFLNK,
                "is neither a regular file nor a folder": not is_plain,
                f"is compressed with method {method}; use deflate": not is_usual,
                "is a folder that has content": is_folder and entry.file_size,
            }
            content = _zip_content(archive, entry)
            yield Member(name, is_folder, mode or 0o644, content, first_of(refusals))


def _refuse_overlaps(file: BinaryIO, entries: Sequence[zipfile.ZipInfo], end: int) -> None:
    """Refuse entries that share bytes, which let a small zip expand to a huge one."""
    next_start = end
    for entry in sorted(entries, key=lambda entry: entry.header_offset, reverse=True):
        file.seek(entry.header_offset)
        lengths = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        size = _LOCAL_HEADER.size + sum(lengths) + entry.compress_size
        does_overlap = entry.header_offset + size > next_start
        refuse_if(entry.filename, {"overlaps the entry after it": does_overlap})
        next_start = entry.header_offset


def _zip_content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(entry) as file:
        yield from iter(lambda: file.read(_BLOCK), b"")


def _tar_members(file: BinaryIO, kind: str, limits: UnpackLimits) -> Iterator[Member]:
    max_bytes = limits.total_bytes + limits.members * _TAR_OVERHEAD
    blocks = iter(lambda: file.read(_BLOCK), b"") if kind == "tar" else _decompressed(file, kind)
    stream = _TarStream(blocks, max_bytes)
    with tarfile.TarFile(fileobj=stream) as archive:  # type: ignore[arg-type]  # only reads
        while entry := archive.next():
            is_sparse = entry.issparse() or entry.type == tarfile.GNUTYPE_SPARSE
            is_plain = entry.isdir() or entry.type in (tarfile.REGTYPE, tarfile.AREGTYPE)
            refusals = {
                "is a link": entry.issym() or entry.islnk(),
                "is a sparse file; pack it without --sparse": is_sparse,
                "is neither a regular file nor a folder": not is_plain,
            }
            ambiguous = {
                "has a negative size": entry.size < 0,
                "is a folder that has content": entry.isdir() and entry.size,
            }
            refuse_if(entry.name, ambiguous)
            content = _tar_content(stream, entry.size)
            yield Member(entry.name, entry.isdir(), entry.mode, content, first_of(refusals))
            stream.header_bytes = 0
            archive.members.clear()  # type: ignore[attr-defined]  # it would hold all names
    if stream.last_header.strip(b"\0") or len(stream.last_header) not in (0, 512):
        raise EOFError("a header is truncated or invalid")
    for _ in stream.data(max_bytes):  # the checksum of a compressed file is at its end
        pass


def _tar_content(stream: _TarStream, size: int) -> Iterator[bytes]:
    end = stream.tell() + size
    yield from stream.data(size)
    if stream.tell() != end:
        raise EOFError("a file is truncated")


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gz": lambda: zlib.decompressobj(wbits=31),
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY),
}


def _decompressed(file: BinaryIO, kind: str) -> Iterator[bytes]:
    """Yield the content of concatenated streams, in bounded pieces."""
    data = file.read(_BLOCK)
    for _ in range(MAX_STREAMS):
        stream = _DECOMPRESSORS[kind]()
        while not stream.eof:
            out = stream.decompress(data, _BLOCK)
            data = getattr(stream, "unconsumed_tail", b"")  # of zlib; the others keep it
            if out:
                yield out
            elif not (data or stream.eof or (data := file.read(_BLOCK))):
                raise EOFError("the file ends too early")
        data = stream.unused_data
        while data and not (data := data.lstrip(b"\0")):  # files may be padded
            data = file.read(_BLOCK)
        data = data or file.read(_BLOCK)
        if not data:
            return
    raise RefusedMemberError("", f"has more than {MAX_STREAMS:,} compressed streams")


class _TarStream:
    """A tar file as `tarfile` reads it, forward only and with limits on what headers may hold."""

    def __init__(self, source: Iterator[bytes], max_bytes: int) -> None:
        self._source, self._max_bytes = source, max_bytes
        self._block = memoryview(b"")
        self._position = 0
        self.last_header = b""
        self.header_bytes = 0

    def read(self, size: int = -1) -> bytes:
        """Read a piece of a header."""
        self.header_bytes += size
        if not 0 <= size <= MAX_HEADER_READ or self.header_bytes > MAX_HEADER_BYTES:
            raise RefusedMemberError("", "has a header of improper size")
        self.last_header = b"".join(self.data(size))
        return self.last_header

    def tell(self) -> int:
        return self._position

    def seek(self, position: int, whence: int = 0) -> int:
        is_back = whence or position < self._position
        refuse_if("", {"has a member that points back to an earlier one": is_back})
        for _ in self.data(position - self._position):
            pass
        return self._position

    def data(self, size: int) -> Iterator[bytes]:
        """Yield the next bytes; fewer at the end."""
        while size > 0:
            if not self._block:
                self._block = memoryview(next(self._source, b""))
            if not self._block:
                return
            piece, self._block = self._block[:size], self._block[size:]
            self._position += len(piece)
            if self._position > self._max_bytes:
                raise RefusedMemberError("", f"unpacks to more than {self._max_bytes:,} bytes")
            size -= len(piece)
            yield bytes(piece)
