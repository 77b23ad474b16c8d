"""Corpora whose vectors are in the cache of their index, so that no model has to embed them.

A copy of a skill has the vectors of its original with noise: near, but no duplicate. They are kept
under the keys of the copy's own texts, as if it had been embedded.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from bench_corpus import Copy, Text, copies, skill_md, write_skills
from numpy.typing import NDArray

from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import Embedder, embed, text_key
from skillsearch.embedders.embedding_cache import EmbeddingCache
from skillsearch.index.documents import field_texts
from skillsearch.skills.parser import parse_skill
from skillsearch.text.scripts import readable

NOISE = 0.35
"""Length of the noise added to a unit vector: copies are near, but no duplicates (cosine ~ .94)."""
_BLOCK = 4096

Rows = NDArray[np.float32]


def make_corpus(
    originals: Sequence[Text], size: int, work: Path, *, with_body: bool = True
) -> tuple[Path, Path]:
    """Write copies of skills and put their vectors into the cache, unless an earlier run has.

    Args:
        originals: The skills to copy.
        size: How many copies.
        work: Where they go.
        with_body: False for short files, to be indexed by metadata alone.

    Returns:
        The root of the skills, and the folder of their index.
    """
    kind = "" if with_body else "-metadata"
    root, index_dir = work / f"skills-{size}{kind}", work / f"index-{size}{kind}"
    made = work / f"made-{size}{kind}"
    of = hashlib.sha256(json.dumps([originals, NOISE]).encode()).hexdigest()
    if not made.exists() or made.read_text(encoding="ascii") != of:
        for folder in (root, index_dir):
            shutil.rmtree(folder, ignore_errors=True)
        index_dir.mkdir(parents=True)
        write_skills(
            str(root), (copy.text for copy in copies(originals, size, with_body=with_body))
        )
        fill_cache(originals, copies(originals, size, with_body=with_body), index_dir)
        made.write_text(of, encoding="ascii")
    for path in index_dir.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif not path.name.startswith("embeddings-"):
            path.unlink()
    return root, index_dir


def noisy(rows: Rows, rng: np.random.Generator) -> Rows:
    """Return unit vectors with noise added."""
    noise = rng.standard_normal(rows.shape, dtype=np.float32)
    moved = rows + NOISE * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    unit: Rows = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    return unit


def fill_cache(originals: Sequence[Text], made: Iterator[Copy], index_dir: Path) -> None:
    """Put the vectors of copies into the cache of their index."""
    embedder = load_embedder("onnx")
    vectors = embed(embedder, [embedded_text(text, embedder) for text in originals])
    rng = np.random.default_rng(0)
    with EmbeddingCache(index_dir, embedder.fingerprint, embedder.dimensions) as cache:
        while block := list(itertools.islice(made, _BLOCK)):
            check_key(block[0].text, embedder)
            rows = noisy(vectors[[copy.source for copy in block]], rng)
            for copy, row in zip(block, rows, strict=True):
                cache.add(text_key(embedded_text(copy.text, embedder)), row)


def embedded_text(text: Text, embedder: Embedder) -> str:
    """Return what is embedded of a skill; parsing a million of them would take minutes."""
    return readable(f"{text.name}: {text.description}", embedder.scripts)


def check_key(text: Text, embedder: Embedder) -> None:
    """Make sure that the index embeds what we think it does."""
    data = skill_md(text).encode("utf-8", "replace")
    skill, _ = parse_skill(data, doc_id="one", path=Path("one"), root=Path())
    keys = field_texts(skill, [embedder.scripts]).document.keys[0]
    if keys != (text_key(embedded_text(text, embedder)).hex(), ""):
        raise SystemExit(f"The index does not embed the text of {text.name!r} that is cached.")
