"""The hits that a reader reads, the passages it is shown, and the order of the hits afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from skillsearch.errors import ParseError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.corpus import Corpus
from skillsearch.index.documents.document import Document, body_hash
from skillsearch.index.documents.names import skill_of
from skillsearch.index.search.candidates import Judged, Ranked
from skillsearch.index.search.passages import best_passage, heaviest, passage_text
from skillsearch.index.search.query import QueryForm
from skillsearch.index.search.ranker import best_first
from skillsearch.readers.loading import Readers, reader_spec
from skillsearch.readers.reader import Reader
from skillsearch.settings.values import READING
from skillsearch.skills.resources import read_skill_md
from skillsearch.skills.stubs import continuation_in

# First hits that are read. A third tells twins no better, and costs half as much again.
READ_MOST = 2
# Probabilities of the best hit, by cheaper evidence, between which reading may change the answer.
DOUBT = (0.15, 0.9)


@dataclass(frozen=True, slots=True)
class Reading:
    """When to ask a reader, and a function that loads it, None if it cannot be had."""

    when: str
    load: Callable[[], Reader | None]

    @classmethod
    def of(cls, choice: str | None, readers: Readers) -> Reading:
        """Return the reading of a request, or else of the settings.

        A named model, which somebody has chosen, reads always.
        """
        choice = readers.choice(choice)
        when = choice if choice in READING else "always"
        return cls(when, lambda: readers.get(reader_spec(choice)))

    def read(
        self,
        corpus: Corpus,
        query: QueryForm,
        ranked: Ranked,
        judged: Sequence[Judged],
        roots: Sequence[Path] = (),
    ) -> dict[int, float]:
        """Return the logits of the first hits by row; nothing if none is to be read.

        The SKILL.md of a hit may link to a text in one of the `roots`.
        """
        best = max((hit.own_score for hit in judged), default=0.0)
        is_due = self.when == "always" or (self.when == "auto" and DOUBT[0] < best < DOUBT[1])
        if not is_due:
            return {}
        rows = [hit.row for hit in judged[:READ_MOST]]
        documents = {row: corpus.documents[int(ranked.documents[row])] for row in rows}
        able = {row: each for row, each in documents.items() if can_read(each, query)}
        if not able or (reader := self.load()) is None:
            return {}
        shown = {row: shown_of(document, query, roots) for row, document in able.items()}
        logits = reader.read(query.request, list(shown.values())).tolist()
        return dict(zip(shown, logits, strict=True))


NOT_READ = Reading("off", lambda: None)


def can_read(document: Document, query: QueryForm) -> bool:
    """Return whether a skill is in English or the language of the query, as far as that is known.

    Readers learn from few others. Read all the same, right ones get log-odds 1 lower than those in
    English, and three of 200 requests that nothing fits are answered, in place of one.
    """
    return document.language in ("", "en", query.language) or not query.language


def shown_of(document: Document, query: QueryForm, roots: Sequence[Path] = ()) -> str:
    """Return the text of a skill that a reader reads with a query."""
    weights = query.weights[-1].known_idf()
    passage = best_passage(body_of(document, roots), weights, document.language)
    example = heaviest((example.text for example in document.examples), weights, document.language)
    # Before the description, which is cut; behind it, the reader makes less of it.
    about = " ".join(filter(None, (example, document.description)))
    return passage_text(document.name, about, passage)


def body_of(document: Document, roots: Sequence[Path] = ()) -> str:
    """Return the body of a skill as it is on disk now, a stub with its continuation.

    Empty if it cannot be read any more. Its SKILL.md may link to a text in one of the `roots`.
    """
    try:
        if body := _indexed_body(document, roots):
            return body
        skill = skill_of(document, roots)
    except ParseError:
        return ""
    if document.continuation_hash:
        skill = replace(skill, continuation=continuation_in(skill.path.parent).text)
    return skill.text


def _indexed_body(document: Document, roots: Sequence[Path]) -> str:
    """Return what is below the frontmatter if it is what was indexed; empty if that is not certain.

    The parser and its YAML would take 40 ms to import.
    """
    if not document.body_hash:
        return ""
    data, _ = read_skill_md(Path(document.path), (document.root, *roots))
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    body = text.partition("\n---\n")[2].strip()
    return body if body_hash(body) == document.body_hash and "\r" not in body else ""


def reordered(
    ranked: Ranked, rows: Sequence[int], read: Mapping[int, float], weight: float
) -> list[int]:
    """Return rows with those that were read sorted by the reader; the others keep their ranks."""
    were_read = [row for row in rows if row in read]
    sums = ranked.scores[were_read] + weight * np.array([read[row] for row in were_read])
    best = iter(best_first(sums, np.arange(len(were_read))).tolist())
    return [were_read[next(best)] if row in read else row for row in rows]
