"""One version of an index in Milvus, as a reader sees it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skillsearch.errors import CacheError
from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.search.query import QueryForm
from skillsearch.index.storage.cache import Generation as LocalGeneration
from skillsearch.remote.candidates import Frequencies, candidate_fields, make_corpus
from skillsearch.remote.client import CollectionMissingError, MilvusServer, Row
from skillsearch.remote.generations import Head
from skillsearch.remote.rows import key_of, name_key, query_text, unpack
from skillsearch.remote.schema import FREQUENCIES, HEAD, Generation, dense_fields, lexical_fields
from skillsearch.remote.term_statistics import frequencies_at, term_id
from skillsearch.text.tokenizer import term_hash

_MAX_CANDIDATES = 1_000
"""Documents that each channel is asked for; the messages of Milvus are limited."""
_MIN_CANDIDATES = 50
_QUERY_TERMS = 1_000
"""Terms that Milvus looks for, the rarest of the query; scores use all."""
_NAMED = 1_000
"""Skills of one name that are read."""
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class View:
    """One version of a generation, whatever is written meanwhile.

    `frequencies` are those of the terms of the query, 0 for unknown ones.
    """

    server: MilvusServer
    generation: Generation
    head: Head
    frequencies: Frequencies

    @classmethod
    def open(cls, server: MilvusServer, alias: str, query: Collection[str] = ()) -> View | None:
        """Read the current version, with the document frequencies of the terms of a query.

        None if a writer was two versions ahead by then: try again. Raises CollectionMissingError if
        there is no index of this name, and CacheError if this version of the package cannot read
        it.
        """
        hashes = list(dict.fromkeys(map(term_hash, query)))
        ids = [HEAD, *map(term_id, hashes)]
        rows = server.get(alias, ids, ["note", *FREQUENCIES])
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

    @property
    def name(self) -> str:
        """Name and version of the generation."""
        return f"{self.generation.documents}@{self.head.version}"

    @property
    def roots(self) -> list[str]:
        """Paths of the roots, in order of precedence."""
        return [str(root.path) for root in self.head.settings.roots]

    def still_holds(self) -> bool:
        """Return whether everything read through this view belongs to its version.

        Rows are removed two versions after they ended, so one new version does no harm.
        """
        with suppress(CollectionMissingError):
            rows = self.server.get(self.generation.alias, [HEAD], ["version", "note"])
            if HEAD in rows:
                now = Head.from_row(rows[HEAD])
                return now.number == self.head.number and now.version <= self.head.version + 1
        return False

    def index_of(self, rows: Sequence[Row]) -> OpenedIndex:
        """Return an index of some rows with `candidate_fields`, searched as if all were there.

        Raises `CacheError` if a row is damaged.
        """
        corpus = make_corpus(rows, self.head, self.frequencies)
        generation = LocalGeneration(self.generation.documents, Path(), {}, {})
        return OpenedIndex(generation, self.head.settings, corpus)

    def candidates(self, form: QueryForm, n: int, condition: str = "") -> list[Row]:
        """Read the candidates of a query for n hits, with `candidate_fields`, each once."""
        k = min(max(_MIN_CANDIDATES, 4 * n), _MAX_CANDIDATES)
        fields = candidate_fields(self.head)
        visible = f"{self.head.condition} and shadowed == false"
        if condition:
            visible += f" and {condition}"
        documents = self.generation.documents
        if self.head.searched <= k:
            return self.server.query(documents, visible, fields, k)
        named = f"name_key == {name_key(form.text)} and {visible}"
        rows = self.server.query(documents, named, fields, k)
        if queries := self._queries(form):
            rows += self.server.nearest(documents, queries, visible, k, fields)
        return list({row["id"]: row for row in rows}.values())

    def namesakes(self, names: Collection[str], limit: int) -> list[Row]:
        """Read documents with certain names, even shadowed ones, with `candidate_fields`."""
        fields = candidate_fields(self.head)
        return self._matching(_is_named(names), fields, limit)

    def named(self, names: Collection[str], doc_ids: Collection[str]) -> list[Row]:
        """Read the records of documents with certain names or ids."""
        keys = ", ".join(f'"{key_of(doc_id)}"' for doc_id in doc_ids)
        return self._matching(f"({_is_named(names)} or key in [{keys}])", ("record",), _NAMED)

    def content(self, doc_id: str) -> bytes | None:
        """Return the SKILL.md of a document as it was indexed; None if it is gone."""
        rows = self._matching(f'key == "{key_of(doc_id)}"', ("content",), 1)
        return unpack(rows[0]["content"]) if rows else None

    def rows(self, fields: Sequence[str]) -> Iterator[Row]:
        """Read all documents, in no order."""
        documents, condition = self.generation.documents, self.head.condition
        for page in self.server.iterate(documents, condition, ("id", *fields), _PAGE):
            yield from page

    def _matching(self, condition: str, fields: Sequence[str], limit: int) -> list[Row]:
        condition = f"{condition} and {self.head.condition}"
        return self.server.query(self.generation.documents, condition, fields, limit)

    def _queries(self, form: QueryForm) -> dict[str, tuple[str, object]]:
        """Return the metric and the query of each vector field."""
        with_body = self.head.settings.with_body
        queries: dict[str, tuple[str, object]] = {}
        for place, name in enumerate(lexical_fields(with_body=with_body)):
            known = {term: self.frequencies[term][place] for term in map(term_hash, form.counts)}
            rarest = sorted(filter(known.get, known), key=known.__getitem__)
            if text := query_text(rarest, _QUERY_TERMS):
                queries[f"sparse_{name}"] = ("BM25", text)
        dense = dense_fields(len(form.views), with_body=with_body)
        for view, names in zip(form.views, dense, strict=True):
            if view.vector.any():
                queries.update((name, ("IP", view.vector)) for name in names)
        return queries


def _is_named(names: Collection[str]) -> str:
    """Return a filter for documents with certain names."""
    return f"name_key in [{', '.join(str(name_key(name)) for name in names)}]"
