"""An index of skills in Milvus, searched as `SkillIndex` searches one on disk."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from skillsearch.environ import milvus_token
from skillsearch.index.dense.channels import QueryEmbedders
from skillsearch.index.documents import Document
from skillsearch.index.request import IndexRequest
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.search import SearchRequest
from skillsearch.remote.client import MilvusServer, check_collection
from skillsearch.remote.rows import document_of
from skillsearch.remote.searching import TRIES, Searcher
from skillsearch.roots.sources import note_index
from skillsearch.types import IndexReport, Languages, Progress, SearchResult, Skill, System

if TYPE_CHECKING:
    from skillsearch.index.corpus import IndexSettings


class RemoteIndex:
    """An index of skills in Milvus.

    A search sees one version of it, the newest when the search begins, whatever is written
    meanwhile. Names, scores, evidence, threshold and abstention match `SkillIndex`; Milvus only
    selects the candidates. Every method raises `RemoteError` if the server does not answer.
    """

    def __init__(
        self,
        server: MilvusServer,
        collection: str,
        *,
        calibration: Calibration | None = None,
        device: str | None = None,
    ) -> None:
        """Wrap a connection to an index; use `from_roots` or `open` instead."""
        self._server = server
        self._collection = collection
        self._calibration = calibration or default_calibration()
        embedders = QueryEmbedders(device=device)
        self._searcher = Searcher(server, collection, embedders, self._calibration)

    @classmethod
    def from_roots(
        cls,
        roots: str | Path | Iterable[str | Path],
        *,
        uri: str,
        collection: str = "skillsearch",
        model: str = "onnx",
        with_body: bool = True,
        languages: Languages = "auto",
        device: str | None = None,
        token: str | None = None,
        progress: Progress | None = None,
    ) -> RemoteIndex:
        """Index folders of skills in Milvus, or bring their index up to date, and open it.

        Args:
            roots: As in `SkillIndex.from_roots`; the index holds only their skills.
            uri: Address of the server, such as ``http://127.0.0.1:19530``.
            collection: Name of the index.
            model: As in `SkillIndex.from_roots`.
            with_body: False to index names and descriptions alone.
            languages: Which languages to index for; see `skillsearch.types.LANGUAGES`.
            device: As in `SkillIndex.from_roots`.
            token: For the server; None for ``SKILLSEARCH_MILVUS_TOKEN`` or that of the address.
            progress: Called with the stage, how many are done, and how many there are.

        Returns:
            The opened index.

        Raises:
            ConfigError: When the address or the name cannot be used.
            RootError: When a root is missing, unreadable or not a folder, or cannot be unpacked.
            EmbedderError: When the embedder cannot be loaded.
            LockTimeoutError: When another process is writing the index.
            MissingDependencyError: When pymilvus is not installed.
            RemoteError: When the server does not answer or refuses.
        """
        from skillsearch.roots.bundles import local_roots

        given = [roots] if isinstance(roots, str | Path) else list(roots)
        paths, sources = local_roots(given)
        index, _ = cls.build(
            IndexRequest(paths, model, with_body, sources, languages),
            uri,
            collection=collection,
            device=device,
            token=token,
            progress=progress,
        )
        return index

    @classmethod
    def build(
        cls,
        request: IndexRequest,
        uri: str,
        *,
        collection: str = "skillsearch",
        device: str | None = None,
        token: str | None = None,
        progress: Progress | None = None,
    ) -> tuple[RemoteIndex, IndexReport]:
        """Bring an index in Milvus up to date; return it opened, with a report.

        All but `request` is as in `from_roots`, as are the errors.
        """
        # A search needs neither the parser nor the builder: import them only here.
        from skillsearch.embedders.embedder import load_embedder
        from skillsearch.remote.indexing import Indexing

        index = cls._connect(uri, collection, token, device)
        for root in request.roots:
            note_index(root, f"the collection {collection} in Milvus")
        try:
            load = partial(load_embedder, device=device)
            run = Indexing(index._server, collection, request, load, progress=progress)
            report = run.run()
        except BaseException:
            index.close()
            raise
        index._searcher.embedders.renew(run.embedders)
        return index, report

    @classmethod
    def open(
        cls,
        uri: str,
        *,
        collection: str = "skillsearch",
        device: str | None = None,
        token: str | None = None,
    ) -> RemoteIndex:
        """Open an index in Milvus; the arguments are as in `from_roots`.

        Raises:
            ConfigError: When the address or the name cannot be used.
            IndexNotFoundError: When there is no index of this name that can be searched.
            MissingDependencyError: When pymilvus is not installed.
            RemoteError: When the server does not answer.
        """
        index = cls._connect(uri, collection, token, device)
        try:
            index._searcher.view()
        except BaseException:
            index.close()
            raise
        return index

    @classmethod
    def _connect(
        cls, uri: str, collection: str, token: str | None, device: str | None
    ) -> RemoteIndex:
        check_collection(collection)
        server = MilvusServer(uri, milvus_token() if token is None else token)
        return cls(server, collection, device=device)

    def __enter__(self) -> RemoteIndex:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def __len__(self) -> int:
        return self._searcher.view().head.documents

    @property
    def generation(self) -> str:
        """Name and version of the generation that readers see now."""
        view = self._searcher.view()
        return f"{view.generation.documents}@{view.head.version}"

    @property
    def settings(self) -> IndexSettings:
        """The settings that the index was made with."""
        return self._searcher.view().head.settings

    @property
    def skipped(self) -> int:
        """SKILL.md files that could not be indexed."""
        return self._searcher.view().head.skipped

    def documents(self) -> Iterator[Document]:
        """Read all documents, in no order, with one page in memory at a time."""
        return map(document_of, self._searcher.view().rows(["record"]))

    def search(
        self,
        query: str,
        n: int = 5,
        threshold: float | None = None,
        *,
        system: System = "hybrid",
        explain: bool = False,
        include_hidden: bool = True,
        exclude: Collection[str] = (),
    ) -> SearchResult:
        """Find the skills that fit a request, or none, as `SkillIndex.search` does.

        With `explain`, a section of a body is only named if its file is on this machine.

        Raises:
            QueryError: When the query is empty or too long, or n or threshold cannot be used.
            EmbedderError: When the embedder cannot be loaded, or is not the one of the index.
            IndexNotFoundError: When the index is gone.
        """
        started = time.perf_counter()
        request = SearchRequest(
            query, n, threshold, system, explain, include_hidden, frozenset(exclude)
        )
        hits, votes = self._searcher.answer(request)
        seconds = time.perf_counter() - started
        cut = request.cut(self._calibration)
        return SearchResult(query, cut, hits, not hits, seconds, votes)

    def find(self, name: str) -> Document:
        """Find the document that a name means, as `SkillIndex.find` does.

        Raises:
            SkillNotFoundError: When there is none; names similar ones that a search finds.
            VersionNotFoundError: When no version fits; names those there are.
            AmbiguousNameError: When one root has several that versions do not tell apart.
        """
        return self._searcher.find(name, self._searcher.view())

    def get(self, name: str) -> Skill:
        """Read a skill by its name as it was indexed, whatever its file is now.

        Raises:
            SkillNotFoundError: As `find` does, and its other errors.
        """
        from skillsearch.skills.parser import parse_skill

        for _ in range(TRIES):
            view = self._searcher.view()
            document = self._searcher.find(name, view)
            data = view.content(document.doc_id)
            if data is not None:
                path, root = Path(document.path), Path(document.root)
                return parse_skill(data, doc_id=document.doc_id, path=path, root=root)[0]
        raise self._searcher.overtaken()

    def delete(self, doc_ids: Collection[str]) -> int:
        """Remove documents by id and return how many there were; unknown ids are ignored.

        The next indexing brings back those on disk. Until then, a skill that one of them shadowed
        stays shadowed.

        Raises:
            IndexNotFoundError: When there is no index.
            LockTimeoutError: When another process is writing the index.
        """
        from skillsearch.remote.row_writer import delete

        return delete(self._server, self._collection, doc_ids)
