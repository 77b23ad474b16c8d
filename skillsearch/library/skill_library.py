"""The façade: all skills of an environment, found by name or by search, loaded on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypedDict, TypeVar, Unpack

from skillsearch.errors import ParseError, SelectionError, SkillError, SkillNotFoundError
from skillsearch.index.documents.document import Document, name_hash
from skillsearch.index.documents.names import find_by_name, handle_of, is_in_folder
from skillsearch.index.documents.selecting import selected
from skillsearch.index.documents.shadowing import Shadowed, find_shadowed
from skillsearch.index.freshness import MAX_AGE
from skillsearch.index.indexing.changes import Changes
from skillsearch.index.roots.request import IndexConfig, IndexRequest
from skillsearch.index.roots.scope import folders_of, scope_of
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.options import LibrarySearchOptions, SearchOptions, check_query
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.library.load_order import LoadOrder, load_order
from skillsearch.library.source import IndexSource, ScannedSource, differences
from skillsearch.settings.config import load_only
from skillsearch.settings.table import Settings
from skillsearch.settings.user_folders import cache_dir
from skillsearch.skills.parser import read_skill, read_skill_text
from skillsearch.skills.resources import list_files, read_page, script_path
from skillsearch.text.safe_text import counted
from skillsearch.types.answers import SELECTING, Hit, SearchResult, Selection
from skillsearch.types.indexing import IndexProgress
from skillsearch.types.signatures import public, searches
from skillsearch.types.skills import STRICT, Diagnostic, FileContent, Root, Skill
from skillsearch.usage.log import UsageLog
from skillsearch.usage.recording import learn

MAX_PRELOADED_SKILLS = 1_000
_KEPT_SKILLS = 32
_GONE = "is gone: its SKILL.md was deleted or moved"

_T = TypeVar("_T")


class LibraryConfig(IndexConfig, total=False):
    """What a library of folders is configured with, as `SkillLibrary.from_roots` explains."""

    reader: str | None
    strict: bool


class LibraryOptions(TypedDict, total=False):
    """How a library answers, as `SkillLibrary` explains."""

    selection: Selection
    threshold: float | None
    usage: UsageLog | None
    checks_disk: bool


class _FolderOptions(LibraryConfig, LibraryOptions, total=False):
    """What a library of folders is given."""


def library_config(settings: Settings) -> LibraryConfig:
    """Return what settings say of a library, but for the skills that they select."""
    return {"model": settings.model, "trust": settings.trust, "reader": settings.reader}


@public({"trust": (), "strict": False})
class SkillLibrary:
    """All skills of an environment, as they are on disk, or were at most a second ago.

    `list`, `find`, `search` and all that loads a skill look at the disk first, as `Freshness` says;
    everything else tells of the last look, and `refresh` looks at once. What is loaded is always
    read from the disk. If several skills share a name, the first root wins, and within a root the
    newest version. One library belongs to one thread. Skills that its `selection`, which may be
    changed, leaves out are neither found nor listed. Searches that are given no `threshold` have
    the library's; they learn from `usage`, which toolsets add to. Without `checks_disk`, nothing is
    compared with the disk until `refresh`.
    """

    def __init__(
        self,
        source: IndexSource | ScannedSource,
        *,
        reader: str | None = None,
        selection: Selection = (),
        threshold: float | None = None,
        usage: UsageLog | None = None,
        checks_disk: bool = True,
    ) -> None:
        """Wrap a source of skills; use `from_roots` or `open` instead."""
        self._source, self._reader = source, reader
        self._threshold, self._checks_disk = threshold, checks_disk
        self.selection, self.usage = selection, usage
        self._refreshed = source.documents
        self._told = ""
        self._kept = _KEPT_SKILLS
        self._parsed: dict[str, Skill] = {}  # by path, the last used at the end
        self._known: tuple[DocumentStore, tuple[Shadowed, ...], tuple[Document, ...]] | None = None

    @classmethod
    def from_roots(
        cls,
        roots: str | Path | Iterable[str | Path],
        *,
        executor: Executor | None = None,
        **config: Unpack[_FolderOptions],
    ) -> SkillLibrary:
        """Read the metadata of all skills below some folders, archives and URLs.

        Takes the arguments of `SkillIndex.from_roots` and of `SkillLibrary`. What an index in
        `index_dir` holds besides stays there, and is served too. The first search makes the index,
        or brings it up to date; with an `executor` searches use the previous one until then, or
        words alone. A missing folder becomes a diagnostic, and `refresh` looks for it again. With
        `strict`, skills whose metadata are not as specified are left out, logged and diagnosed.
        What is None is asked of the settings, as is the `threshold`.

        Raises RootError when an archive cannot be fetched or unpacked.
        """
        request = replace(IndexRequest.of(roots, config), sources=())
        index_dir = config.get("index_dir")
        folder = Path(index_dir).absolute() if index_dir else None
        if (threshold := config.get("threshold")) is None:
            threshold = load_only("threshold", index_dir=folder or cache_dir()).threshold
        strict: Selection = (("strict", STRICT),) if config.get("strict") else ()
        return cls(
            ScannedSource(request, folder, executor),
            reader=config.get("reader"),
            selection=(*strict, *config.get("selection", ())),
            threshold=threshold,
            usage=config.get("usage"),
            checks_disk=config.get("checks_disk", True),
        )

    @classmethod
    def open(
        cls,
        index_dir: str | Path | None = None,
        *,
        executor: Executor | None = None,
        reader: str | None = None,
        **options: Unpack[LibraryOptions],
    ) -> SkillLibrary:
        """Take the skills of a saved index; large changes are indexed in the background.

        The executor does that, or else a thread. An IndexNotFoundError, RootError, EmbedderError or
        StorageError as of `SkillIndex.open`.
        """
        return cls(IndexSource(SkillIndex.open(index_dir), executor), reader=reader, **options)

    @classmethod
    def of_index(cls, index: SkillIndex, selection: Selection = ()) -> SkillLibrary:
        """Take the skills of an opened index, which only `refresh` brings up to date."""
        return cls(IndexSource(index), selection=selection, checks_disk=False)

    def __len__(self) -> int:
        return len(self._documents)

    def __repr__(self) -> str:
        return f"<SkillLibrary of {counted(len(self), 'skill')}>"

    @property
    def roots(self) -> tuple[Root, ...]:
        """The roots that exist, in order of precedence."""
        return self._source.roots

    @property
    def root_paths(self) -> Sequence[str]:
        """The paths of the roots; a SKILL.md of one may link to a text in another."""
        return [str(root.path) for root in self.roots]

    def root_of(self, skill: Document | Hit | Skill) -> Root:
        """Return the root of a skill."""
        return next(root for root in self.roots if str(root.path) == str(skill.root))

    @property
    def is_indexing(self) -> bool:
        """Whether the executor is making an index that is not searched yet."""
        return self._source.indexer.is_busy

    @property
    def index(self) -> SkillIndex | None:
        """The index that is searched; None until the first one is made."""
        return self._source.made

    @property
    def progress(self) -> IndexProgress | None:
        """Progress of the first index in the executor; None once it is searched."""
        return self._source.indexer.progress

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything that could not be read or is odd, by path."""
        skipped = self._documents.skipped if self.selection else ()
        return tuple(sorted((*self._source.diagnostics, *skipped), key=lambda item: item.path))

    def list(self, *, include_hidden: bool = False) -> tuple[Document, ...]:
        """List the skills that are not shadowed or, unless asked for, hidden, by name, then id."""
        self._look()
        _, listed = self._shadowed_and_listed()
        return listed if include_hidden else tuple(d for d in listed if not d.hidden)

    def shadowed(self) -> tuple[Shadowed, ...]:
        """Return the skills that a plain name does not mean, each with the one it means."""
        return self._shadowed_and_listed()[0]

    def find(self, name: str) -> Document:
        """Find the skill that a name means, as `SkillIndex.find` does.

        A SelectionError if the selection leaves it out; else a SkillNotFoundError,
        VersionNotFoundError, VersionConstraintError or AmbiguousNameError as there. Functions that
        take a name raise the same.
        """
        self._look()
        with suppress(SkillNotFoundError):
            return find_by_name(name, self._documents, self.root_paths, suggest=False)
        self._look(0)
        return self._find(name)

    def _find(self, name: str) -> Document:
        try:
            return find_by_name(name, self._documents, self.root_paths)
        except SkillNotFoundError as exc:
            reasons = (
                "is left out by the settings of skillsearch: change "
                f"{', '.join(SELECTING)} or profile there, or the option of that name.",
                "may be of another project, whose skills are not seen from here. Work there, or "
                "set all_projects in the user's settings of skillsearch.",
            )
            for reason, selection in zip(reasons, (scope_of(self.selection), ()), strict=True):
                documents = selected(self._source.documents, selection, self.roots)
                with suppress(SkillError):
                    find_by_name(name, documents, self.root_paths, suggest=False)
                    raise SelectionError(f"The skill {name!r} {reason}") from exc
            before = self._refreshed
            if name_hash(name.rpartition(":")[2]) in before.names[before.living]:
                raise SkillNotFoundError(name, exc.nearest, _GONE) from exc
            raise

    def in_folder(self, folder: str) -> Document | None:
        """Return the first skill in a folder of that name, ignoring case, or None."""
        order = {path: rank for rank, path in enumerate(self.root_paths)}
        inside = (document for document in self._documents if is_in_folder(document, folder))
        return min(inside, key=lambda d: order.get(d.root, len(order)), default=None)

    def handle(self, skill: Document | Hit | Skill) -> str:
        """Return the name to show for a skill: one that means it alone, whatever is selected."""
        return handle_of(skill, self._source.documents, self.root_paths)

    def get(self, name: str) -> Skill:
        """Read a skill as it is on disk now; the same object while its bytes are the same.

        The errors of `find`, and a ParseError if the file cannot be read as a skill.
        """
        return self._use(name, self._read)

    def load(self, name: str) -> LoadedSkill:
        """Read a skill and list its files; ``stale`` tells that a change cannot be indexed now.

        The errors of `get`, and a SkillError if the folder cannot be read.
        """

        def load(document: Document) -> LoadedSkill:
            skill = self._read(document)
            stale = skill.content_hash != document.content_hash
            return LoadedSkill(document, skill, stale, *list_files(skill.path.parent))

        if (loaded := self._use(name, load)).stale:
            self._look(0)
            loaded = self._use(name, load)
        return loaded

    def source(self, name: str) -> str:
        """Return the whole SKILL.md of a skill as text; errors as of `get`."""
        return self._use(name, lambda d: read_skill_text(Path(d.path), self.root_paths)[0])

    def files(self, name: str) -> tuple[tuple[str, ...], bool]:
        """List the files of a skill besides SKILL.md, sorted, and whether the list is truncated.

        The errors of `find`, and a SkillError if the folder cannot be read.
        """
        return self._use(name, lambda document: list_files(Path(document.path).parent))

    def doc_files(self, name: str) -> tuple[str, ...]:
        """List the ``.md`` and ``.txt`` files of a skill besides SKILL.md; errors as of `files`."""
        files, _ = self.files(name)
        return tuple(file for file in files if file.lower().endswith((".md", ".txt")))

    def read(
        self,
        name: str,
        path: str,
        *,
        offset: int = 0,
        limit: int | None = None,
        content_hash: str | None = None,
        folders: Sequence[str] = (),
    ) -> FileContent:
        """Read a file of a skill, whole or a page of bytes: text, or base64 if it is not UTF-8.

        The page is ``stale`` if an earlier one told another `content_hash`. If `folders` are given,
        only these may be read from. An UnsafePathError if the path, which is not trusted, leads out
        of the skill or to no file; a SkillError if there is none, or for unusable numbers; else the
        errors of `find`.
        """
        how = partial(read_page, offset=offset, limit=limit, content_hash=content_hash)
        return self._use(name, lambda d: how(Path(d.path).parent, path, folders=folders))

    def script_path(self, name: str, script: str) -> Path:
        """Return the absolute path of a script of a skill, checked as by `read`."""
        return self._use(name, lambda document: script_path(Path(document.path).parent, script))

    @searches(LibrarySearchOptions)
    def search(self, query: str, options: SearchOptions) -> SearchResult:
        """Find the selected skills that fit a request, or none, as `SkillIndex.search` does.

        A `threshold` or `reader` of None is the library's, or else the one of the settings;
        `include_hidden` is False by default; a `selection` adds to the library's.

        `SearchResult.words_only` says that the first index is still being made; an IndexingError
        is raised when an executor has just begun to, a StorageError when it cannot be written.
        """
        check_query(query)
        threshold = self._threshold if options.threshold is None else options.threshold
        reader, selection = options.reader or self._reader, (*self.selection, *options.selection)
        options = replace(options, threshold=threshold, reader=reader, selection=selection)
        self._look(selection=options.selected)
        if (index := self._source.index()) is None:
            return options.result(query, default_calibration())
        if isinstance(index, SkillIndex):
            learn(index, self.usage)
        return index.answer([query], options)[0]

    def is_current(self) -> bool:
        """Return, by the stat of every folder and file, whether the disk still looks the same."""
        return self._source.is_current()

    def refresh(self) -> Changes:
        """Look at the disk now, and return the changes since the refresh before, or the creation.

        With nothing changed, no file is opened. Over a saved index without an executor, the errors
        of `SkillIndex.refresh`.
        """
        self._source.refresh()
        before, self._refreshed = self._refreshed, self._source.documents
        return differences(before, self._refreshed)

    def take_note(self) -> str:
        """Return why the index lags behind the disk, each reason once; empty if it does not."""
        before, self._told = self._told, self._source.problem.partition(". ")[0]
        return "" if self._told == before else self._told

    def register(self, content: str) -> Document:
        """Add a skill, given as a whole SKILL.md, before all roots, as long as the library lives.

        It replaces one of the same name. A ParseError if it is too large or is not read as a skill;
        a SkillError over a saved index.
        """
        return self._source.register(content)

    def add_root(self, root: str | Path) -> None:
        """Add a folder of skills after all others; if it is missing, `refresh` looks for it.

        A SkillError over a saved index.
        """
        self._source.add_root(Path(root).expanduser().absolute())

    def load_order(self, names: Iterable[str]) -> LoadOrder:
        """Order skills and everything they need, each after what it needs."""
        self._look()
        return load_order(list(names), self._resolve)

    def preload(self, names: Iterable[str] | None = None) -> tuple[str, ...]:
        """Read skills, by default all, ahead of their use, at most 1,000; return their ids.

        Those that cannot be read are left out; the errors of `find` for a name.
        """
        named = self.list() if names is None else [self.find(name) for name in names]
        wanted = named[:MAX_PRELOADED_SKILLS]
        self._kept = max(self._kept, len(wanted))
        read = []
        for document in wanted:
            with suppress(ParseError):
                self._read(document)
                read.append(document.doc_id)
        return tuple(read)

    @property
    def _documents(self) -> DocumentStore:
        return selected(self._source.documents, self.selection, self.roots)

    def _shadowed_and_listed(self) -> tuple[tuple[Shadowed, ...], tuple[Document, ...]]:
        """Return the shadowed skills, and the others by name; computed once while none changes."""
        documents = self._documents
        if self._known is None or self._known[0] is not documents:
            shadowed = find_shadowed(documents, self.roots)
            hidden = {each.document.doc_id for each in shadowed}
            listed = [document for document in documents if document.doc_id not in hidden]
            listed.sort(key=lambda document: (document.name.casefold(), document.doc_id))
            self._known = (documents, shadowed, tuple(listed))
        return self._known[1:]

    def _resolve(self, name: str) -> Document | None:
        """Return the skill that a name means, or None; no similar names are looked for."""
        with suppress(SkillError):
            return find_by_name(name, self._documents, self.root_paths, suggest=False)
        return None

    def _read(self, document: Document) -> Skill:
        """Read a skill from disk, and keep the most recent ones while their bytes are the same."""
        path, root = Path(document.path), Path(document.root)
        cached = self._parsed.get(document.path)
        roots = self.root_paths
        skill = read_skill(path, doc_id=document.doc_id, root=root, cached=cached, roots=roots)
        self._parsed.pop(document.path, None)
        self._parsed[document.path] = skill
        while len(self._parsed) > self._kept:
            del self._parsed[next(iter(self._parsed))]
        return skill

    def _use(self, name: str, use: Callable[[Document], _T]) -> _T:
        """Use the skill that a name means; if its file is gone, look and find it again by name."""
        document = self.find(name)
        try:
            return use(document)
        except SkillError:
            if Path(document.path).exists():
                raise
        self._look(0)
        again = self._resolve(name) or self._resolve(document.name)
        if again and Path(again.path).exists():
            return use(again)
        is_root = not Path(document.root).is_dir()
        reason = f"cannot be read: its folder {document.alias!r} is gone" if is_root else _GONE
        raise SkillNotFoundError(name, (), reason)

    def _look(self, max_age: float = MAX_AGE, selection: Selection = ()) -> None:
        folders = folders_of(selection or self.selection)
        self._source.look(max_age if self._checks_disk else None, folders)


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A skill as the library knows it and, if `stale`, another on disk; with its other files."""

    document: Document
    skill: Skill
    stale: bool
    files: tuple[str, ...]
    files_truncated: bool

    @property
    def folder(self) -> Path:
        """The skill folder."""
        return self.skill.path.parent
