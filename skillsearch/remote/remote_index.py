"""The façade: an index of skills in Milvus, searched as `SkillIndex` searches one on disk."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from skillsearch.environ import milvus_token
from skillsearch.index.dense.channels import QueryEmbedders
from skillsearch.index.documents import Document
from skillsearch.index.request import IndexRequest
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.search import SearchRequest
from skillsearch.remote.address import check_collection
from skillsearch.remote.client import MilvusServer
from skillsearch.remote.rows import document_of
from skillsearch.remote.searching import TRIES, Searcher
from skillsearch.roots.sources import note_index
from skillsearch.types import IndexReport, Languages, Progress, SearchResult, Skill, System

if TYPE_CHECKING:
    from skillsearch.index.corpus import IndexSettings


class RemoteIndex:
    """An index of skills in Milvus.

    A search sees one version of it, the newest when the search begins, whatever is written
    meanwhile. Names, scores, evidence, threshold and abstention are those of `SkillIndex`; Milvus
    only says which documents come into question.
    """

    def __init__(
        self,
        server: MilvusServer,
        collection: str,
        *,
        calibration: Calibration | None = None,
        device: str | None = None,
    ) -> None:
        """Wrap a connection; use `from_roots` or `open` instead.

        Args:
            server: The connection.
            collection: Name of the index.
            calibration: What weighs features and evidence; by default that of the package.
            device: Where a model of sentence-transformers runs; None for what the settings say.
        """
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
            roots: As in `SkillIndex.from_roots`; the index holds their skills and no others.
            uri: Address of the server, such as ``http://127.0.0.1:19530``.
            collection: Name of the index.
            model: As in `SkillIndex.from_roots`.
            with_body: False to index names and descriptions alone.
            languages: Which languages to index for; see `skillsearch.types.LANGUAGES`.
            device: As in `SkillIndex.from_roots`.
            token: For the server; None for that of ``SKILLSEARCH_MILVUS_TOKEN`` or of the address.
            progress: Called with the stage, how many are done, and how many there are.

        Returns:
            The opened index.

        Raises:
            ConfigError: When the address or the name cannot be used.
            RootError: When a root is missing, no folder, or unreadable, or cannot be unpacked.
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
        """Bring an index in Milvus up to date and open it.

        Args:
            request: What to index, and how.
            uri: As in `from_roots`.
            collection: As in `from_roots`.
            device: As in `from_roots`.
            token: As in `from_roots`.
            progress: As in `from_roots`.

        Returns:
            The opened index, and what was done.

        Raises:
            SkillSearchError: As `from_roots` does.
        """
        # A search needs neither the parser nor what builds an index: import them only here.
        from skillsearch.remote.indexing import Indexing

        index = cls._connect(uri, collection, token, device)
        for root in request.roots:
            note_index(root, f"the collection {collection} in Milvus")
        try:
            run = Indexing(index._server, collection, request, progress=progress, device=device)
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
        """Open an index in Milvus.

        Args:
            uri: As in `from_roots`.
            collection: As in `from_roots`.
            device: As in `from_roots`.
            token: As in `from_roots`.

        Returns:
            The opened index.

        Raises:
            ConfigError: When the address or the name cannot be used.
            IndexNotFoundError: When there is no index of this name, or none that this version of
                the package can search.
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
        """Connect, without a look at what is there."""
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
        """What the index is made with."""
        return self._searcher.view().head.settings

    @property
    def skipped(self) -> int:
        """SKILL.md files that could not be indexed."""
        return self._searcher.view().head.skipped

    def documents(self) -> Iterator[Document]:
        """Read all documents, in no order.

        Returns:
            The documents, a page of them in memory at a time.

        Raises:
            IndexNotFoundError: When the index is gone.
            RemoteError: When the server does not answer.
        """
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

        Args:
            query: As in `SkillIndex.search`, like all others.
            n: How many hits at most.
            threshold: Lowest accepted score.
            system: How to rank.
            explain: Add why each hit has its score. The section of a body is named where its file
                lies on this machine.
            include_hidden: False to leave out skills that ask not to be offered to models.
            exclude: Ids of documents to leave out.

        Returns:
            The hits, best first, ties by document id; no hit where none reaches the threshold.

        Raises:
            QueryError: When the query is empty or too long, or n or threshold cannot be used.
            EmbedderError: When the embedder cannot be loaded, or is not that of the index.
            IndexNotFoundError: When the index is gone.
            RemoteError: When the server does not answer.
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
        """Find the document that a name means.

        Args:
            name: As in `SkillIndex.find`.

        Returns:
            The document; of several that fit, the newest in the first root that has any.

        Raises:
            SkillNotFoundError: When there is none; names the nearest of those a search finds.
            VersionNotFoundError: When no version fits; names those there are.
            AmbiguousNameError: When one root has several that versions do not tell apart.
            RemoteError: When the server does not answer.
        """
        return self._searcher.find(name, self._searcher.view())

    def get(self, name: str) -> Skill:
        """Read a skill by its name.

        Args:
            name: As in `find`.

        Returns:
            The skill as it was indexed, whatever its file is now.

        Raises:
            SkillNotFoundError: When there is none; names the nearest of those a search finds.
            VersionNotFoundError: When no version fits; names those there are.
            AmbiguousNameError: When one root has several that versions do not tell apart.
            RemoteError: When the server does not answer.
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
        """Remove documents; what lies on disk is indexed again by the next indexing.

        Until then a skill that one of them shadowed stays shadowed.

        Args:
            doc_ids: Their ids; unknown ones are left out.

        Returns:
            How many were removed.

        Raises:
            IndexNotFoundError: When there is no index.
            LockTimeoutError: When another process is writing the index.
            RemoteError: When the server does not answer.
        """
        from skillsearch.remote.deleting import delete

        return delete(self._server, self._collection, doc_ids)
