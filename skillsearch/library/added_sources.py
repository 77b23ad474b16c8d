"""Sources that were added: which is meant, its skills, and their changes in the index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skillsearch.errors import RootError, SkillError
from skillsearch.index.absence import forget_report
from skillsearch.index.roots.held import held_roots, last_request, request_of
from skillsearch.index.roots.host_roots import project_around, usual_folders
from skillsearch.index.roots.request import Follows, key_of
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.roots.bundles import content_digest, update
from skillsearch.roots.lock import LockedSource, pin, read_lock, unpin
from skillsearch.roots.sources import added_source, folder_of, is_bundle, plain_source, shown
from skillsearch.settings.config import load_settings, of_own_index, user_index_dir
from skillsearch.settings.table import Settings
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.text.near import near
from skillsearch.text.safe_text import listed, one_line

if TYPE_CHECKING:
    from skillsearch.index.indexing.options import IndexOptions

_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class SkillChanges:
    """The skills that come, change and go with another content of a source, by name."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def __str__(self) -> str:
        parts = asdict(self).items()
        named = ((word, listed(names, _MOST_NAMED)) for word, names in parts if names)
        return "; ".join(map(": ".join, named)) or "no skill differs, other files do"


def compare(old: Path | None, new: Path) -> SkillChanges:
    """Compare the skills of two folders: by their place below it, and by all of their files."""
    before, now = _skills(old) if old else {}, _skills(new)
    names = {key: name for key, (name, _) in (before | now).items()}
    changed = (key for key in before.keys() & now.keys() if before[key][1] != now[key][1])
    groups = (now.keys() - before.keys(), changed, before.keys() - now.keys())
    return SkillChanges(*(tuple(sorted(map(names.__getitem__, keys))) for keys in groups))


def _skills(folder: Path) -> dict[str, tuple[str, str]]:
    """Return the name and the digest of each skill below a folder, by its place there."""
    from skillsearch.skills.parser import read_skill

    skills = {}
    for file in discover(make_roots([folder])[0]).files:
        below = file.doc_id.partition(":")[2]
        name = Path(below).name
        with suppress(SkillError):
            name = read_skill(file.path, doc_id=file.doc_id, root=file.root.path).name
        skills[below] = one_line(name, 80), content_digest(file.path.parent)
    return skills


@contextmanager
def added(sources: Mapping[str, str]) -> Iterator[None]:
    """Fetch sources and pin each; those that are new are unpinned again if the block fails.

    `sources` has the text that the user wrote for each. A RootError if one cannot be fetched.
    """
    before = read_lock()
    fetched = {source: text for source, text in sources.items() if is_bundle(source)}
    with ExitStack() as undo:
        undo.callback(unpin, fetched.keys() - before.keys())
        for source, text in fetched.items():
            _fetch(source, text)
        yield
        undo.pop_all()


def _fetch(source: str, text: str) -> None:
    """Pin the content of a source before its copy is replaced, so that both always agree."""

    def pin_new(_old: Path | None, new: Path) -> bool:
        if not _skills(new):
            problem = f"{shown(source)} holds no skill, a folder with a SKILL.md; see its files."
            raise RootError(problem)
        pin(source, text, content_digest(new))
        return True

    update(source, folder_of(source), agree=pin_new)


def update_added(entry: LockedSource, agree: Callable[[SkillChanges], bool]) -> None:
    """Fetch a source next to its copy; if it has changed, take it once `agree` says so.

    A RootError if it cannot be fetched.
    """

    def pin_changed(old: Path | None, new: Path) -> bool:
        if (digest := content_digest(new)) == entry.digest:
            return True
        is_pinned = old is not None and content_digest(old) == entry.digest
        if is_taken := agree(compare(old if is_pinned else None, new)):
            pin(entry.source, entry.text, digest)
        return is_taken

    update(entry.source, folder_of(entry.source), agree=pin_changed)


def named_sources(
    texts: Sequence[str], locked: Mapping[str, LockedSource], held: Collection[str] | None = None
) -> dict[str, str]:
    """Return the sources that texts name by path, URL, or as they were added, with the texts.

    A RootError for one that is neither locked nor, if roots are `held`, one of them. Whether a
    folder is a root is left to the index.
    """
    sources = {_named(text, locked, held or ()): text for text in texts}
    for source, text in sources.items():
        is_root = held is not None and (key_of(source) in held or not is_bundle(source))
        if source not in locked and not is_root:
            raise _not_added(text, source, locked)
    return sources


def _named(text: str, locked: Mapping[str, LockedSource], held: Collection[str]) -> str:
    by_text = {entry.text: entry.source for entry in locked.values()}
    if (source := plain_source(text)) in locked or key_of(source) in held:
        return source
    with suppress(RootError):
        return by_text.get(text) or added_source(text)
    return source


def _not_added(text: str, source: str, locked: Mapping[str, LockedSource]) -> RootError:
    if not is_bundle(source) and Path(source).is_dir():
        return RootError(f"{shown(source)} is a folder here: the index follows it without updates.")
    names = [entry.text for entry in locked.values()]
    nearest = near(text, [*names, *locked])
    there = f"There are: {listed(names, _MOST_NAMED)}." if names else "Nothing was added."
    hint = f"Did you mean: {', '.join(nearest)}?" if nearest else there
    return RootError(f"{shown(source)} was not added. {hint}")


def adding(sources: Iterable[str], settings: Settings) -> RootChange:
    """Return the change that adds sources to the user's index, or to another that is named.

    The first index of the user takes up what hosts look for too.
    """
    is_named = settings.roots or settings.sources.get("index_dir") == "flag"
    settings = of_own_index(settings)
    is_first = not is_named and request_of(settings) is None
    follows: Follows = "hosts" if is_first else "projects"
    return RootChange(list(map(_root, sources)), "add", settings, follows=follows)


def _root(source: str) -> Path | str:
    return source if is_bundle(source) else Path(source)


def remove_added(sources: Collection[str], settings: Settings, options: IndexOptions) -> int:
    """Take sources out of an index and the lock file, and return how many skills it holds then.

    What neither this index nor the user's holds any more leaves the lock file alone.
    """
    locked = read_lock()
    held = held_roots(settings) | held_roots(load_settings(index_dir=user_index_dir()))
    gone = [source for source in sources if source not in locked or key_of(source) in held]
    indexed = _take_out(list(map(_root, gone)), settings, options)
    unpin(sources)
    return indexed


def _take_out(roots: Sequence[Path | str], settings: Settings, options: IndexOptions) -> int:
    from skillsearch.index.corpus import open_current
    from skillsearch.index.skill_index import SkillIndex

    folder = IndexFolder(settings.index_dir.absolute())
    if not roots:
        opened = open_current(folder)
        return len(opened.corpus.documents) if opened else 0
    if folder.exists() and _is_cleared(folder, roots, settings):
        return 0
    report = SkillIndex.build(RootChange(roots, "remove", settings), folder.path, options)[1]
    forget_report(folder.path)
    return report.indexed


def _is_cleared(folder: IndexFolder, roots: Sequence[Path | str], settings: Settings) -> bool:
    """Empty the index if it holds nothing but these roots, and its user chose no others.

    Where hosts look, a folder that the user took out would come back with the next index.
    """
    gone, usual = set(map(key_of, roots)), usual_folders()
    with folder.lock():
        held = last_request(folder)
        if held is None or held.follows == "named":
            return False
        if any(key in usual or project_around(key) for key in held.left_out):
            return False
        stays = set(map(key_of, held.named)) ^ gone or gone & set(map(key_of, settings.index_roots))
        if not stays:
            folder.clear()
        return not stays
