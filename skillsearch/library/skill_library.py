"""The façade: all skills of an environment, found by name or by search, loaded on demand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from skillsearch.config import MAX_N
from skillsearch.errors import ParseError, SkillError
from skillsearch.index.documents import Document, DocumentStore
from skillsearch.index.fitted import default_calibration
from skillsearch.index.names import find_by_name
from skillsearch.index.search import SearchRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.order import LoadOrder, load_order
from skillsearch.library.precedence import Shadowed, find_shadowed
from skillsearch.library.source import Changes, IndexSource, ScannedSource, Source
from skillsearch.safe_text import one_line
from skillsearch.skills.listing import list_files
from skillsearch.skills.pages import read_page
from skillsearch.skills.parser import decode_skill_md, parse_skill
from skillsearch.skills.resources import content_hash, read_skill_md, script_path
from skillsearch.types import Diagnostic, FileContent, Hit, Root, SearchResult, Skill

_CACHED_SKILLS = 32
_MOST_CACHED_SKILLS = 1_000
_MAX_NAME_CHARS = 256
_DOC_SUFFIXES = (".md", ".txt")


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A skill with all that an agent needs to follow it.

    Attributes:
        document: What the library knows of it.
        skill: The skill as it is on disk now.
        stale: True where its SKILL.md has changed since the library looked.
        files: Its other files, sorted.
        files_truncated: True where there are more files than are listed.
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
        self._parsed: OrderedDict[tuple[str, str], Skill] = OrderedDict()
        self._kept = _CACHED_SKILLS
        self._looked_at: DocumentStore | None = None
        self._shadowed: tuple[Shadowed, ...] = ()
        self._shadowed_ids: frozenset[str] = frozenset()
        self._listed: tuple[Document, ...] | None = None

    @classmethod
    def from_roots(
        cls,
        roots: str | Path | Iterable[str | Path],
        *,
        index_dir: str | Path | None = None,
        model: str = "onnx",
    ) -> SkillLibrary:
        """Read the metadata of all skills below some folders.

        No index is needed for this; it is made, or brought up to date, by the first search. A
        folder that is missing is a diagnostic, and looked for again by `refresh`.

        Args:
            roots: One folder, or several in order of precedence: a project's before the user's.
            index_dir: Folder of the index; by default one for these roots in the user's cache.
            model: What to load the embedder by, as in `SkillIndex.from_roots`.

        Returns:
            The library.
        """
        given = [roots] if isinstance(roots, str | Path) else list(roots)
        paths = [Path(root).expanduser().absolute() for root in given]
        place = Path(index_dir).absolute() if index_dir else None
        return cls(ScannedSource(paths, place, model))

    @classmethod
    def open(cls, index_dir: str | Path | None = None) -> SkillLibrary:
        """Take the skills of an index that was built before.

        Args:
            index_dir: Folder of the index; by default the one that the settings name.

        Returns:
            The library.

        Raises:
            IndexNotFoundError: When there is none, and nothing says what it should hold.
        """
        return cls.of_index(SkillIndex.open(index_dir))

    @classmethod
    def of_index(cls, index: SkillIndex) -> SkillLibrary:
        """Take the skills of an opened index.

        Args:
            index: The index; `refresh` brings it up to date as well.

        Returns:
            The library.
        """
        return cls(IndexSource(index))

    def __len__(self) -> int:
        return len(self._source.documents)

    @property
    def roots(self) -> tuple[Root, ...]:
        """The roots that exist, in order of precedence."""
        return self._source.roots

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
        self.shadowed()
        if self._listed is None:
            meant = (d for d in self._source.documents if d.doc_id not in self._shadowed_ids)
            self._listed = tuple(sorted(meant, key=lambda d: (d.name.casefold(), d.doc_id)))
        if include_hidden:
            return self._listed
        return tuple(document for document in self._listed if not document.hidden)

    def shadowed(self) -> tuple[Shadowed, ...]:
        """Return the skills that a plain name does not mean, each with the one it means instead."""
        documents = self._source.documents
        if self._looked_at is not documents:
            self._shadowed = find_shadowed(documents, self._root_paths())
            self._shadowed_ids = frozenset(item.document.doc_id for item in self._shadowed)
            self._listed = None
            self._looked_at = documents
        return self._shadowed

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
        return find_by_name(name, self._source.documents, self._root_paths())

    def in_folder(self, folder: str) -> Document | None:
        """Find a skill by the name of its folder.

        Args:
            folder: Last part of the skill folder's path, in any case.

        Returns:
            Its document, of several the first in order of precedence; None where there is none.
        """
        wanted = folder.casefold()
        order = {path: place for place, path in enumerate(self._root_paths())}
        found = [
            document
            for document in self._source.documents
            if Path(document.path).parent.name.casefold() == wanted
        ]
        return min(found, key=lambda d: order.get(d.root, len(order)), default=None)

    def handle(self, found: Document | Hit | Skill) -> str:
        """Return what to show as the name of a skill: `find` takes it and finds no other.

        Args:
            found: The skill.

        Returns:
            Its name, on one line and without hidden characters; its id where that would mean
            another skill or none.
        """
        name = one_line(found.name, _MAX_NAME_CHARS)
        meant = self._resolve(name)
        is_meant = meant is not None and meant.doc_id == found.doc_id
        return name if is_meant else one_line(found.doc_id)

    def get(self, name: str) -> Skill:
        """Read a skill as it is on disk now.

        Args:
            name: As in `find`.

        Returns:
            The skill; the same object as before while its file has the same bytes.

        Raises:
            SkillNotFoundError: When there is none; names up to five that come near.
            AmbiguousNameError: When one root has several that no version tells apart.
            ParseError: When its file can no longer be read as a skill.
        """
        return self._read(self.find(name))

    def load(self, name: str) -> LoadedSkill:
        """Read a skill and list its files.

        Args:
            name: As in `find`.

        Returns:
            The skill, flagged ``stale`` where it has changed since the library looked.

        Raises:
            SkillNotFoundError: When there is none; names up to five that come near.
            AmbiguousNameError: When one root has several that no version tells apart.
            ParseError: When its file can no longer be read as a skill.
        """
        document = self.find(name)
        skill = self._read(document)
        files, truncated = list_files(skill.path.parent)
        stale = skill.content_hash != document.content_hash
        return LoadedSkill(document, skill, stale, files, truncated)

    def source(self, name: str) -> str:
        """Return the whole SKILL.md of a skill as text, frontmatter included.

        Args:
            name: As in `find`.

        Returns:
            The text, decoded as the parser does.

        Raises:
            SkillNotFoundError: When there is none; names up to five that come near.
            ParseError: When its file cannot be read.
        """
        data, _ = read_skill_md(Path(self.find(name).path))
        return decode_skill_md(data)[0]

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
            SkillNotFoundError: When there is no such skill.
            UnsafePathError: When the path leads out of the skill or to something that is no file.
            SkillError: When there is no such file, or offset or limit cannot be used.
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
            SkillNotFoundError: When there is no such skill.
            UnsafePathError: When the path leads out of the folder or to something that is no file.
            SkillError: When there is no such file.
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
        """Find the skills that fit a request, or none; those that others shadow are left out.

        Args:
            query: What is to be done, in words.
            n: How many hits at most.
            threshold: Lowest accepted score; by default that of `SkillIndex.search`.
            include_hidden: True to find skills that ask not to be offered to models as well.

        Returns:
            The hits, best first.

        Raises:
            QueryError: When the query is empty or too long, or n or threshold cannot be used.
            StorageError: When the index has to be made and cannot be written.
        """
        index = self._source.index()
        if index is None:
            request = SearchRequest(query, n, threshold, "hybrid", False, include_hidden)
            return SearchResult(query, request.cut(default_calibration()), (), True, 0.0)
        self.shadowed()
        left_out = self._shadowed_ids
        wanted = n
        while True:
            found = index.search(query, wanted, threshold, include_hidden=include_hidden)
            kept = [hit for hit in found if hit.doc_id not in left_out]
            if len(kept) >= n or len(found) < wanted or wanted >= MAX_N:
                break
            wanted = min(max(2 * wanted, wanted + len(left_out)), MAX_N)
        hits = tuple(replace(hit, rank=rank) for rank, hit in enumerate(kept[:n], start=1))
        return replace(found, hits=hits, abstained=not hits)

    def is_current(self) -> bool:
        """Tell, by the stat of every folder and file, whether the disk still looks the same."""
        return self._source.is_current()

    def refresh(self) -> Changes:
        """Look at the disk again; with nothing changed, no file is opened.

        Returns:
            What came, changed and went.

        Raises:
            SkillSearchError: When an index that was built before cannot be brought up to date.
        """
        before = self._source.documents
        self._source.refresh()
        after = self._source.documents
        return Changes() if before is after else Changes.between(before, after)

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
        return load_order(list(names), self._resolve)

    def preload(self, names: Iterable[str] | None = None) -> tuple[str, ...]:
        """Read skills ahead of their use and keep them, so that getting them parses nothing.

        Args:
            names: The skills, each as in `find`; None for all that are listed. Of more than
                1,000 only the first are read.

        Returns:
            Ids of the skills that were read; one that cannot be read stops nothing.

        Raises:
            SkillNotFoundError: When a name is unknown.
        """
        wanted = self.list() if names is None else [self.find(name) for name in names]
        wanted = wanted[:_MOST_CACHED_SKILLS]
        self._kept = max(self._kept, len(wanted))
        read = []
        for document in wanted:
            with suppress(ParseError):
                self._read(document)
                read.append(document.doc_id)
        return tuple(read)

    def _read(self, document: Document) -> Skill:
        """Read a skill from disk; what was parsed of the same bytes before is used again."""
        path = Path(document.path)
        data, _ = read_skill_md(path)
        key = (document.doc_id, content_hash(data))
        skill = self._parsed.get(key)
        if skill is None:
            root = Path(document.root)
            skill, _ = parse_skill(data, doc_id=document.doc_id, path=path, root=root)
            self._parsed[key] = skill
        self._parsed.move_to_end(key)
        while len(self._parsed) > self._kept:
            self._parsed.popitem(last=False)
        return skill

    def _resolve(self, name: str) -> Document | None:
        """Return the skill that a requirement means, or None."""
        try:
            return find_by_name(name, self._source.documents, self._root_paths(), suggest=False)
        except SkillError:
            return None

    def _folder(self, name: str) -> Path:
        """Return the folder of a skill."""
        return Path(self.find(name).path).parent

    def _root_paths(self) -> Sequence[str]:
        """Return the paths of the roots, in order of precedence."""
        return [str(root.path) for root in self.roots]
