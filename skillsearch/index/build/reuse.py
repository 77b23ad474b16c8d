"""What of the index in use can be used again, and what it lacks."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np

from skillsearch.embedders.embedder import model_identity
from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.index import fields
from skillsearch.index.build.text_embedding import lacking_vectors
from skillsearch.index.corpus import OpenedIndex, open_current
from skillsearch.index.dense.channels import channels_fit, expects_others
from skillsearch.index.documents import KNOWN
from skillsearch.index.request import IndexRequest
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.text import tokenizer
from skillsearch.types import Root

ANALYSIS = (tokenizer.VERSION, fields.VERSION)
"""What texts and terms are made by; those of another version are not searched with these."""
_BLOCK = 4_096
"""Documents whose vectors are looked for at a time."""


def open_reusable(
    folder: IndexFolder,
    request: IndexRequest,
    roots: tuple[Root, ...],
    *,
    keep_channels: bool = False,
) -> OpenedIndex | None:
    """Open the index in use if parts of it can be used again.

    Args:
        folder: Where it lies.
        request: What is to be indexed, and how.
        roots: The roots of the request.
        keep_channels: Whether its dense channels will do, be others wanted or not.

    Returns:
        The index; None where there is none, or one made otherwise.
    """
    index = open_current(folder)
    if index is None:
        return None
    settings = index.settings
    wanted = (roots, request.with_body, request.languages, ANALYSIS)
    found = (settings.roots, settings.with_body, settings.languages, settings.analysis)
    if found != wanted or settings.channels[0].model != request.model:
        return None
    same = all(model_identity(one.model) == one.model_identity for one in settings.channels)
    fit = channels_fit(
        settings.channels,
        request.languages,
        settings.could_add,
        expected=expects_others(folder.path),
    )
    return index if same and (fit or keep_channels) else None


def count_others(index: OpenedIndex) -> tuple[int, int]:
    """Return how many skills a model for English does not know, and how many there are."""
    documents = index.corpus.documents
    return int(np.sum(documents.fluency[documents.living] < KNOWN)), len(documents)


def count_lost(index: OpenedIndex, folder: Path) -> int:
    """Count the documents of an index with a vector that cannot be read any more, by reading all.

    Args:
        index: The index.
        folder: Its folder, in which the embedding caches are.

    Returns:
        How many there are.
    """
    channels = index.settings.channels
    documents, lost = iter(index.corpus.documents), 0
    with ExitStack() as stack:
        caches = [
            stack.enter_context(EmbeddingCache(folder, one.fingerprint, one.dimensions))
            for one in channels
        ]
        while block := list(islice(documents, _BLOCK)):
            lost += sum(lacking_vectors(block, caches))
    return lost
