"""Folders of models in our own form: which can be tuned, their weights, and new ones."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Literal, TypeAlias

from skillsearch.embedders.embedder import DEFAULT_SPEC, PACKAGED, PACKAGED_MODEL
from skillsearch.embedders.model_files import ModelConfig, sha256_of, weight_files
from skillsearch.embedders.word_table import WORDS_NAME, WordTable
from skillsearch.errors import EmbedderError, TrainingError, explained
from skillsearch.files.openat import is_file
from skillsearch.readers.loading import PACKAGED_SPEC
from skillsearch.training.bert_weights import BertWeights
from skillsearch.types.json_values import Json

Stem: TypeAlias = Literal["model", "reader"]
"""What the files of a model are named after: an embedder's, or a reader's."""
_PACKAGED = {"model": (DEFAULT_SPEC, *PACKAGED), "reader": (PACKAGED_SPEC,)}


def folder_of(spec: str, stem: Stem = "model") -> Path:
    """Return the folder of an embedder or a reader; TrainingError if it cannot be tuned."""
    if spec in _PACKAGED[stem]:
        return PACKAGED_MODEL
    folder = Path(spec.removeprefix("onnx:"))
    if spec and is_file(folder / WORDS_NAME) and is_file(folder / f"{stem}.onnx"):
        return folder
    raise TrainingError(
        f"The {stem} {spec[:200]!r} cannot be tuned; begin with {_PACKAGED[stem][0]}, the packaged "
        f"one, or with the folder of a tuned one, which holds {WORDS_NAME} and {stem}.onnx."
    )


def begin_weights(spec: str, stem: Stem = "model") -> BertWeights:
    """Read the weights of an embedder or a reader; TrainingError if it cannot be tuned.

    Matrices of 8 bits that were read and are written again are the same integers.
    """
    from skillsearch.training.onnx_model import read_graph

    folder = folder_of(spec, stem)
    graph, words = folder / f"{stem}.onnx", folder / WORDS_NAME
    try:
        settings = ModelConfig.read(folder, stem=stem)
        if graph.name not in settings.sha256:
            raise TrainingError(f"there is no {stem}.json with the digest of {graph.name}")
        for file in (graph, *weight_files(graph), words):
            settings.verify(file)
        return read_graph(graph, WordTable.load(words))
    except (EmbedderError, TrainingError) as exc:
        raise TrainingError(
            f"{folder} holds no {stem} that can be tuned: {exc}; name another folder, or begin "
            f"with {_PACKAGED[stem][0]}, the packaged one."
        ) from exc


def texts_beside(folder: Path) -> list[str | None]:
    """Return the NOTICE and the LICENSE of a model, None for one that is missing."""
    paths = [folder / name for name in ("NOTICE", "LICENSE")]
    return [path.read_text("utf-8", "replace") if path.is_file() else None for path in paths]


def export(
    weights: BertWeights,
    folder: Path,
    *,
    name: str,
    notice: str | None = None,
    licence: str | None = None,
    extra: Mapping[str, Json] = {},
) -> str:
    """Write a model to a new or empty folder, all files or none; return the sha256 of its record.

    The record, model.json or reader.json, has the `extra` and the digests of all other files. The
    words are copied. Raises TrainingError if the folder cannot be written.
    """
    from skillsearch.training.onnx_model import build_graph, write_apart

    stem: Stem = "reader" if weights.is_reader else "model"
    texts = {"LICENSE": licence, "NOTICE": notice}
    with explained(TrainingError, f"{folder} cannot be written: %s; name a new folder", str):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".model-", dir=folder.parent) as scratch:
            fresh = Path(scratch) / "model"
            fresh.mkdir()
            shutil.copyfile(weights.words.path, fresh / WORDS_NAME)
            write_apart(build_graph(weights), fresh / f"{stem}.onnx")
            for file, text in texts.items():
                if text is not None:
                    (fresh / file).write_bytes(text.encode())
            record = {
                "name": name,
                "max_tokens": len(weights.positions),
                "pooling": "head" if weights.is_reader else "mean",
                "dimensions": 1 if weights.is_reader else weights.words.dimensions,
                **extra,
                "built_with": {library: version(library) for library in ("onnx", "onnxruntime")},
                "sha256": {path.name: sha256_of(path) for path in sorted(fresh.iterdir())},
            }
            manifest = fresh / f"{stem}.json"
            manifest.write_bytes((json.dumps(record, indent=2) + "\n").encode())
            digest = sha256_of(manifest)
            fresh.replace(folder)
    return digest
