"""The files of a local embedding model: settings, digests, and which are safe to load."""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import time
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Self

from skillsearch.errors import CacheError, EmbedderError, UnreadableError, explained
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.files.atomic_files import read_record, write_record
from skillsearch.files.openat import RACY_NS
from skillsearch.files.private import make_private
from skillsearch.settings.environ import install_again
from skillsearch.settings.user_folders import cache_dir
from skillsearch.types.skills import FileStat

DEFAULT_MAX_TOKENS = 256
# Some tokenizers write 1e30 for "no limit"; nothing above this is taken for a limit.
LARGEST_MAX_TOKENS = 32_768
# Where the files of sentence-transformers may say how many tokens count.
TOKEN_LIMITS = {
    "sentence_bert_config.json": "max_seq_length",
    "tokenizer_config.json": "model_max_length",
}
POOLING_NAMES = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
PICKLE_SUFFIXES = frozenset({".bin", ".ckpt", ".pickle", ".pkl", ".pt", ".pth"})
# The files of a sentence-transformers model that decide its vectors.
MODEL_SUFFIXES = frozenset({".json", ".model", ".safetensors", ".txt"})
# What comes before the name of an external file in an ONNX model: field 13 of a TensorProto, an
# entry with the key "location" and a value of the length in the group (both lengths below 2^14).
EXTERNAL_NAME = lazy_pattern(
    rb"j[\x00-\xff]{1,2}\n\x08location\x12([\x01-\x7f]|[\x80-\xff][\x01-\x7f])"
)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The settings in the files beside an ONNX model; `pooling` is ``mean`` or ``cls``.

    Files of the folder must have the digests `sha256`, by name.
    """

    name: str
    max_tokens: int
    pooling: str
    sha256: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, *, manifest_sha256: str | None = None, stem: str = "model") -> Self:
        """Read our model.json if there is one, else the files of sentence-transformers.

        `manifest_sha256` is the digest that model.json must have; `stem` stands for ``model`` if a
        folder holds several models. An EmbedderError if model.json lacks a usable value.
        """
        manifest = folder / f"{stem}.json"
        if manifest_sha256 is not None:
            sha256_of(manifest, manifest_sha256)
        if not (ours := _read_json(manifest, {})):
            limits = [_read_json(folder / file, {}).get(key) for file, key in TOKEN_LIMITS.items()]
            numbers = (number for number in limits if isinstance(number, int))
            tokens = next((number for number in numbers if 1 <= number <= LARGEST_MAX_TOKENS), None)
            return cls(folder.resolve().name, tokens or DEFAULT_MAX_TOKENS, _pooling(folder))
        try:
            tokens, pooling = int(ours["max_tokens"]), str(ours["pooling"])
            return cls(str(ours["name"]), tokens, pooling, dict(ours.get("sha256", {})))
        except (KeyError, TypeError, ValueError) as exc:
            raise EmbedderError(f"{manifest} lacks a usable value: {exc!r}; reinstall it") from exc

    def verify(self, path: Path) -> str:
        """Return the sha256 of a file, after comparing it with the one it must have, if any."""
        return verify(path, self.sha256.get(path.name))


def verify(path: Path, expected: str | None) -> str:
    """Return the sha256 of a file, after comparing it with the one it must have, if any.

    One that others cannot write is read for this once, and again after its stat has changed.
    """
    if (stamp := _stamp_of_own(path) if expected else None) is None:
        return sha256_of(path, expected)
    record = _read_stamps()
    if record.get(str(path)) == (entry := [*stamp, expected]):
        return str(expected)
    digest = sha256_of(path, expected)
    if time.time_ns() - stamp.ctime_ns > RACY_NS:
        with contextlib.suppress(OSError):
            make_private(_stamps_file().parent)
            write_record(_stamps_file(), {**record, str(path): entry}, sync=False)
    return digest


def _stamps_file() -> Path:
    return cache_dir() / "models" / "stamps"


def _read_stamps() -> dict[str, Any]:
    """Return the stamp and the digest of files that had it; none if others can write there."""
    path = _stamps_file()
    with contextlib.suppress(CacheError, UnreadableError):
        if _stamp_of_own(path):
            record = read_record(path)
            return record if isinstance(record, dict) else {}
    return {}


def _stamp_of_own(path: Path) -> FileStat | None:
    """Return the stat of a file; None if others can write it or its folder."""
    with contextlib.suppress(OSError):
        real = path.resolve()
        stats = (real.stat(), real.parent.stat())
        owners = {0, os.geteuid()} if hasattr(os, "geteuid") else set()
        if all(stat.st_uid in owners and not stat.st_mode & 0o022 for stat in stats):
            return FileStat.of(stats[0])
    return None


def sha256_of(path: Path, expected: str | None = None) -> str:
    """Return the sha256 of a file, hexadecimal; an EmbedderError if it is not the expected one."""
    unread = explained(EmbedderError, f"{path} cannot be read: %s; reinstall the model", str)
    with unread, path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if expected not in (None, digest):
        raise EmbedderError(
            f"{path} is damaged or was changed: sha256 {digest}, expected {expected}; reinstall "
            f"what brought it ({install_again()} for the packaged model)"
        )
    return digest


def weight_files(model: Path) -> list[Path]:
    """Return the files in which an ONNX model keeps weights outside itself, sorted by name.

    Their names are found in the model by the bytes around them, so that no ONNX parser is needed.
    An EmbedderError if the model cannot be read, or one of its files is missing or outside the
    model's folder, links resolved. (ONNX Runtime 1.20 would read any file.)
    """
    try:
        with model.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        names = set()
        for match in EXTERNAL_NAME.finditer(data):
            # Each name follows its length, a varint.
            length = sum((byte & 0x7F) << 7 * group for group, byte in enumerate(match[1]))
            names.add(data[match.end() : match.end() + length])
        files = [model.parent / name for name in sorted(name.decode() for name in names)]
        missing = [file for file in files if not file.is_file()]
        homes = (model.parent.resolve(), model.resolve().parent)
    except (OSError, ValueError) as exc:
        raise EmbedderError(f"{model} cannot be read: {exc}; reinstall the model") from exc
    if missing:
        problem = f"{model} keeps weights in {missing[0]}: no such file; reinstall the model"
        raise EmbedderError(problem)
    for path in (file.resolve() for file in files):
        if not any(path.is_relative_to(home) for home in homes):
            problem = f"{model} keeps weights outside its folder: {path}; move them into it"
            raise EmbedderError(problem)
    return files


def stamp_of(folder: Path) -> str:
    """Return one sha256 over the names, sizes and times of all files in a folder."""
    stamps = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        stat = path.stat()
        stamps.append((path.relative_to(folder).as_posix(), stat.st_size, stat.st_mtime_ns))
    return hashlib.sha256(json.dumps(stamps).encode()).hexdigest()


def digest_of(folder: Path) -> str:
    """Return one sha256 over the names and bytes of all files with `MODEL_SUFFIXES`."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in MODEL_SUFFIXES)
    digests = [(path.relative_to(folder).as_posix(), sha256_of(path)) for path in paths]
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest()


def require_safetensors(folder: Path) -> None:
    """Raise an EmbedderError if weights in a folder are a pickle only, which can run code."""
    safe = {path.parent for path in folder.rglob("*.safetensors")}
    pickles = (path for path in sorted(folder.rglob("*")) if path.suffix in PICKLE_SUFFIXES)
    if unsafe := next((path for path in pickles if path.parent not in safe), None):
        raise EmbedderError(f"{unsafe} is a pickle, which can run code; save it as .safetensors")
    if not safe:
        raise EmbedderError(
            f"{folder} has no weights in .safetensors form; save them so, or name another model"
        )


def _pooling(folder: Path) -> str:
    """Return the pooling, followed by unknown modules that come after it."""
    config = _read_json(folder / "1_Pooling" / "config.json", {})
    modes = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
    mode = config.get("pooling_mode") or "+".join(POOLING_NAMES.get(key, key) for key in modes)
    modules = _read_json(folder / "modules.json", [])
    types = (str(module.get("type")) for module in modules if isinstance(module, dict))
    kinds = (kind.rpartition(".")[2] for kind in types)
    return "+".join([mode or "mean", *(kind for kind in kinds if kind not in KNOWN_MODULES)])


def _read_json(path: Path, default: Any) -> Any:
    """Return the value in a JSON file, which must have the type of `default`; that if no file."""
    if not path.is_file():
        return default
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as exc:
        raise EmbedderError(f"{path} cannot be read as JSON: {exc}; reinstall the model") from exc
    if not isinstance(value, type(default)):
        kinds = f"{type(value).__name__}, not {type(default).__name__}"
        raise EmbedderError(f"{path} holds {kinds}; reinstall the model")
    return value
