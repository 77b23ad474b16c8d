"""The map of a collection: computed once for each generation of an index, and kept in our cache."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import CacheError
from skillsearch.files.atomic_files import read_record, write_record
from skillsearch.files.private import make_private
from skillsearch.index.dense.likeness import confusable_from
from skillsearch.index.documents.document import Document
from skillsearch.index.skill_index import SkillIndex
from skillsearch.settings.user_folders import cache_dir
from skillsearch.skills.folders import repository_of
from skillsearch.text.safe_text import one_line
from skillsearch.types.json_values import Json, object_of
from skillsearch.ui.islands import Island, Named, find_islands
from skillsearch.ui.projection import Projection, neighbours, project

logger = logging.getLogger(__name__)

FOLDER = "maps"
# Bump when points or pairs come out differently.
_VERSION = 2
_ABOUT, _NAME = 200, 100  # characters
_GRID = 65_535  # points are kept and sent as whole numbers up to this


def make_map(index: SkillIndex) -> bytes:
    """Return the record that the map draws, of all skills of an index, as JSON."""
    store = index.opened.corpus.documents
    with index.opened.guard:
        documents, families = list(store), store.families.leaders_of(store.living).tolist()
    record = map_record(documents, families, _kept(index))
    return json.dumps(record, separators=(",", ":")).encode()


def map_record(
    documents: Sequence[Document], families: Sequence[int], projection: Projection
) -> Json:
    """Return what the map draws of documents, given what stands for the family of each."""
    sizes = Counter(families)
    names = [one_line(document.name, _NAME) for document in documents]
    about = [one_line(document.description, _ABOUT) for document in documents]
    ids = [document.doc_id for document in documents]
    repositories, repository = _numbered(list(map(repository_of, ids)))
    languages, language = _numbered([document.language for document in documents])
    # Near-copies would give their island its words.
    apart = sorted({leader: i for i, leader in reversed([*enumerate(families)])}.values())
    skills = [Named.of(names[i], about[i], documents[i].language) for i in apart]
    return {
        "ids": ids,
        "names": names,
        "about": about,
        "repositories": [one_line(name, _NAME) for name in repositories],
        "repository": repository,
        "languages": languages,
        "language": language,
        "family": [leader if sizes[leader] > 1 else -1 for leader in families],
        "xy": _whole(projection.xy).tolist(),
        "pairs": projection.pairs.tolist(),
        "islands": list(map(_shown, find_islands(projection.xy[apart], skills))),
    }


def _shown(island: Island) -> Json:
    x, y, radius = (round(_GRID * part) for part in island[:3])
    return {"x": x, "y": y, "radius": radius, "size": island.size, "words": [*island.words]}


def _kept(index: SkillIndex) -> Projection:
    """Return the projection of a generation, from our cache if a sound one is there."""
    path = cache_dir() / FOLDER / f"{index.generation}-{_VERSION}.json"
    with suppress(CacheError, ValueError, TypeError, KeyError):
        record = object_of(read_record(path))
        xy, pairs = (np.array(record[name], np.int32).reshape(-1, 2) for name in ("xy", "pairs"))
        if len(xy) == len(index) > max(pairs.ravel(), default=-1):
            return Projection((xy / _GRID).astype(np.float32), pairs)
    made = _project(index)
    record = {"xy": _whole(made.xy).tolist(), "pairs": made.pairs.tolist()}
    try:
        make_private(path.parent)
        write_record(path, record, sync=False)
    except OSError as exc:
        logger.warning("The map cannot be kept in %s: %s", path, exc.strerror)
    return made


def _project(index: SkillIndex) -> Projection:
    """Project the vectors of the metadata."""
    with index.opened.guard:
        corpus = index.opened.corpus
        store, dense = corpus.documents, corpus.dense
        vectors = dense.vectors_of(store.living)
        near = neighbours(dense, store.living, vectors, store.deleted)
        families = store.families.leaders_of(store.living)
    return project(vectors, near, families, confusable_from(index.opened.settings.model.spec))


def _numbered(values: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return distinct values, the most frequent first, and the number of each value."""
    distinct = [value for value, _ in Counter(values).most_common()]
    numbers = {value: number for number, value in enumerate(distinct)}
    return distinct, [numbers[value] for value in values]


def _whole(xy: NDArray[np.float32]) -> NDArray[np.int32]:
    return np.rint(xy * _GRID).astype(np.int32)
