"""What a reader sees of an index in Milvus: one version of one generation, whatever is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from skillsearch.errors import CacheError, IndexNotFoundError
from skillsearch.index.search.query import QueryForm
from skillsearch.remote.candidates import Frequencies, candidate_fields
from skillsearch.remote.client import CollectionMissingError, MilvusServer, Row
from skillsearch.remote.counted import query_text
from skillsearch.remote.head import Head
from skillsearch.remote.packing import unpack
from skillsearch.remote.rows import key_of, name_key
from skillsearch.remote.schema import HEAD, Generation, dense_fields
from skillsearch.remote.vocabulary import FIELDS, frequencies_at, term_id
from skillsearch.text.tokenizer import term_hash

MOST_CANDIDATES = 1_000
"""Documents that each channel is asked for at most; a message from Milvus has its limits."""
_MIN_CANDIDATES = 50
_QUERY_TERMS = 1_000
"""Terms that Milvus looks for at most, the rarest of the query; scores take all into account."""
_NAMED = 1_000
"""Skills of one name that are read at most."""
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class View:
    """One version of a generation.

    Attributes:
        server: The server.
        generation: The generation.
        head: Its head.
        frequencies: How many documents have each term of the query, by its hash; 0 for unknown
            ones.
    """

    server: MilvusServer
    generation: Generation
    head: Head
    frequencies: Frequencies

    @classmethod
    def open(cls, server: MilvusServer, alias: str, query: Collection[str] = ()) -> View | None:
        """Read the version that holds now, with the terms of a query.

        Args:
            server: The server.
            alias: The name of the index.
            query: Terms.

        Returns:
            The view; None where a writer was two versions ahead meanwhile: try again.

        Raises:
            IndexNotFoundError: When there is no index of this name.
            CacheError: When it is none that this version of the package can read.
            RemoteError: When the server does not answer.
        """
        hashes = list(dict.fromkeys(map(term_hash, query)))
        ids = [HEAD, *map(term_id, hashes)]
        try:
            rows = server.get(alias, ids, ["note", *FIELDS])
        except CollectionMissingError as exc:
            raise _not_found(server, alias) from exc
        if HEAD not in rows:
            raise CacheError(f"the collection {alias!r} has no head")
        head = Head.from_row(rows[HEAD])
        frequencies: dict[int, tuple[int, int]] = {}
        for term, key in zip(hashes, ids[1:], strict=True):
            found = frequencies_at(rows[key], head.version) if key in rows else (0, 0)
            if found is None:
                return None
            frequencies[term] = found
        return cls(server, Generation(alias, head.number), head, frequencies)

    def still_holds(self) -> bool:
        """Tell whether all that was read through this view was of its version.

        Rows are removed two versions after they ended, so one that a writer made meanwhile has
        changed nothing.
        """
        with suppress(CollectionMissingError):
            rows = self.server.get(self.generation.alias, [HEAD], ["version", "note"])
            if HEAD in rows:
                now = Head.from_row(rows[HEAD])
                return now.number == self.head.number and now.version <= self.head.version + 1
        return False

    def candidates(self, form: QueryForm, n: int, condition: str) -> list[Row]:
        """Read the documents that come into question for a query.

        Args:
            form: The analysed query.
            n: Hits wanted in the end.
            condition: A filter that they have to fit beside being seen; empty for none.

        Returns:
            Their rows with `candidate_fields`, each once.

        Raises:
            RemoteError: When the server does not answer.
        """
        k = min(max(_MIN_CANDIDATES, 4 * n), MOST_CANDIDATES)
        fields = candidate_fields(self.head)
        visible = f"{self.head.condition} and shadowed == false"
        if condition:
            visible += f" and {condition}"
        documents = self.generation.documents
        if self.head.searched <= k:
            return self.server.query(documents, visible, fields, k)
        named = f"name_key == {name_key(form.text)} and {visible}"
        rows = self.server.query(documents, named, fields, k)
        queries = self._queries(form)
        if queries:
            rows += self.server.nearest(documents, queries, visible, k, fields)
        return list({row["id"]: row for row in rows}.values())

    def namesakes(self, names: Collection[str], limit: int) -> list[Row]:
        """Read some of the documents of some names, shadowed ones too, with `candidate_fields`."""
        keys = ", ".join(str(name_key(name)) for name in names)
        condition = f"name_key in [{keys}] and {self.head.condition}"
        return self.server.query(
            self.generation.documents, condition, candidate_fields(self.head), limit
        )

    def named(self, names: Collection[str], doc_ids: Collection[str]) -> list[Row]:
        """Read the documents that have one of some names or ids."""
        keys = ", ".join(str(name_key(name)) for name in names)
        ids = ", ".join(f'"{key_of(doc_id)}"' for doc_id in doc_ids)
        condition = f"(name_key in [{keys}] or key in [{ids}]) and {self.head.condition}"
        return self.server.query(self.generation.documents, condition, ("record",), _NAMED)

    def content(self, doc_id: str) -> bytes | None:
        """Return the SKILL.md of a document as it was indexed; None where it is gone."""
        condition = f'key == "{key_of(doc_id)}" and {self.head.condition}'
        rows = self.server.query(self.generation.documents, condition, ("content",), 1)
        return unpack(rows[0]["content"]) if rows else None

    def rows(self, fields: Sequence[str]) -> Iterator[Row]:
        """Read all documents, in no order."""
        pages = self.server.iterate(
            self.generation.documents, self.head.condition, ("id", *fields), _PAGE
        )
        for page in pages:
            yield from page

    def _queries(self, form: QueryForm) -> dict[str, tuple[str, object]]:
        """Return what each vector field is searched for."""
        with_body = self.head.settings.with_body
        queries: dict[str, tuple[str, object]] = {}
        for place, name in enumerate(("metadata", "full")[: 1 + with_body]):
            text = query_text(self._rarest(form.counts, place), _QUERY_TERMS)
            if text:
                queries[f"sparse_{name}"] = ("BM25", text)
        dense = dense_fields(len(form.views), with_body=with_body)
        for view, names in zip(form.views, dense, strict=True):
            if view.vector.any():
                queries.update((name, ("IP", view.vector)) for name in names)
        return queries

    def _rarest(self, counts: Counter[str], place: int) -> list[int]:
        """Return the terms of a query that some document has in a field, the rarest first."""
        known = {term_hash(term): self.frequencies[term_hash(term)][place] for term in counts}
        return sorted((term for term, number in known.items() if number), key=lambda t: known[t])


def _not_found(server: MilvusServer, alias: str) -> IndexNotFoundError:
    """Say that there is no index, and how to make one."""
    return IndexNotFoundError(
        f"There is no index {alias!r} in Milvus at {server.shown}; make it: skillsearch index "
        f"FOLDER --backend milvus --uri {server.shown} --collection {alias}"
    )
