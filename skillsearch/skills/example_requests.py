"""Example requests: what people would ask of a skill, in words that its author may not have used.

They come from three sources. The package has some for well-known public skills, the user's own file
those that ``skillsearch enrich`` kept; both know a skill by the digest of its name and description,
so no file of the skill is touched, and a skill that changes loses them. And a skill brings its own:
eval files and ``representativeQueries``.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self, get_args

import xxhash

from skillsearch.errors import SkillError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.files.openat import read_regular
from skillsearch.files.own_folder import other_owner
from skillsearch.settings import user_folders
from skillsearch.skills.resources import list_files, read_file, without_inner
from skillsearch.system_errors import reason_of
from skillsearch.text.safe_text import counted, visible
from skillsearch.types.json_values import Json, list_of
from skillsearch.types.skills import Example, ExampleSource, FileStat, SkillMetadata

PACKAGED = Path(__file__).with_name("example_requests.jsonl.gz")
MAX_EXAMPLES = 8
"""Examples of a skill that count, of each source: more would let it match whatever is asked."""
MAX_CHARS = 300
MAX_BYTES = 64 << 20
_MAX_EVAL_FILES, _MAX_EVAL_BYTES, _MAX_ENTRIES = 8, 256 << 10, 2_000
"""The limits of a skill: eval files, bytes of all of them together, entries of its folder."""

logger = logging.getLogger(__name__)


def digest_of_skill(name: str, description: str) -> str:
    """Return the key of a skill's examples; white space in the description does not count."""
    text = f"{name}\n{' '.join(description.split())}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def user_file() -> Path:
    """Return the path of the user's own examples, among the user's data; it may not exist."""
    return user_folders.data_dir() / "examples.jsonl"


class EvalFiles(NamedTuple):
    """The eval files of a skill: their bytes by relative path, and by its path the stat of each.

    The `digest` covers names and bytes; it is empty without files.
    """

    files: tuple[tuple[str, bytes], ...] = ()
    stats: tuple[tuple[str, FileStat], ...] = ()

    @property
    def digest(self) -> str:
        """Return 32 hexadecimal digits for the names and bytes; empty without any file."""
        if not self.files:
            return ""
        hashed = hashlib.sha256()
        for name, data in self.files:
            hashed.update(f"{name}\0{len(data)}\0".encode("utf-8", "surrogatepass") + data)
        return hashed.hexdigest()[:32]

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Read the eval files of a skill that lie in its folder, or in a folder there."""
        # A search reads no skill: what reads one is imported when it is needed.
        from skillsearch.skills.eval_files import is_eval_file

        files, stats, remaining = [], [], _MAX_EVAL_BYTES
        with suppress(SkillError):
            listed, _ = list_files(folder, max_entries=_MAX_ENTRIES, depth=1)
            eval_files = without_inner(folder, filter(is_eval_file, listed))
            for relative in islice(eval_files, _MAX_EVAL_FILES):
                with suppress(SkillError, OSError):
                    # One that is not read, since it is too large, may be smaller the next time.
                    stats.append((str(folder / relative), FileStat.of((folder / relative).lstat())))
                    data = read_file(folder, relative, limit=remaining)
                    files.append((relative, data))
                    remaining -= len(data)
        return cls(tuple(files), tuple(stats))


def own_examples(metadata: SkillMetadata, evals: EvalFiles) -> tuple[str, ...]:
    """Return the examples that a skill brings itself: requests that its author says it is for."""
    if not evals.files:
        return usable(metadata.examples)
    from skillsearch.skills.eval_files import read_eval_files

    queries, _ = read_eval_files(evals.files, metadata.name)
    name = metadata.name.casefold()
    wanted = [query for query in queries if query.is_wanted and name in query.skills]
    ordered = sorted(wanted, key=lambda query: query.kind != "trigger")
    return usable((*metadata.examples, *(query.text for query in ordered)))


def usable(texts: Iterable[object]) -> tuple[str, ...]:
    """Return the first `MAX_EXAMPLES` different texts of at most `MAX_CHARS`, blanks folded.

    What a reader would not see is left out of them.
    """
    folded = (" ".join(visible(text).split()) for text in texts if isinstance(text, str))
    distinct = dict.fromkeys(text for text in folded if 0 < len(text) <= MAX_CHARS)
    return tuple(distinct)[:MAX_EXAMPLES]


@dataclass(frozen=True)
class ExampleBook:
    """All examples that an index may use, by `digest_of_skill`, as the files were at first look.

    Attributes:
        path: The user's own examples; None for none.
        packaged: Whether the examples of the package count.
        own: Whether the examples that a skill brings count.
        extra: Further examples by digest, which count as the user's.
    """

    path: Path | None = field(default_factory=user_file)
    packaged: bool = True
    own: bool = True
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> Self:
        """Return a book without examples, and for which no skill brings any."""
        return cls(None, packaged=False, own=False)

    @cached_property
    def digest(self) -> str:
        """A digest that changes with any example, except those that skills bring."""
        choice = repr((self.packaged, self.own, sorted(self.extra.items())))
        hashed = xxhash.xxh3_128(choice.encode("utf-8", "surrogatepass"))
        for path, seen in self._files:
            hashed.update(_digest(path, seen))
        return hashed.hexdigest()

    def of(self, name: str, description: str) -> tuple[Example, ...]:
        """Return the examples of a skill of the user, else of the package."""
        return self.by_digest(digest_of_skill(name, description))

    def by_digest(self, key: str) -> tuple[Example, ...]:
        """Return the examples of a skill, given by its digest, as `of` does."""
        if texts := self.extra.get(key):
            return _as_examples(texts, "user")
        for path, seen in self._files:
            if texts := usable(_load(path, seen).get(key, ())):
                return _as_examples(texts, "package" if path == PACKAGED else "user")
        return ()

    def with_own(self, metadata: SkillMetadata, evals: EvalFiles) -> tuple[Example, ...]:
        """Return all examples of a skill: the user's or the package's first, then its own."""
        examples = self.of(metadata.name, metadata.description)
        texts = {example.text for example in examples}
        own = own_examples(metadata, evals) if self.own else ()
        return (*examples, *_as_examples([text for text in own if text not in texts], "skill"))

    @cached_property
    def _files(self) -> list[tuple[Path, FileStat]]:
        paths = [path for path in (self.path, PACKAGED if self.packaged else None) if path]
        files = []
        for path in paths:
            with suppress(OSError):
                files.append((path, FileStat.of(path.stat())))
        return files


def _as_examples(texts: Iterable[str], source: ExampleSource) -> tuple[Example, ...]:
    return tuple(Example(text, source) for text in texts)


def read_examples(path: Path) -> Iterator[Mapping[str, Json]]:
    """Yield the records of a file of examples, ``{"digest": …, "examples": […]}`` a line.

    Other lines, and a file that cannot be read, are logged and left out.
    """
    broken = 0
    for line in _bytes_of(path).splitlines():
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            record = json.loads(line)
            if isinstance(record["digest"], str) and isinstance(record["examples"], list):
                yield record
                continue
        broken += bool(line.strip())
    if broken:
        logger.warning("%s lines of %s are not example requests and are left out", broken, path)


def _bytes_of(path: Path) -> bytes:
    """Return the records of a file, maybe packed; none, and a warning, if it cannot be read."""
    import gzip

    try:
        data = _read(path)
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except FileNotFoundError:
        return b""
    except (OSError, EOFError, zlib.error) as exc:
        message = "no examples are taken from %s: %s; mend or remove it"
        logger.warning(message, path, reason_of(exc))
        return b""


def _read(path: Path) -> bytes:
    """Read a regular file of ours or of root, to which a link may lead; or OSError."""
    if path != PACKAGED and (owner := other_owner(path)) is not None:
        raise PermissionError(errno.EPERM, f"it belongs to user {owner}")
    return read_regular(path, MAX_BYTES)[0]


@lru_cache(maxsize=4)
def _load(path: Path, seen: FileStat) -> Mapping[str, Sequence[object]]:
    """Read a file of examples as it was at a stat; the last record of a skill counts."""
    return {str(record["digest"]): list_of(record["examples"]) for record in read_examples(path)}


@lru_cache(maxsize=4)
def _digest(path: Path, seen: FileStat) -> bytes:
    try:
        return xxhash.xxh3_128_digest(_read(path))
    except OSError:
        return b""


def beside_hash(continuation_hash: str, evals_hash: str) -> str:
    """Return a digest of the other files read for a SKILL.md; empty if none was."""
    if not evals_hash:
        return continuation_hash
    return hashlib.sha256(f"{continuation_hash} {evals_hash}".encode()).hexdigest()[:32]


def count_exampled(skills: Iterable[Sequence[Example]]) -> dict[str, int]:
    """Count the skills that have examples, and those that have some of each source."""
    sources = [{example.source for example in examples} for examples in skills]
    of_each = {name: sum(name in some for some in sources) for name in get_args(ExampleSource)}
    return {"skills": sum(map(bool, sources)), **of_each}


def exampled_in_words(counts: Mapping[str, int], skills: int) -> str:
    """Return in words how many skills have examples, and whose."""
    owners = {"user": "yours", "package": "of the package", "skill": "their own"}
    whose = [f"{counts[source]:,} {words}" for source, words in owners.items() if counts[source]]
    share = f"{counts['skills']:,} of {counted(skills, 'skill')}"
    return share + (f": {', '.join(whose)}" if whose else "")
