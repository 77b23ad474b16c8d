"""Compressed files read forward in bounded pieces: what a tar reader may ask for, and no more."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import BinaryIO, Protocol

from skillsearch.roots.unpacking import RefusedMemberError

BLOCK = 1 << 16
MAX_STREAMS = 10_000
"""Compressed streams in one file, one behind the other; each takes time, even an empty one."""
MAX_HEADER_READ = 1 << 14
"""Bytes that a header may ask for at once: long names and pax records lie in such pieces."""
MAX_HEADER_BYTES = 1 << 16
"""Bytes of all headers of one member."""
_XZ_MEMORY = 128 << 20
"""What the highest level of xz needs, twice."""


class _Inflater(Protocol):
    """What decompresses one stream."""

    @property
    def eof(self) -> bool:
        """Whether the stream is at its end."""

    @property
    def needs_input(self) -> bool:
        """Whether nothing more comes without further input."""

    @property
    def unused_data(self) -> bytes:
        """What came behind the end."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Decompress to at most so many bytes."""


class _Gunzip:
    """zlib for gzip, with the manners of bz2 and lzma."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        """Whether the stream is at its end."""
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        """What came behind the end."""
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Decompress to at most so many bytes."""
        out = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = not self._inner.unconsumed_tail and len(out) < max_length
        return out


INFLATERS: dict[str, Callable[[], _Inflater]] = {
    "gz": _Gunzip,
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY),
}
"""What decompresses, by the kind of compression."""


def blocks(file: BinaryIO, compression: str = "") -> Iterator[bytes]:
    """Yield the content of a file in blocks.

    Args:
        file: The file, at its beginning.
        compression: One of `INFLATERS`; empty for none.

    Yields:
        Blocks of at most `BLOCK` bytes.

    Raises:
        EOFError: When the file ends within a stream.
        ValueError: When bz2 finds damage; zlib and lzma raise errors of their own.
        RefusedMemberError: When it has too many streams.
    """
    data = file.read(BLOCK)
    if not compression:
        while data:
            yield data
            data = file.read(BLOCK)
        return
    for _ in range(MAX_STREAMS):
        data = yield from _one_stream(file, INFLATERS[compression](), data)
        while data and not (data := data.lstrip(b"\0")):  # files may be padded
            data = file.read(BLOCK)
        data = data or file.read(BLOCK)
        if not data:
            return
    raise RefusedMemberError("", f"has more than {MAX_STREAMS:,} compressed streams")


def _one_stream(file: BinaryIO, inflater: _Inflater, data: bytes) -> Generator[bytes, None, bytes]:
    """Yield what one stream holds; return what was read behind it."""
    while not inflater.eof:
        try:
            out = inflater.decompress(data, BLOCK)
        except OSError as exc:  # bz2's word for damage
            raise ValueError(str(exc)) from exc
        data = b""
        if out:
            yield out
        if inflater.needs_input and not inflater.eof:
            data = file.read(BLOCK)
            if not data:
                raise EOFError("the file ends too early")
    return inflater.unused_data


class TarStream:
    """A tar file as `tarfile` reads it, forward only and with a limit to what headers may hold."""

    def __init__(self, source: Iterator[bytes], max_bytes: int) -> None:
        """Take the decompressed content.

        Args:
            source: Its blocks.
            max_bytes: Bytes that it may have in all.
        """
        self._source = source
        self._max_bytes = max_bytes
        self._block = b""
        self._start = 0
        self._position = 0
        self._header_bytes = 0
        self._last = b""

    @property
    def ended_well(self) -> bool:
        """Whether what was read last is an end and no damaged header."""
        return not self._last.strip(b"\0") and len(self._last) in (0, 512)

    def begin_header(self) -> None:
        """Allow the headers of a further member."""
        self._header_bytes = 0

    def read(self, size: int = -1) -> bytes:
        """Read a piece of a header."""
        self._header_bytes += size
        if not 0 <= size <= MAX_HEADER_READ or self._header_bytes > MAX_HEADER_BYTES:
            raise RefusedMemberError("", "has a header of improper size")
        self._last = b"".join(self.data(size))
        return self._last

    def tell(self) -> int:
        """Return how much was read."""
        return self._position

    def seek(self, position: int, whence: int = 0) -> int:
        """Go forward."""
        if whence or position < self._position:
            raise RefusedMemberError("", "has a member that leads back to one before")
        for _ in self.data(position - self._position):
            pass
        return self._position

    def data(self, size: int) -> Iterator[bytes]:
        """Yield the next bytes; fewer where there are no more."""
        while size > 0 and self._fill():
            piece = self._block[self._start : self._start + size]
            self._start += len(piece)
            self._position += len(piece)
            if self._position > self._max_bytes:
                raise RefusedMemberError("", f"unpacks to more than {self._max_bytes:,} bytes")
            size -= len(piece)
            yield piece

    def _fill(self) -> bool:
        """Have something to read; False at the end."""
        while self._start == len(self._block):
            block = next(self._source, None)
            if block is None:
                return False
            self._block, self._start = block, 0
        return True
