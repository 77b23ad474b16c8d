"""Make the models for English that skillsearch ships: all-MiniLM-L6-v2 tuned on skills, a reader.

Needs skillsearch, onnx, onnxruntime and safetensors, and no torch::

    python scripts/build_model.py --tuned WEIGHTS
    python scripts/build_model.py --reader WEIGHTS --scale 1.2

The same onnx and onnxruntime give the same bytes on every run; ``--check`` proves it for the files
in place. WEIGHTS is what ``scripts/train_default.py`` or ``scripts/train_reader.py`` wrote.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from skillsearch.embedders.model_files import sha256_of
from skillsearch.errors import SkillSearchError
from skillsearch.readers.reader import HEAD
from skillsearch.training.bert_weights import BertWeights, export, read_hugging_face
from skillsearch.types import Json, JsonObject

REPOSITORY = Path(__file__).resolve().parents[1]
OFFICIAL_URL = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_OUT = REPOSITORY / "skillsearch" / "models" / "minilm"
WORDS = "words.onnx_data"
"""The rows of the words, which training leaves as they are: all models share them."""

SHARED = {WORDS: "word embeddings", "tokenizer.json": "tokens"}
"""Files that are the same for all models of a folder, and what they hold."""

MANIFESTS = ("model.json", "reader.json")

SOURCE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The official model.safetensors."""

WEIGHT_FILES = ("config.json", "model.safetensors", "tokenizer.json")

TUNED_NAME = "skillsearch-minilm"
READER_NAME = "skillsearch-reader"

NOTICE = """\
all-MiniLM-L6-v2, converted and tuned for skillsearch
=====================================================

This folder holds converted copies of the sentence embedding model all-MiniLM-L6-v2, published
by the sentence-transformers project under the Apache License, Version 2.0, at
https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2 (fine-tuned there from
nreimers/MiniLM-L6-H384-uncased). The licence is in the file LICENSE beside this one.

What was changed in all: the weights (those of the original: model.safetensors, sha256
{weights})
were written as an ONNX graph that also does the mean pooling and the scaling to unit length, and
the matrices were quantised to 8-bit integers (one scale per output channel, 7 bits used). The rows
of the words are in a file that all share. tokenizer.json is unchanged.

What was changed in model.onnx alone: its weights, but for the rows of the words, were trained
further on texts of agent skills by scripts/train_default.py. See README.md beside this file.

What was changed in reader.onnx alone: the weights of model.onnx, but for the rows of the words,
were trained further on requests written for agent skills, each read together with a skill, by
scripts/train_reader.py. Two layers after the last one give one number for such a pair, in place of
a vector of unit length. Before the matrices were quantised, powers of two were moved from their
inputs to them.

Made by scripts/build_model.py of skillsearch. The authors of the original do not endorse it.
"""


class BuildError(Exception):
    """The model cannot be built, or differs from the one in place."""


def write_tuned(folder: Path, out: Path, *, name: str = TUNED_NAME) -> None:
    """Build every file of a model that was tuned from the official one.

    Args:
        folder: What ``scripts/train_default.py`` wrote: config.json, model.safetensors,
            tokenizer.json, and training.json, how it was trained, if present.
        out: The folder to fill; created if missing.
        name: Name of the model.

    Raises:
        TrainingError: When the folder holds no such model.
        BuildError: When its word rows differ from those of the other model in `out`.
    """
    _write(folder, out, name=name, stem="model", source=_record(folder))


def write_reader(folder: Path, out: Path, *, name: str = READER_NAME, scale: float = 1.0) -> None:
    """Build every file of a reader.

    Args:
        folder: What ``scripts/train_reader.py`` wrote, files as for `write_tuned`.
        out: The folder to fill; created if missing.
        name: Name of the model.
        scale: What logits are multiplied by, so that they are log-odds of held-out requests.

    Raises:
        TrainingError: When the folder holds no such model.
        BuildError: When it has no head, or shares no words with the other models in `out`.
    """
    if not (math.isfinite(scale) and scale > 0):
        raise BuildError(f"--scale {scale:g} is not a number above 0")
    record = {**_record(folder), "scale": scale}
    _write(folder, out, name=name, stem="reader", source=record, scale=scale)


def _record(folder: Path) -> JsonObject:
    """Return how the weights of a folder came about, for the manifest."""
    digests = {file: sha256_of(folder / file) for file in WEIGHT_FILES}
    training = folder / "training.json"
    trained = {"training": json.loads(training.read_bytes())} if training.is_file() else {}
    return {"tuned_from": OFFICIAL_URL, "sha256": digests, **trained}


def _scaled(weights: BertWeights, scale: float) -> BertWeights:
    """Multiply the logits of a reader."""
    last = {
        name: value * np.float32(scale)
        for name, value in weights.tensors.items()
        if name.startswith(f"{HEAD}outer.")
    }
    return replace(weights, tensors={**weights.tensors, **last})


def _write(
    folder: Path,
    out: Path,
    *,
    name: str,
    stem: str,
    source: Mapping[str, Json],
    scale: float = 1.0,
) -> None:
    """Export the model of a folder; replace the files of an older one."""
    extra: JsonObject = {"scripts": ["Latin"], "license": "Apache-2.0", "source": source}
    licence = (REPOSITORY / "LICENSE").read_text(encoding="utf-8")
    notice = NOTICE.format(weights=SOURCE_SHA256)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch) / "model"
        weights = _scaled(read_hugging_face(folder), scale)
        if weights.is_reader != (stem == "reader"):
            raise BuildError(f"{folder} holds {'a' if weights.is_reader else 'no'} reader")
        texts = {"notice": notice, "licence": licence}
        export(weights, fresh, name=name, extra=extra, stem=stem, words=WORDS, **texts)
        for file, held in SHARED.items():
            if (out / file).exists() and not _same(fresh / file, out / file):
                raise BuildError(f"{folder} has other {held} than {out / file}")
        for path in fresh.iterdir():
            shutil.copyfile(path, out / path.name)


def check(build: Callable[[Path], None], folder: Path) -> None:
    """Build again in a temporary folder and compare every byte.

    Args:
        build: Builds into a folder.
        folder: The files in place.

    Raises:
        BuildError: When a file is missing or differs; names the files, and the versions of the
            libraries if these differ from the first build's.
    """
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        build(fresh)
        names = sorted(path.name for path in fresh.iterdir())
        differing = [name for name in names if not _same(fresh / name, folder / name)]
        if not differing:
            return
        manifest = next(fresh / name for name in names if name in MANIFESTS)
        built = json.loads(manifest.read_bytes())["built_with"]
    raise BuildError(f"{folder} differs from a build with {built}: {', '.join(differing)}")


def _same(first: Path, second: Path) -> bool:
    """Return whether both files exist with the same bytes."""
    return second.is_file() and first.read_bytes() == second.read_bytes()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The arguments after the program's name; by default the process's.

    Returns:
        The exit code: 0, or 1 if the model could not be built or differs.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--tuned", type=Path, metavar="FOLDER", help="folder with tuned weights")
    source.add_argument("--reader", type=Path, metavar="FOLDER", help="folder with a reader")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies a reader's logits")
    parser.add_argument("--name", help=f"its name: {TUNED_NAME} or {READER_NAME} by default")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder of the models")
    parser.add_argument("--check", action="store_true", help="compare with --out, write nothing")
    options = parser.parse_args(arguments)
    out = options.out
    if options.reader:
        name = options.name or READER_NAME
        build = partial(write_reader, options.reader, name=name, scale=options.scale)
    else:
        build = partial(write_tuned, options.tuned, name=options.name or TUNED_NAME)
    try:
        check(build, out) if options.check else build(out)
    except (BuildError, SkillSearchError, OSError) as exc:
        print(f"build_model: {exc}", file=sys.stderr)
        return 1
    for path in sorted(out.iterdir()):
        print(f"{sha256_of(path)}  {path.stat().st_size:>10,}  {path.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
