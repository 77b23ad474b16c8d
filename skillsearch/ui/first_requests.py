"""Requests to begin with: what skills of the index are for, in words that find them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from skillsearch.errors import SelectionError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.index.documents.document import Document
from skillsearch.index.documents.selecting import selected
from skillsearch.index.skill_index import SkillIndex
from skillsearch.text.safe_text import one_line
from skillsearch.types.answers import Selection

SHOWN = 4
_TRIED = 12  # skills; each costs a search
_LEAST, _MOST = 8, 70  # characters of a request
_CLAUSE_END = lazy_pattern(
    r"[.;:,!?](?:\s|$)|\s*[(\n]|\s[-\u2013\u2014]\s|[\u3001\u3002\uff0c\uff1b\uff1a]"
)


def first_requests(index: SkillIndex, selection: Selection) -> tuple[str, ...]:
    """Return a few requests that each bring up the skill they are taken from, as one that fits.

    There are none for a selection that leaves nothing; the first search says why.
    """
    requests: dict[str, None] = {}
    for document in _spread(index, selection):
        if len(requests) == SHOWN:
            break
        for request in _requests_of(document):
            hits = index.search(request, 1, selection=selection, reader="off").hits
            if hits and hits[0].doc_id == document.doc_id:
                requests[request] = None
                break
    return tuple(requests)


def _spread(index: SkillIndex, selection: Selection) -> list[Document]:
    """Return selected skills from all over the index, at equal distances, and always the same."""
    with index.opened.guard, suppress(SelectionError):
        store = selected(index.opened.corpus.documents, selection, index.opened.settings.roots)
        places = np.unique(np.linspace(0, len(store.living), _TRIED, endpoint=False).astype(int))
        numbers = store.living[places[: len(store.living)]].tolist()
        return [store[number] for start in range(3) for number in numbers[start::3]]
    return []


def _requests_of(document: Document) -> Iterator[str]:
    """Yield its first example, and how its description begins."""
    texts = [example.text for example in document.examples[:1]]
    texts.append(_CLAUSE_END.split(document.description, 1)[0])
    yield from (text for text in map(one_line, texts) if _LEAST <= len(text) <= _MOST)
