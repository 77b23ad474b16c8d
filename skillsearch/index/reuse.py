"""What of the index in use can be used again, and what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from skillsearch.index import fields, tokenizer
from skillsearch.index.cache import IndexFolder
from skillsearch.index.channels import channels_fit, expects_others
from skillsearch.index.corpus import OpenedIndex, open_current
from skillsearch.index.documents import KNOWN
from skillsearch.index.embedder import model_identity
from skillsearch.index.request import IndexRequest
from skillsearch.index.text_embedding import Channel, TextEmbedding
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
    verify: bool = False,
    keep_channels: bool = False,
) -> OpenedIndex | None:
    """Open the index in use if parts of it can be used again.

    Args:
        folder: Where it lies.
        request: What is to be indexed, and how.
        roots: The roots of the request.
        verify: Compare the digest of every part, whatever its stat says.
        keep_channels: Whether its dense channels will do, be others wanted or not.

    Returns:
        The index; None where there is none, or one made otherwise.
    """
    index = open_current(folder, verify=verify)
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


def are_embedded(index: OpenedIndex, channels: Sequence[Channel]) -> bool:
    """Tell whether the vectors of all documents of an index can be read."""
    documents = iter(index.corpus.documents)
    with TextEmbedding(channels, lambda stage, done, total: None) as embedding:
        while block := list(islice(documents, _BLOCK)):
            if any(embedding.lacking(block)):
                return False
    return True
