"""Corpora whose vectors are in the user's cache, so that no model has to embed them.

A made skill has the mean of its originals' vectors, by their shares, with noise. They are kept
under the keys of its own texts, as if it had been embedded.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmark.corpus import SHARES, Mixture, Text, mixtures, write_skills
from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import embed, text_key
from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.text.exclusions import split_description

NOISE = 0.6
"""Length of the noise added to a unit vector.

With 1,000 originals the cosine to the nearest of 4,000 is .52 in the median and at most .69, with
174 of them .59 and .75; of 4,000 real skills it is .53, and .90 or more for the 2 % near-copies.
"""
_BLOCK = 4096

Rows = NDArray[np.float32]


def make_corpus(
    originals: Sequence[Text], size: int, work: Path, *, with_body: bool = True
) -> tuple[Path, Path]:
    """Write made skills and put their vectors into the cache, unless an earlier run has.

    Args:
        originals: The skills to make them of.
        size: How many to make.
        work: Where they go.
        with_body: False for short files, to be indexed by metadata alone.

    Returns:
        The root of the skills, and the folder of their index.
    """
    kind = "" if with_body else "-metadata"
    root, index_dir = work / f"skills-{size}{kind}", work / f"index-{size}{kind}"
    made = work / f"made-{size}{kind}"
    digest = hashlib.sha256(json.dumps([originals, NOISE, SHARES]).encode()).hexdigest()
    if not made.exists() or made.read_text(encoding="ascii") != digest:
        shutil.rmtree(root, ignore_errors=True)
        write_skills(
            str(root), (skill.text for skill in mixtures(originals, size, with_body=with_body))
        )
        fill_cache(originals, mixtures(originals, size, with_body=False))
        made.write_text(digest, encoding="ascii")
    shutil.rmtree(index_dir, ignore_errors=True)
    return root, index_dir


def noisy(rows: Rows, rng: np.random.Generator) -> Rows:
    """Return the unit vectors of rows with noise added."""
    return unit(unit(rows) + NOISE * unit(rng.standard_normal(rows.shape, dtype=np.float32)))


def unit(rows: Rows) -> Rows:
    """Return rows of length 1."""
    shortened: Rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return shortened


def fill_cache(originals: Sequence[Text], made: Iterator[Mixture]) -> None:
    """Put the vectors of made skills into the cache."""
    embedder = load_embedder("onnx")
    vectors = embed(embedder, [embedded_text(text) for text in originals])
    rng = np.random.default_rng(0)
    with EmbeddingCache(embedder.fingerprint, embedder.dimensions) as cache:
        while block := list(itertools.islice(made, _BLOCK)):
            sources = vectors[np.array([skill.sources for skill in block])]
            rows = noisy(np.einsum("s,nsd->nd", np.array(SHARES, np.float32), sources), rng)
            keys = (text_key(embedded_text(skill.text)) for skill in block)
            cache.put(dict(zip(keys, rows, strict=True)))


def embedded_text(text: Text) -> str:
    """Return what is embedded of a skill; parsing a million of them would take minutes."""
    wanted, _ = split_description(text.description)
    return f"{text.name}: {wanted}"
