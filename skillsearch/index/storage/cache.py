"""Index generations on disk: written whole, checked by digest, swapped in at once.

    INDEX_DIR/
      CURRENT              name of the generation in use, replaced atomically
      generations/NAME/    one index: manifest.json, its parts, their stat cache
      snapshot.bin         the stats of folders and files when they were last compared
      lock                 held by the one process that writes

A generation is named by the digest of its manifest, which holds the digest of every part: equal
indexes have equal names, and a damaged part is found before it is searched. The digests (XXH3-128)
guard against damage; an attacker who may write here needs no collision.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import xxhash

from skillsearch import errors
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.files import own_folder
from skillsearch.files.atomic_files import is_record, reading, sweep, sync_to_disk, write_atomically
from skillsearch.files.locks import locked
from skillsearch.files.openat import read_regular
from skillsearch.files.private import make_private
from skillsearch.index import next_steps
from skillsearch.index.storage import generation_parts
from skillsearch.index.storage.generation_parts import DamageGuard, Part, damaged_parts
from skillsearch.settings.table import Settings
from skillsearch.settings.user_folders import cache_dir
from skillsearch.text.safe_text import listed
from skillsearch.types.json_values import Json, JsonObject, checked, object_of, text_of

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

# Bump when a part changes in form or meaning; an index of another version is rebuilt.
FORMAT_VERSION = 16
# Seconds to wait for another writer; embedding 10,000 new skills takes a few minutes.
LOCK_TIMEOUT = 600.0
QUIET_SECONDS = 1.0
"""How long to wait for another writer before the user is told."""
_MANIFEST = "manifest.json"
_CURRENT_LIMIT = 1 << 10
_MANIFEST_LIMIT = 64 << 20
"""In bytes; it names the roots, and for each the projects that see it or do not."""
# Files of an index folder that carry their own digest.
_RECORDS = ("request.json", "snapshot.bin")
# Files that are replaced atomically.
_REPLACED = ("CURRENT", *_RECORDS, "arrivals.json")
# Entries of an index folder.
_OURS = frozenset({"lock", "generations", *_REPLACED})
# Prefix of the generations that are being written.
_UNFINISHED = ".new-"


@dataclass(frozen=True, slots=True)
class Generation:
    """One saved index: its name is the digest of the manifest, which lists settings and parts."""

    name: str
    folder: Path
    settings: Mapping[str, Json]
    parts: Mapping[str, Part]

    @property
    def guard(self) -> DamageGuard:
        """A context in which to read the parts, so that damage is reported as such."""
        return DamageGuard(self.folder, self.parts)


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """The generations of one index. In our cache folder, an index of another user is refused."""

    path: Path

    def __post_init__(self) -> None:
        is_ours = self.path.is_relative_to(cache_dir())
        if is_ours and (owner := own_folder.other_owner(self.path)) is not None:
            raise errors.IndexNotFoundError(
                f"The index in {self.path} belongs to user {owner}, who would decide what you "
                "find. Remove it, or choose a folder of your own: --index-dir"
            )

    def exists(self) -> bool:
        """Return whether an index was ever finished here."""
        return (self.path / "CURRENT").is_file()

    def not_found(self, settings: Settings | None = None) -> errors.IndexNotFoundError:
        """Return the error for a folder in which no index was ever finished."""
        return errors.IndexNotFoundError(next_steps.no_index(self.path, settings))

    def open(self) -> Generation:
        """Open the generation in use after checking its parts; a CacheError if that fails."""
        if (name := self.current()) is None:
            raise errors.CacheError(f"{self.path} holds no finished index")
        generation = self._described(name)
        if damaged := damaged_parts(generation.folder, generation.parts):
            raise errors.CacheError(generation_parts.describe_damage(self.path, damaged))
        return generation

    def settled(self, read: Callable[[], _Result]) -> _Result:
        """Read again after a CacheError if another generation was published in the meantime."""
        while True:
            stamp = self.stamp()
            try:
                return read()
            except errors.CacheError:
                if self.stamp() == stamp:
                    raise

    def damage(self, *, everything: bool) -> tuple[str, ...]:
        """Hash files again, `everything` or the parts hashed longest ago; return damaged ones."""
        reread = generation_parts.EVERYTHING if everything else generation_parts.REREAD_BYTES
        while True:
            stamp = self.stamp()
            if not (damaged := self._damaged_parts(reread)) or self.stamp() == stamp:
                break
        records = [self.path / name for name in _RECORDS] if everything else []
        return (*damaged, *(path.name for path in records if path.exists() and not is_record(path)))

    def _damaged_parts(self, reread: int) -> tuple[str, ...]:
        name = self.current()
        folder = self.path / "generations" / (name or "")
        if name is None or not folder.is_dir():
            return ("CURRENT",) if self.exists() else ()
        if _read_manifest(folder, name) is None:
            return (_MANIFEST,)
        with contextlib.suppress(errors.CacheError):
            return damaged_parts(folder, self._described(name).parts, reread=reread)
        return ()

    def stamp(self) -> tuple[int, ...]:
        """Return a value that changes whenever a generation is published."""
        with contextlib.suppress(OSError):
            status = (self.path / "CURRENT").stat()
            return (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        return ()

    def write(
        self,
        save: Callable[[Path], object],
        settings: Mapping[str, Json],
        *,
        before: Generation | None = None,
        reused: Collection[str] = (),
        announce: Callable[[str], None] = lambda name: None,
    ) -> str:
        """Write a new generation, make it the one in use, and return its name; needs the `lock`.

        `save` writes all parts into the folder it is given, but those `reused` of the generation
        `before`, which stays on disk for readers that have just opened it. `announce` gets the name
        when all but the swap is done. StorageError if it cannot be written; the index in use is
        then untouched.
        """
        with errors.writing_index(self.path):
            generations = self.path / "generations"
            make_private(generations)
            folder = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=generations))
            try:
                save(folder)
                trusted, shared = [], {}
                if before:
                    trusted = generation_parts.trusted_parts(before.folder)
                    wanted = {part: before.parts[part] for part in reused}
                    shared = generation_parts.share_parts(before.folder, wanted, folder)
                parts = generation_parts.describe_parts(folder, shared)
                entries = {
                    n: {"bytes": size, "xxh3": digest} for n, (size, digest) in parts.items()
                }
                manifest = {"format": FORMAT_VERSION, "settings": dict(settings), "parts": entries}
                data = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
                if len(data) > _MANIFEST_LIMIT:
                    raise errors.StorageError(
                        f"The roots of the index take {len(data):,} bytes to name, more than the "
                        f"{_MANIFEST_LIMIT:,} that are read. The index before is unchanged; take "
                        "roots out: skillsearch index --remove ROOT"
                    )
                (folder / _MANIFEST).write_bytes(data)
                sync_to_disk(folder / _MANIFEST)
                hashed = (part for part in parts if part not in shared)
                generation_parts.trust_parts(folder, [*trusted, *hashed])
                sync_to_disk(folder)
                name = xxhash.xxh3_128_hexdigest(data)
                announce(name)
                self._publish(folder, name)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        return name

    @contextmanager
    def lock(self, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
        """Keep other writers out, waiting up to `timeout` seconds for one at work.

        ConfigError for a folder of other files, LockTimeoutError, or StorageError.
        """
        held = contextlib.ExitStack()
        useless = f"The index folder {self.path} cannot be used: %s. Choose another --index-dir."
        with errors.explained(errors.StorageError, useless):
            self._require_ours()
            make_private(self.path)
            try:
                self._take(held, timeout)
            except TimeoutError as exc:
                raise errors.LockTimeoutError(
                    f"Another process has been writing the index in {self.path} for over "
                    f"{timeout:.0f} s; wait for it, or choose another --index-dir."
                ) from exc
        with held:
            # What killed writers left unfinished.
            for folder in (self.path, *self.path.glob("generations/*")):
                sweep(folder)
            for folder in (self.path / "generations").glob(f"{_UNFINISHED}*"):
                shutil.rmtree(folder, ignore_errors=True)
            yield

    def _take(self, held: contextlib.ExitStack, timeout: float) -> None:
        """Take the lock; tell the user if that lasts, so that nobody waits for they know not what.

        A TimeoutError if another process keeps it for longer.
        """
        lock, first = self.path / "lock", min(timeout, QUIET_SECONDS)
        with contextlib.suppress(TimeoutError):
            held.enter_context(locked(lock, first))
            return
        if timeout > first:
            message = "another process is writing the index in %s; waiting for it, %.0f s at most"
            logger.warning(message, self.path, timeout)
        held.enter_context(locked(lock, timeout - first))

    def clear(self) -> None:
        """Take the index away as if it had never been made; needs the `lock`.

        A StorageError if a file cannot be removed.
        """
        with errors.writing_index(self.path):
            for name in reversed(_REPLACED):  # a reader looks for CURRENT
                (self.path / name).unlink(missing_ok=True)
            shutil.rmtree(self.path / "generations", ignore_errors=True)

    def _require_ours(self) -> None:
        """Refuse a folder of other files, hidden ones aside, and no index: somebody else's."""
        names = [path.name for path in self.path.iterdir()] if self.path.is_dir() else []
        names = sorted(name for name in names if not name.startswith("."))
        is_ours = any(name in _OURS or name.startswith(own_folder.PREFIX) for name in names)
        if names and not is_ours:
            raise errors.ConfigError(
                f"{self.path} holds other files ({listed(names, 3)}) and no index; choose an "
                f"empty folder or a new one, such as {self.path / 'index'}."
            )

    def size(self) -> int:
        """Return the bytes that everything in the folder takes."""
        files = [file.stat() for file in self.path.rglob("*") if file.is_file()]
        return sum({(status.st_dev, status.st_ino): status.st_size for status in files}.values())

    def current(self) -> str | None:
        """Return the name of the generation in use, or None if there is none."""
        return current_generation(self.path)

    def _described(self, name: str) -> Generation:
        folder = self.path / "generations" / name
        if (data := _read_manifest(folder, name)) is None:
            raise errors.CacheError(f"{folder / _MANIFEST} is damaged")
        try:
            manifest = object_of(json.loads(data))
            if (version := manifest["format"]) != FORMAT_VERSION:
                raise errors.OtherVersionError(f"its format is {version}, not {FORMAT_VERSION}")
            described = object_of(manifest["parts"]).items()
            parts = {Path(part).name: _part(object_of(values)) for part, values in described}
            return Generation(name, folder, object_of(manifest["settings"]), parts)
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as exc:
            raise errors.CacheError(f"{folder / _MANIFEST} has an unknown form") from exc

    def _publish(self, folder: Path, name: str) -> None:
        target = self.path / "generations" / name
        if (before := self.current()) == name:
            if not (damaged := self.damage(everything=True)):
                return
            logger.warning("%s of the index were damaged and are replaced", ", ".join(damaged))
        # Nobody opens these any more.
        outdated = [p for p in target.parent.iterdir() if p.name not in (folder.name, before, name)]
        loses_links = bool(outdated) or target.exists()
        trusted = generation_parts.trusted_parts(folder) if loses_links else []
        if target.exists():
            shutil.rmtree(target)
        folder.rename(target)
        sync_to_disk(target.parent)
        write_atomically(self.path / "CURRENT", name.encode("ascii") + b"\n")
        for other in outdated:
            shutil.rmtree(other, ignore_errors=True)
        if loses_links:  # which changed their ctime
            with contextlib.suppress(OSError):
                generation_parts.trust_parts(target, trusted)


def current_generation(folder: Path) -> str | None:
    """Return the name of the generation in use in an index folder, or None if there is none."""
    with contextlib.suppress(errors.CacheError), reading(folder / "CURRENT"):
        data, _ = read_regular(folder / "CURRENT", _CURRENT_LIMIT)
        name = data.decode("ascii").removesuffix("\n")
        if name.isalnum() and len(name) == 32:
            return name
    return None


def _read_manifest(folder: Path, name: str) -> bytes | None:
    """Read a manifest, whose digest is the name of its generation; None if it is damaged."""
    path = folder / _MANIFEST
    with contextlib.suppress(errors.CacheError), reading(path):
        data, _ = read_regular(path, _MANIFEST_LIMIT)
        if xxhash.xxh3_128_hexdigest(data) == name:
            return data
    return None


def _part(values: JsonObject) -> Part:
    return Part(checked(values["bytes"], int), text_of(values["xxh3"]))
