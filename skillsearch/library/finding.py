"""Searching a library: what a plain name does not mean is no hit."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from skillsearch.index.fitted import default_calibration
from skillsearch.index.search import SearchRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.setting_values import MAX_N
from skillsearch.types import SearchResult


def search_without(
    index: SkillIndex | None, left_out: Collection[str], request: SearchRequest
) -> SearchResult:
    """Search an index for as many hits as were asked for, some documents left out.

    Args:
        index: The index; None where there is nothing to search.
        left_out: Ids of the documents that are to be no hits. Few are expected to be found.
        request: What is asked.

    Returns:
        The hits, best first, ranked from 1.
    """
    if index is None:
        return SearchResult(request.query, request.cut(default_calibration()), (), True, 0.0)
    wanted = request.n
    while True:
        found = index.search(
            request.query, wanted, request.threshold, include_hidden=request.include_hidden
        )
        kept = [hit for hit in found if hit.doc_id not in left_out]
        if len(kept) >= request.n or len(found) < wanted or wanted >= MAX_N:
            break
        wanted = min(max(2 * wanted, wanted + len(left_out)), MAX_N)
    hits = tuple(replace(hit, rank=rank) for rank, hit in enumerate(kept[: request.n], start=1))
    return replace(found, hits=hits, abstained=not hits)
