"""The façade: all skills of an environment, found by name or by search, loaded on demand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skillsearch.errors import ParseError
from skillsearch.index.documents import Document
from skillsearch.index.names import Shadowed
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.search import SearchRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.naming import LoadOrder, Naming, load_order
from skillsearch.library.source import Changes, IndexSource, ScannedSource, Source
from skillsearch.roots.bundles import local_root
from skillsearch.skills.parser import decode_skill_md, parse_skill
from skillsearch.skills.resources import content_hash as hash_of
from skillsearch.skills.resources import list_files, read_page, read_skill_md, script_path
from skillsearch.types import (
    Diagnostic,
    FileContent,
    Hit,
    IndexProgress,
    Languages,
    Root,
    SearchResult,
    Skill,
)

_DOC_SUFFIXES = (".md", ".txt")
MAX_PRELOADED_SKILLS = 1_000
_KEPT_SKILLS = 32


class SkillLibrary:
    """All skills of an environment.

    It shows the skills as of its creation or its last `refresh`; what it loads is always read from
    the disk. If several skills share a name, the first root wins, and within a root the newest
    version. One library belongs to one thread.
    """

    def __init__(self, source: Source) -> None:
        """Wrap a source of skills; use `from_roots` or `open` instead."""
        self._source = source
        self._reader = SkillReader()
        self._known = Naming(source.documents, source.roots)

    @classmethod
    def from_roots(
        cls,
        roots: str | Path | Iterable[str | Path],
        *,
        index_dir: str | Path | None = None,
        model: str = "onnx",
        languages: Languages = "auto",
        executor: Executor | None = None,
    ) -> SkillLibrary:
        """Read the metadata of all skills below some folders.

        The first search makes the index, or brings it up to date. A missing folder becomes a
        diagnostic, and `refresh` looks for it again.

        Args:
            roots: Folders, archives, and URLs of an archive or a SKILL.md, in order of precedence.
            index_dir: Folder of the index; by default one for these roots in the user's cache.
            model: Model spec of the embedder, as in `SkillIndex.from_roots`.
            languages: The languages to index for, likewise.
            executor: Makes the index; until then searches use the previous one, or words alone.

        Returns:
            The library.

        Raises:
            RootError: When an archive cannot be fetched or unpacked.
        """
        given = [roots] if isinstance(roots, str | Path) else roots
        paths = [local_root(root) for root in given]
        place = Path(index_dir).absolute() if index_dir else None
        return cls(ScannedSource(paths, place, model, executor, languages=languages))

    @classmethod
    def open(
        cls, index_dir: str | Path | None = None, *, executor: Executor | None = None
    ) -> SkillLibrary:
        """Take the skills of an existing index, by default the one that the settings name.

        With an executor, `refresh` begins to bring the index up to date, and a later one shows
        what it found.

        Raises IndexNotFoundError when there is none, and nothing says what it should hold.
        """
        return cls(IndexSource(SkillIndex.open(index_dir), executor))

    @classmethod
    def of_index(cls, index: SkillIndex) -> SkillLibrary:
        """Take the skills of an opened index, which `refresh` brings up to date."""
        return cls(IndexSource(index))

    def __len__(self) -> int:
        return len(self._source.documents)

    @property
    def roots(self) -> tuple[Root, ...]:
        """The roots that exist, in order of precedence."""
        return self._source.roots

    @property
    def is_indexing(self) -> bool:
        """Whether the executor is making an index that is not searched yet."""
        return self._source.is_indexing

    @property
    def progress(self) -> IndexProgress | None:
        """Progress of the first index in the executor; None once it is searched."""
        return self._source.progress

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything that could not be read or is odd, by path."""
        return self._source.diagnostics

    def list(self, *, include_hidden: bool = False) -> tuple[Document, ...]:
        """List the skills that names mean, by name, ties by id; shadowed ones are left out.

        Skills that ask not to be offered to models are only listed with `include_hidden`.
        """
        listed = self._names.listed
        return listed if include_hidden else tuple(d for d in listed if not d.hidden)

    def shadowed(self) -> tuple[Shadowed, ...]:
        """Return the skills that a plain name does not mean, each with the one it means."""
        return self._names.shadowed

    def find(self, name: str) -> Document:
        """Find the skill that a name means.

        `name` is a name in any case; ``root:name`` or an id if several skills share it; or
        ``name@constraint`` for a version, such as ``pdf@>=1.2,<2``.

        Raises SkillNotFoundError when there is none; lists up to five similar names;
        AmbiguousNameError when one root has several that no version tells apart.
        """
        return self._names.find(name)

    def in_folder(self, folder: str) -> Document | None:
        """Return the first skill whose folder has a name, in any case; None if there is none."""
        return self._names.in_folder(folder)

    def handle(self, found: Document | Hit | Skill) -> str:
        """Return the name to show for a skill: `find` takes it and finds this skill.

        It is the skill's name on one line, without hidden characters, or its id if that name
        would mean another skill or none.
        """
        return self._names.handle(found)

    def get(self, name: str) -> Skill:
        """Read a skill as it is on disk now; the same object while its bytes are the same."""
        return self._reader.read(self.find(name))

    def load(self, name: str) -> LoadedSkill:
        """Read a skill and list its files; ``stale`` tells that it changed meanwhile."""
        return self._reader.load(self.find(name))

    def source(self, name: str) -> str:
        """Return the whole SKILL.md of a skill as text, frontmatter included."""
        return decode_skill_md(read_skill_md(Path(self.find(name).path))[0])[0]

    def files(self, name: str) -> tuple[tuple[str, ...], bool]:
        """List the files of a skill besides SKILL.md, sorted, and whether the list is truncated."""
        return list_files(self._folder(name))

    def doc_files(self, name: str) -> tuple[str, ...]:
        """List the ``.md`` and ``.txt`` files of a skill besides SKILL.md, sorted."""
        files, _ = self.files(name)
        return tuple(file for file in files if file.lower().endswith(_DOC_SUFFIXES))

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
        """Read a file of a skill, whole or a page of it.

        Args:
            name: As in `find`.
            path: Path below the skill folder, not trusted.
            offset: First byte.
            limit: Most bytes to return; None for all.
            content_hash: Hash from an earlier page; if it is another now, the page is ``stale``.
            folders: If given, the only folders of the skill that may be read from.

        Returns:
            The page: text, or base64 if the file is not UTF-8 text.

        Raises:
            UnsafePathError: When the path leads out of the skill or is not a file.
            SkillError: When there is no such skill or file, or offset or limit cannot be used.
        """
        return read_page(
            self._folder(name),
            path,
            offset=offset,
            limit=limit,
            content_hash=content_hash,
            folders=folders,
        )

    def script_path(self, name: str, script: str) -> Path:
        """Return the absolute path of a script in the ``scripts`` folder of a skill.

        `script` is not trusted: it is checked as if it were opened.

        Raises UnsafePathError when the path leads out of the folder or is not a file; SkillError
        when there is no such skill or file.
        """
        return script_path(self._folder(name), script)

    def search(
        self,
        query: str,
        n: int = 5,
        threshold: float | None = None,
        *,
        include_hidden: bool = False,
    ) -> SearchResult:
        """Find the skills that match a request, or none, as `SkillIndex.search` does.

        `SearchResult.words_only` says that the first index is still being made.

        Raises QueryError when the query is empty or too long, or n or threshold cannot be used;
        IndexingError when an executor has just begun to make the first index; StorageError when the
        index cannot be written.
        """
        request = SearchRequest(query, n, threshold, "hybrid", False, include_hidden)
        index = self._source.index()
        if index is None:
            return SearchResult(query, request.cut(default_calibration()), (), True, 0.0)
        return index.search(query, n, threshold, include_hidden=include_hidden)

    def is_current(self) -> bool:
        """Return, by the stat of every folder and file, whether the disk still looks the same."""
        return self._source.is_current()

    def refresh(self) -> Changes:
        """Look at the disk again; with nothing changed, no file is opened."""
        before = self._source.documents
        self._source.refresh()
        return Changes.between(before, self._source.documents)

    def register(self, content: str) -> Document:
        """Add a skill, given as a whole SKILL.md, for the lifetime of this library.

        It takes precedence over all roots, and replaces a registered skill of the same name.

        Raises ParseError when it is not a skill; SkillError when the library is over a saved index.
        """
        return self._source.register(content)

    def add_root(self, root: str | Path) -> None:
        """Add a folder of skills after all others; if it is missing, `refresh` looks for it.

        Raises SkillError when the library is over a saved index.
        """
        self._source.add_root(Path(root).expanduser().absolute())

    def load_order(self, names: Iterable[str]) -> LoadOrder:
        """Order skills and everything they need so that each comes after what it needs."""
        return load_order(list(names), self._names.resolve)

    def preload(self, names: Iterable[str] | None = None) -> tuple[str, ...]:
        """Read skills, by default all, ahead of their use, so that getting them parses nothing.

        At most 1,000 are read; one that cannot be read is skipped. Returns the ids of those read.
        """
        return self._reader.preload(
            self.list() if names is None else [self.find(name) for name in names]
        )

    @property
    def _names(self) -> Naming:
        """The meaning of names, recomputed if the documents have changed."""
        if self._known.documents is not self._source.documents:
            self._known = Naming(self._source.documents, self._source.roots)
        return self._known

    def _folder(self, name: str) -> Path:
        """Return the folder of a skill."""
        return Path(self.find(name).path).parent


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A skill with everything an agent needs to follow it.

    Attributes:
        document: The skill as the library knows it.
        skill: The skill as it is on disk now.
        stale: Whether its SKILL.md changed since the library looked.
        files: Its other files, sorted.
        files_truncated: Whether there are more files than are listed.
    """

    document: Document
    skill: Skill
    stale: bool
    files: tuple[str, ...]
    files_truncated: bool

    @property
    def folder(self) -> Path:
        """The skill folder."""
        return self.skill.path.parent


class SkillReader:
    """Reads skills, and keeps the most recent ones while their bytes are the same."""

    def __init__(self) -> None:
        """Begin with none."""
        self._kept = _KEPT_SKILLS
        self._parsed: OrderedDict[tuple[str, str], Skill] = OrderedDict()

    def preload(self, documents: Sequence[Document]) -> tuple[str, ...]:
        """Read skills and keep that many from now on; return the ids of those that can be read."""
        wanted = documents[:MAX_PRELOADED_SKILLS]
        self._kept = max(self._kept, len(wanted))
        read = []
        for document in wanted:
            with suppress(ParseError):
                self.read(document)
                read.append(document.doc_id)
        return tuple(read)

    def read(self, document: Document) -> Skill:
        """Read a skill from disk; raises ParseError if it is not one any more."""
        path = Path(document.path)
        data, _ = read_skill_md(path)
        key = (document.doc_id, hash_of(data))
        skill = self._parsed.get(key)
        if skill is None:
            root = Path(document.root)
            skill, _ = parse_skill(data, doc_id=document.doc_id, path=path, root=root)
            self._parsed[key] = skill
        self._parsed.move_to_end(key)
        while len(self._parsed) > self._kept:
            self._parsed.popitem(last=False)
        return skill

    def load(self, document: Document) -> LoadedSkill:
        """Read a skill and list its files."""
        skill = self.read(document)
        files, truncated = list_files(skill.path.parent)
        stale = skill.content_hash != document.content_hash
        return LoadedSkill(document, skill, stale, files, truncated)
