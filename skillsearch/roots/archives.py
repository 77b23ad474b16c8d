"""Unpack zip and tar archives from strangers.

Headers are never trusted: sizes are counted as bytes arrive, compressed data is expanded in bounded
pieces, and files are written by `Unpacker`, not by the libraries that read the archives. One bad
member refuses the whole archive. (`tarfile.data_filter` would not do: it strips a leading ``/`` and
follows links inside the archive, and both are refused here.)
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
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Protocol

from skillsearch.errors import RootError
from skillsearch.files.paths import printable
from skillsearch.roots.sources import SUFFIXES
from skillsearch.roots.unpacking import Member, RefusedMemberError, Unpacker, UnpackLimits
from skillsearch.text.safe_text import one_line

LIMITS = UnpackLimits()
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
"""Errors that the libraries raise for damaged archives."""


def archive_kind(head: bytes) -> str:
    """Recognise an archive by its first 512 bytes.

    Returns ``zip``, ``tar``, or ``gz``, ``bz2`` or ``xz`` for a compressed tar; empty for none.
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
    """Unpack an archive into a new folder, which is removed again if that fails.

    Files keep their permissions within ``rwxr-xr-x``, but neither set-user-id nor their times.

    Args:
        archive: The archive.
        into: The folder to make; its parent must be ours alone.
        limits: Limits on the archive.
        name: The archive's name in messages; by default its path.

    Raises:
        RootError: When the archive is damaged or refused.
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
                raise RootError(f"The archive {name or printable(archive)} {problem}.") from exc
            raise
        undo.pop_all()


def _problem(error: BaseException) -> str:
    """Describe an error of the archive; empty if the archive is not at fault."""
    if isinstance(error, RefusedMemberError):
        subject = f"the member {one_line(error.member, 200)!r}" if error.member else "it"
        return (
            f"was refused: {subject} {error.reason}. Nothing was unpacked; fix the archive, or "
            "unpack it yourself and name the folder"
        )
    is_bad_seek = isinstance(error, OSError) and error.errno == errno.EINVAL
    if is_bad_seek or isinstance(error, _DAMAGES):
        reason = one_line(str(error), 200) or "unknown reason"
        return f"is damaged ({reason}). Nothing was unpacked; download it again"
    return ""


class _BoundedReader(io.BufferedReader):
    """A file that refuses large reads: a zip's directory may claim any size."""

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = _MAX_DIRECTORY + 1 if size is None or size < 0 else size
        data = super().read(wanted) if wanted <= _MAX_DIRECTORY + 1 else None
        if data is None or len(data) > _MAX_DIRECTORY:
            raise RefusedMemberError("", f"has a directory of over {_MAX_DIRECTORY:,} bytes")
        return data


def _unpack(file: BinaryIO, into: Path, limits: UnpackLimits) -> None:
    kind = archive_kind(file.read(512))
    file.seek(0)
    if not kind:
        raise RefusedMemberError("", f"is not one of {', '.join(SUFFIXES)}")
    members = _zip_members(file, limits) if kind == "zip" else _tar_members(file, kind, limits)
    with Unpacker(into, limits) as unpacker:
        for member in members:
            unpacker.add(member)


def _zip_members(file: BinaryIO, limits: UnpackLimits) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if len(entries) > limits.members:
            raise RefusedMemberError("", f"has more than {limits.members:,} members")
        _refuse_overlaps(file, entries, archive.start_dir)
        for entry in entries:
            # zipfile cuts a name at a NUL; other readers do not.
            name = entry.orig_filename if "\0" in entry.orig_filename else entry.filename
            is_folder = name.endswith("/")
            if reason := _zip_refusal(entry, is_folder):
                raise RefusedMemberError(name, reason)
            mode = entry.external_attr >> 16 or 0o644
            yield Member(name, is_folder, mode, _zip_content(archive, entry))


def _zip_refusal(entry: zipfile.ZipInfo, is_folder: bool) -> str:
    """Return why an entry is refused, or an empty text."""
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if entry.flag_bits & 0x2041:
        return "is encrypted"
    if kind == stat.S_IFLNK:
        return "is a link"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or (kind == stat.S_IFDIR and not is_folder):
        return "is neither a regular file nor a folder"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"is compressed with method {entry.compress_type}; use deflate"
    return "is a folder that has content" if is_folder and entry.file_size else ""


def _refuse_overlaps(file: BinaryIO, entries: Sequence[zipfile.ZipInfo], end: int) -> None:
    """Refuse entries that share bytes, which let a small zip expand to a huge one."""
    next_start = end
    for entry in sorted(entries, key=lambda entry: entry.header_offset, reverse=True):
        file.seek(entry.header_offset)
        lengths = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        data = entry.header_offset + _LOCAL_HEADER.size + sum(lengths)
        if data + entry.compress_size > next_start:
            raise RefusedMemberError(entry.filename, "overlaps the entry after it")
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
            if reason := _tar_refusal(entry):
                raise RefusedMemberError(entry.name, reason)
            yield Member(entry.name, entry.isdir(), entry.mode, _tar_content(stream, entry))
            stream.header_bytes = 0
    if not stream.ended_well:
        raise EOFError("a header is truncated or invalid")
    for _ in stream.data(max_bytes):  # the checksum of a compressed file is at its end
        pass


def _tar_refusal(entry: tarfile.TarInfo) -> str:
    """Return why an entry is refused, or an empty text."""
    if entry.issym() or entry.islnk():
        return "is a link"
    if entry.issparse() or entry.type == tarfile.GNUTYPE_SPARSE:
        return "is a sparse file; pack it without --sparse"
    if not entry.isdir() and entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        return "is neither a regular file nor a folder"
    if entry.size < 0:
        return "has a negative size"
    return "is a folder that has content" if entry.isdir() and entry.size else ""


def _tar_content(stream: _TarStream, entry: tarfile.TarInfo) -> Iterator[bytes]:
    start = stream.tell()
    yield from stream.data(entry.size)
    if stream.tell() != start + entry.size:
        raise EOFError("a file is truncated")


class _Decompressor(Protocol):
    """One stream, expanded in bounded pieces, as `bz2` and `lzma` do it."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _GzipDecompressor:
    """zlib for gzip, with the interface of `bz2` and `lzma`."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = not self._inner.unconsumed_tail and len(out) < max_length
        return out


_DECOMPRESSORS: dict[str, Callable[[], _Decompressor]] = {
    "gz": _GzipDecompressor,
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY),
}


def _decompressed(file: BinaryIO, kind: str) -> Iterator[bytes]:
    """Yield the content of concatenated streams; bz2 errors become `ValueError`."""
    data = file.read(_BLOCK)
    for _ in range(MAX_STREAMS):
        data = yield from _one_stream(file, _DECOMPRESSORS[kind](), data)
        while data and not (data := data.lstrip(b"\0")):  # files may be padded
            data = file.read(_BLOCK)
        data = data or file.read(_BLOCK)
        if not data:
            return
    raise RefusedMemberError("", f"has more than {MAX_STREAMS:,} compressed streams")


def _one_stream(
    file: BinaryIO, decompressor: _Decompressor, data: bytes
) -> Generator[bytes, None, bytes]:
    """Yield the content of one stream; return what was read beyond its end."""
    while not decompressor.eof:
        try:
            out = decompressor.decompress(data, _BLOCK)
        except OSError as exc:  # how bz2 reports damage
            raise ValueError(str(exc)) from exc
        data = b""
        if out:
            yield out
        if decompressor.needs_input and not decompressor.eof:
            data = file.read(_BLOCK)
            if not data:
                raise EOFError("the file ends too early")
    return decompressor.unused_data


class _TarStream:
    """A tar file as `tarfile` reads it, forward only and with limits on what headers may hold."""

    def __init__(self, source: Iterator[bytes], max_bytes: int) -> None:
        self._source = source
        self._max_bytes = max_bytes
        self._block = memoryview(b"")
        self._position = 0
        self._last = b""
        self.header_bytes = 0

    @property
    def ended_well(self) -> bool:
        """Whether the last header read was an end marker rather than damage."""
        return not self._last.strip(b"\0") and len(self._last) in (0, 512)

    def read(self, size: int = -1) -> bytes:
        """Read a piece of a header."""
        self.header_bytes += size
        if not 0 <= size <= MAX_HEADER_READ or self.header_bytes > MAX_HEADER_BYTES:
            raise RefusedMemberError("", "has a header of improper size")
        self._last = b"".join(self.data(size))
        return self._last

    def tell(self) -> int:
        """Return how much was read."""
        return self._position

    def seek(self, position: int, whence: int = 0) -> int:
        """Skip forward."""
        if whence or position < self._position:
            raise RefusedMemberError("", "has a member that points back to an earlier one")
        for _ in self.data(position - self._position):
            pass
        return self._position

    def data(self, size: int) -> Iterator[bytes]:
        """Yield the next bytes; fewer at the end."""
        while size > 0:
            if not self._block:
                block = next(self._source, None)
                if block is None:
                    return
                self._block = memoryview(block)
            piece, self._block = self._block[:size], self._block[size:]
            self._position += len(piece)
            if self._position > self._max_bytes:
                raise RefusedMemberError("", f"unpacks to more than {self._max_bytes:,} bytes")
            size -= len(piece)
            yield bytes(piece)
