"""Index generations on disk: written whole, checked by digest, swapped in at once.

    INDEX_DIR/
      CURRENT              name of the generation in use, replaced atomically
      generations/NAME/    one index: manifest.json and its parts
      snapshot.json        how the folders looked when they were last compared (see `snapshot`)
      embeddings-*.bin     vectors by the text that they embed (see `embedding_cache`)
      lock                 held by the one process that writes

A generation is named by the digest of its manifest, and the manifest holds the digest of every
part: equal indexes have equal names, and a flipped bit anywhere is found before it is searched.
Digests are XXH3-128, which guards against damage; someone who may write here needs no collision.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import xxhash

from skillsearch.errors import CacheError, IndexNotFoundError, LockTimeoutError, StorageError
from skillsearch.types import JsonValue

logger = logging.getLogger(__name__)

FORMAT_VERSION = 3
"""Bump when a part's form or meaning changes; an index of another version is rebuilt."""
LOCK_TIMEOUT = 600.0
"""Seconds to wait for another writer; embedding 10,000 new skills takes a few minutes."""
_READ_BLOCK = 1 << 20
_MANIFEST_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Generation:
    """One saved index that has been checked.

    Attributes:
        name: Digest of the manifest.
        folder: Where the parts lie.
        settings: What the index was made with, as its builder wrote it.
    """

    name: str
    folder: Path
    settings: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """The folder that holds the generations of one index."""

    path: Path

    def exists(self) -> bool:
        """Tell whether some index was ever finished here."""
        return (self.path / "CURRENT").is_file()

    def not_found(self) -> IndexNotFoundError:
        """Return the error for a folder in which no index was ever finished."""
        return IndexNotFoundError(
            f"There is no index in {self.path}. Make one: skillsearch index FOLDER"
        )

    def open(self) -> Generation:
        """Open the generation in use after checking every part of it.

        Returns:
            The generation; its files stay readable for as long as they are open or mapped.

        Raises:
            CacheError: When there is none, or it is damaged or of another version.
        """
        name = self._current()
        try:
            return _checked_generation(self.path / "generations" / name, name)
        except CacheError:
            # A writer may have replaced and removed it between the two reads.
            if self._current() == name:
                raise
            return self.open()

    def write(self, save: Callable[[Path], None], settings: Mapping[str, JsonValue]) -> str:
        """Write a new generation and make it the one in use.

        Call it under `lock`. The generation before stays on disk for readers that just opened it.

        Args:
            save: Writes all parts into the folder it is given.
            settings: What the index is made with; part of its identity.

        Returns:
            The name of the generation, the same for the same parts and settings.

        Raises:
            StorageError: When it cannot be written; the index in use is untouched.
        """
        try:
            generations = self.path / "generations"
            generations.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=".new-", dir=generations))
            try:
                save(folder)
                name = _write_manifest(folder, settings)
                self._publish(folder, name)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise StorageError(
                f"The index cannot be written to {self.path}: {reason}. "
                "The index before is unchanged; free some space or choose another --index-dir."
            ) from exc
        return name

    @contextmanager
    def lock(self, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
        """Keep other writers out, waiting for one that is at work.

        Args:
            timeout: Seconds to wait.

        Raises:
            LockTimeoutError: When the other writer does not finish in time.
            StorageError: When the folder cannot be made or written.
        """
        from filelock import FileLock, Timeout

        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = FileLock(self.path / "lock")
            lock.acquire(timeout=timeout)
        except Timeout as exc:
            raise LockTimeoutError(
                f"Another process has been writing the index in {self.path} for over "
                f"{timeout:.0f} s; wait for it, or choose another --index-dir."
            ) from exc
        except OSError as exc:
            raise StorageError(
                f"The index folder {self.path} cannot be used: {exc.strerror or exc}. "
                "Choose another --index-dir."
            ) from exc
        try:
            yield
        finally:
            lock.release()

    def size(self) -> int:
        """Return the bytes that everything in the folder takes."""
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())

    def _current(self) -> str:
        """Read which generation is in use."""
        try:
            name = (self.path / "CURRENT").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as exc:
            raise CacheError(f"{self.path} holds no finished index") from exc
        if not (name.isalnum() and len(name) == 32):
            raise CacheError(f"{self.path / 'CURRENT'} is damaged")
        return name

    def _publish(self, folder: Path, name: str) -> None:
        """Give a finished generation its name and point CURRENT at it."""
        target = self.path / "generations" / name
        before = self.current()
        if before == name and _is_intact(target, name):
            return
        if target.exists():
            shutil.rmtree(target)
        folder.rename(target)
        _sync_folder(target.parent)
        write_atomically(self.path / "CURRENT", name.encode("ascii") + b"\n")
        self._remove_generations(keep={name, before})

    def current(self) -> str | None:
        """Return the name of the generation in use, or None where there is none."""
        try:
            return self._current()
        except CacheError:
            return None

    def _remove_generations(self, keep: set[str | None]) -> None:
        """Remove generations nobody opens any more, and what killed writers left."""
        for folder in (self.path / "generations").iterdir():
            if folder.name not in keep:
                shutil.rmtree(folder, ignore_errors=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file in one step, so that a reader sees the old bytes or the new ones.

    Args:
        path: The file.
        data: Its new content.

    Raises:
        OSError: When it cannot be written; the old file is untouched.
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    _sync_folder(path.parent)


def write_record(path: Path, record: JsonValue) -> None:
    """Replace a JSON file in one step, its first line the digest of the rest.

    Args:
        path: The file.
        record: What to write.

    Raises:
        OSError: When it cannot be written; the old file is untouched.
    """
    data = json.dumps(record, separators=(",", ":")).encode()
    write_atomically(path, xxhash.xxh3_128_hexdigest(data).encode() + b"\n" + data)


def read_record(path: Path) -> JsonValue:
    """Read what `write_record` wrote.

    Args:
        path: The file.

    Returns:
        The record.

    Raises:
        CacheError: When the file is missing or damaged.
    """
    try:
        digest, _, data = path.read_bytes().partition(b"\n")
        if xxhash.xxh3_128_hexdigest(data).encode() != digest:
            raise CacheError(f"{path} is damaged")
        return json.loads(data)
    except (OSError, ValueError) as exc:
        raise CacheError(f"{path} cannot be read: {exc}") from exc


def _write_manifest(folder: Path, settings: Mapping[str, JsonValue]) -> str:
    """Describe all parts of a folder in its manifest and return the manifest's digest."""
    parts = {}
    for file in sorted(folder.iterdir()):
        parts[file.name] = {"bytes": file.stat().st_size, "xxh3": _digest(file)}
        _sync_file(file)
    manifest = {"format": FORMAT_VERSION, "settings": dict(settings), "parts": parts}
    data = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    path = folder / "manifest.json"
    path.write_bytes(data)
    _sync_file(path)
    _sync_folder(folder)
    return xxhash.xxh3_128_hexdigest(data)


def _checked_generation(folder: Path, name: str) -> Generation:
    """Open a generation after comparing all digests."""
    try:
        manifest = _read_manifest(folder, name)
        if manifest["format"] != FORMAT_VERSION:
            raise CacheError(f"the index has format {manifest['format']}, not {FORMAT_VERSION}")
        for part, expected in manifest["parts"].items():
            _check_part(folder / Path(part).name, expected["bytes"], expected["xxh3"])
        return Generation(name, folder, manifest["settings"])
    except (KeyError, TypeError, AttributeError, ValueError) as exc:
        raise CacheError(f"{folder / 'manifest.json'} has an unknown form") from exc


def _read_manifest(folder: Path, name: str) -> dict[str, JsonValue]:
    """Read a manifest whose digest is its generation's name."""
    path = folder / "manifest.json"
    try:
        with path.open("rb") as file:
            data = file.read(_MANIFEST_LIMIT + 1)
    except OSError as exc:
        raise CacheError(f"{path} cannot be read: {exc.strerror}") from exc
    if xxhash.xxh3_128_hexdigest(data) != name:
        raise CacheError(f"{path} is damaged")
    manifest: dict[str, JsonValue] = json.loads(data)
    return manifest


def _check_part(path: Path, size: int, digest: str) -> None:
    """Compare a part with what the manifest says of it."""
    try:
        if path.stat().st_size != size or _digest(path) != digest:
            raise CacheError(f"{path} is damaged")
    except OSError as exc:
        raise CacheError(f"{path} cannot be read: {exc.strerror}") from exc


def _is_intact(folder: Path, name: str) -> bool:
    """Tell whether a generation could be opened."""
    try:
        _checked_generation(folder, name)
    except CacheError as exc:
        logger.warning("rebuilt over a damaged index: %s", exc)
        return False
    return True


def _digest(path: Path) -> str:
    """Digest a file without mapping it, so that its pages do not count as our memory."""
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        while block := file.read(_READ_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _sync_file(path: Path) -> None:
    """Have the system put a file on disk before anything refers to it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    """Have the system put a folder's entries on disk; not every system can."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
