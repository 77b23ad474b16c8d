"""The façade: all skills of an environment, found by name or by search, loaded on demand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from pathlib import Path

from skillsearch.index.documents import Document
from skillsearch.index.precedence import Shadowed
from skillsearch.index.search.fitted import default_calibration
from skillsearch.index.search.search import SearchRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.naming import Naming
from skillsearch.library.order import LoadOrder, load_order
from skillsearch.library.reader import LoadedSkill, SkillReader
from skillsearch.library.source import Changes, IndexSource, ScannedSource, Source
from skillsearch.roots.bundles import local_root
from skillsearch.skills.listing import list_files
from skillsearch.skills.parser import decode_skill_md
from skillsearch.skills.resources import read_page, read_skill_md, script_path
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


class SkillLibrary:
    """All skills of an environment.

    It shows the skills as they were when it was made, until `refresh`; what it loads is always
    read from the disk. Of several skills with one name, that of the first root is meant, and
    within a root the newest version. One library belongs to one thread.
    """

    def __init__(self, source: Source) -> None:
        """Wrap a source of skills; use `from_roots` or `open` instead.

        Args:
            source: Where the skills come from.
        """
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

        The first search makes the index, or brings it up to date. A folder that is missing is a
        diagnostic, and looked for again by `refresh`.

        Args:
            roots: Folders, archives, and URLs of an archive or a SKILL.md, in order of precedence.
            index_dir: Folder of the index; by default one for these roots in the user's cache.
            model: What to load the embedder by, as in `SkillIndex.from_roots`.
            languages: Which languages to index for, likewise.
            executor: Makes the index; until then searches use that before, or else words alone.

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
        """Take the skills of an index that was built before.

        Args:
            index_dir: Folder of the index; by default the one that the settings name.
            executor: As in `from_roots`; then `refresh` begins to bring the index up to date, and
                a later one shows what it found.

        Returns:
            The library.

        Raises:
            IndexNotFoundError: When there is none, and nothing says what it should hold.
        """
        return cls(IndexSource(SkillIndex.open(index_dir), executor))

    @classmethod
    def of_index(cls, index: SkillIndex) -> SkillLibrary:
        """Take the skills of an opened index, which `refresh` brings up to date as well."""
        return cls(IndexSource(index))

    def __len__(self) -> int:
        return len(self._source.documents)

    @property
    def roots(self) -> tuple[Root, ...]:
        """The roots that exist, in order of precedence."""
        return self._source.roots

    @property
    def is_indexing(self) -> bool:
        """Whether its executor makes an index that is not searched yet."""
        return self._source.is_indexing

    @property
    def progress(self) -> IndexProgress | None:
        """How far the first index is, if its executor makes one; None once it is searched."""
        return self._source.progress

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What could not be read or is odd, by path."""
        return self._source.diagnostics

    def list(self, *, include_hidden: bool = False) -> tuple[Document, ...]:
        """List the skills that names mean.

        Args:
            include_hidden: True to list skills that ask not to be offered to models as well.

        Returns:
            The skills by name, ties by id; those that others shadow are left out.
        """
        listed = self._names.listed
        return listed if include_hidden else tuple(d for d in listed if not d.hidden)

    def shadowed(self) -> tuple[Shadowed, ...]:
        """Return the skills that a plain name does not mean, each with the one it means instead."""
        return self._names.shadowed

    def find(self, name: str) -> Document:
        """Find the skill that a name means.

        Args:
            name: A name in any case; ``root:name`` or an id where several skills share it;
                ``name@constraint`` for a version, such as ``pdf@>=1.2,<2``.

        Returns:
            Its document.

        Raises:
            SkillNotFoundError: When there is none; names up to five that come near.
            AmbiguousNameError: When one root has several that no version tells apart.
        """
        return self._names.find(name)

    def in_folder(self, folder: str) -> Document | None:
        """Return the first skill whose folder has a name, in any case; None where none has."""
        return self._names.in_folder(folder)

    def handle(self, found: Document | Hit | Skill) -> str:
        """Return what to show as the name of a skill: `find` takes it and finds no other.

        Args:
            found: The skill.

        Returns:
            Its name, on one line and without hidden characters; its id where that would mean
            another skill or none.
        """
        return self._names.handle(found)

    def get(self, name: str) -> Skill:
        """Read a skill as it is on disk now.

        Args:
            name: As in `find`.

        Returns:
            The skill; the same object as before while its file has the same bytes.

        Raises:
            SkillError: As `find`, or when its file can no longer be read as a skill.
        """
        return self._reader.read(self.find(name))

    def load(self, name: str) -> LoadedSkill:
        """Read a skill and list its files.

        Args:
            name: As in `find`.

        Returns:
            The skill, flagged ``stale`` where it has changed since the library looked.

        Raises:
            SkillError: As `get`.
        """
        return self._reader.load(self.find(name))

    def source(self, name: str) -> str:
        """Return the whole SKILL.md of a skill as text, frontmatter included.

        Args:
            name: As in `find`.

        Returns:
            The text, decoded as the parser does.

        Raises:
            SkillError: As `get`.
        """
        return decode_skill_md(read_skill_md(Path(self.find(name).path))[0])[0]

    def files(self, name: str) -> tuple[tuple[str, ...], bool]:
        """List the files of a skill, SKILL.md aside.

        Args:
            name: As in `find`.

        Returns:
            Paths below the skill folder, sorted, and whether some are missing from them.

        Raises:
            SkillError: When there is no such skill, or its folder cannot be read.
        """
        return list_files(self._folder(name))

    def doc_files(self, name: str) -> tuple[str, ...]:
        """List the documents of a skill: its ``.md`` and ``.txt`` files, SKILL.md aside.

        Args:
            name: As in `find`.

        Returns:
            Paths below the skill folder, sorted.

        Raises:
            SkillError: When there is no such skill, or its folder cannot be read.
        """
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
            offset: Byte at which to begin.
            limit: Bytes to return at most; None for all.
            content_hash: Hash that an earlier page told; another one now is flagged ``stale``.
            folders: Where given, the only folders of the skill that may be read from.

        Returns:
            The page: text, or base64 where the file is no UTF-8 text.

        Raises:
            UnsafePathError: When the path leads out of the skill or to something that is no file.
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
        """Return the absolute path of a script of a skill.

        Args:
            name: As in `find`.
            script: Path below its ``scripts`` folder, not trusted.

        Returns:
            The path, checked as if it were opened.

        Raises:
            UnsafePathError: When the path leads out of the folder or to something that is no file.
            SkillError: When there is no such skill or file.
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
        """Find the skills that fit a request, or none, as `SkillIndex.search` does.

        Args:
            query: What is to be done, in words.
            n: How many hits at most.
            threshold: Lowest accepted score; by default that of `SkillIndex.search`.
            include_hidden: True to find skills that ask not to be offered to models as well.

        Returns:
            The hits, best first; `SearchResult.words_only` says whether that is final.

        Raises:
            QueryError: When the query is empty or too long, or n or threshold cannot be used.
            IndexingError: When an executor has just begun to make the first index.
            StorageError: When the index has to be made and cannot be written.
        """
        request = SearchRequest(query, n, threshold, "hybrid", False, include_hidden)
        index = self._source.index()
        if index is None:
            return SearchResult(query, request.cut(default_calibration()), (), True, 0.0)
        return index.search(query, n, threshold, include_hidden=include_hidden)

    def is_current(self) -> bool:
        """Tell, by the stat of every folder and file, whether the disk still looks the same."""
        return self._source.is_current()

    def refresh(self) -> Changes:
        """Look at the disk again; with nothing changed, no file is opened.

        Returns:
            What came, changed and went.

        Raises:
            SkillSearchError: When a saved index cannot be brought up to date.
        """
        before = self._source.documents
        self._source.refresh()
        return Changes.between(before, self._source.documents)

    def register(self, content: str) -> Document:
        """Add a skill that lies in no root, for as long as this library lives.

        It comes before all roots, and replaces a registered skill of the same name.

        Args:
            content: A whole SKILL.md.

        Returns:
            Its document.

        Raises:
            ParseError: When it is no skill.
            SkillError: When the library is one over a saved index.
        """
        return self._source.register(content)

    def add_root(self, root: str | Path) -> None:
        """Add a folder of skills behind all others.

        Args:
            root: The folder; one that is missing is looked for by `refresh`.

        Raises:
            SkillError: When the library is one over a saved index.
        """
        self._source.add_root(Path(root).expanduser().absolute())

    def load_order(self, names: Iterable[str]) -> LoadOrder:
        """Order skills and all that they need so that each comes after what it needs.

        Args:
            names: Skills, each as in `find`.

        Returns:
            The order, with what is missing and what needs itself in a circle.
        """
        return load_order(list(names), self._names.resolve)

    def preload(self, names: Iterable[str] | None = None) -> tuple[str, ...]:
        """Read skills ahead of their use and keep them, so that getting them parses nothing.

        Args:
            names: Skills, each as in `find`; None for all. Of over 1,000 the first are read.

        Returns:
            Ids of the skills that were read; one that cannot be read stops nothing.

        Raises:
            SkillNotFoundError: When a name is unknown.
        """
        return self._reader.preload(
            self.list() if names is None else [self.find(name) for name in names]
        )

    @property
    def _names(self) -> Naming:
        """What names mean now; made anew when the documents are others."""
        if self._known.documents is not self._source.documents:
            self._known = Naming(self._source.documents, self._source.roots)
        return self._known

    def _folder(self, name: str) -> Path:
        """Return the folder of a skill."""
        return Path(self.find(name).path).parent
