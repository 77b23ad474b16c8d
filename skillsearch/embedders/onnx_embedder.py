"""Embedders in ONNX form with a tokenizer.json beside them, such as the packaged one.

The only importer of tokenizers, when a model is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from skillsearch.embedders.embedding import (
    EmbeddedText,
    Role,
    Row,
    fingerprint_of,
    head_of,
    unit_row,
)
from skillsearch.embedders.model_files import ModelConfig, weight_files
from skillsearch.embedders.runtime import errors_of, map_ahead, open_session
from skillsearch.errors import EmbedderError

MODEL_FILES = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")

POOLED_OUTPUT = "sentence_embedding"
TOKEN_OUTPUTS = ("last_hidden_state", "token_embeddings")
KNOWN_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})


@dataclass(frozen=True, slots=True, eq=False)
class OnnxEmbedder:
    """A transformer in ONNX form, on the CPU.

    Each text is run by itself, several side by side in threads. In a batch a vector would depend on
    the texts around it, which share the scale of its 8-bit activations; and no time goes into
    padding (as fast as batches of 16 in float32, faster in int8).

    On one machine with one ONNX Runtime a text has one vector, bit for bit. Elsewhere float
    rounding may tip the rounding to 8 bits: between ONNX Runtime 1.20 and 1.31, cosine 0.999 on
    average and 0.996 at least, less than the quantisation itself costs (0.993).
    """

    fingerprint: str
    name: str
    dimensions: int
    scripts: frozenset[str] | None
    _max_tokens: int
    _tokenizer: Any
    _run: Callable[[Any], Row]

    @classmethod
    def load(cls, folder: Path, *, manifest_sha256: str | None = None, stem: str = "model") -> Self:
        """Load a model of one of `MODEL_FILES` and a tokenizer.json from a local folder.

        Settings come from our model.json or the files of sentence-transformers; without either, 256
        tokens and mean pooling. Weights outside the model ("external data") are verified and count
        in the fingerprint like its other files, which must have the digests that model.json lists.

        `manifest_sha256` is the digest that model.json must have; `stem` stands for ``model`` in
        model.onnx and model.json, if a folder holds several. An EmbedderError if a file is missing,
        damaged, or not what it has to be.
        """
        config = ModelConfig.read(folder, manifest_sha256=manifest_sha256, stem=stem)
        names = MODEL_FILES if stem == "model" else (f"{stem}.onnx",)
        path = next((folder / name for name in names if (folder / name).is_file()), None)
        if path is None or not (folder / "tokenizer.json").is_file():
            raise EmbedderError(
                f"{folder} is not an ONNX model: it needs tokenizer.json and one of "
                f"{', '.join(MODEL_FILES)}; load a sentence-transformers folder as st:{folder}"
            )
        digests = [config.verify(path), config.verify(folder / "tokenizer.json")]
        digests += [config.verify(file) for file in weight_files(path)]
        tokenizer = load_tokenizer(folder / "tokenizer.json", config.max_tokens)
        run = _load_session(path, config.pooling)
        probe = run(tokenizer.encode("probe"))
        fingerprint = fingerprint_of(*digests, config.pooling, config.max_tokens)
        return cls(
            fingerprint=fingerprint,
            name=config.name,
            dimensions=int(probe.shape[-1]),
            scripts=config.scripts,
            _max_tokens=config.max_tokens,
            _tokenizer=tokenizer,
            _run=run,
        )

    def embed_stream(
        self, texts: Sequence[str], *, role: Role = "passage"
    ) -> Iterator[EmbeddedText]:
        """Embed `texts` in order, whatever their role.

        Those begun run to their end when the iterator is closed.
        """
        yield from map_ahead(self._embed_one, texts)

    def _embed_one(self, position: int, text: str) -> EmbeddedText:
        """Embed one text; called from several threads."""
        head, cut = head_of(text, self._max_tokens)
        encoding = self._tokenizer.encode(head)
        truncated = cut or bool(encoding.overflowing)
        if all(encoding.special_tokens_mask):
            return EmbeddedText(position, np.zeros(self.dimensions, dtype=np.float32), truncated)
        return EmbeddedText(position, unit_row(self._run(encoding), self), truncated)


def load_tokenizer(path: Path, max_tokens: int | None = None) -> Any:
    """Load a ``tokenizers.Tokenizer`` that does not pad from a verified tokenizer.json.

    It cuts texts at `max_tokens`, if given.
    """
    import tokenizers

    with errors_of("tokenizers", path):
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        if max_tokens is None:
            tokenizer.no_truncation()
        else:
            tokenizer.enable_truncation(max_tokens)
    tokenizer.no_padding()
    return tokenizer


def _load_session(path: Path, pooling: str) -> Callable[[Any], Row]:
    """Load an ONNX model and return a function from a tokenizer's encoding to a vector."""
    session = open_session(path)
    inputs = [node.name for node in session.get_inputs()]
    output = _choose_output(path, inputs, [node.name for node in session.get_outputs()])
    if output != POOLED_OUTPUT and pooling not in ("mean", "cls"):
        raise EmbedderError(f"{path} needs {pooling!r} after it; load it as st:{path.parent}")

    def run(encoding: Any) -> Row:
        """Run one text; no row is padding, so the mean is over all of them."""
        tokens = (encoding.ids, encoding.attention_mask, encoding.type_ids)
        names = ("input_ids", "attention_mask", "token_type_ids")
        values = dict(zip(names, np.array(tokens, dtype=np.int64)[:, None], strict=True))
        with errors_of("ONNX Runtime", path):
            (result,) = session.run([output], {name: values[name] for name in inputs})
        if output != POOLED_OUTPUT:
            result = result[:, 0] if pooling == "cls" else result.mean(axis=1)
        row: Row = result[0]
        return row

    return run


def _choose_output(path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """Return the output to use: sentences if the model pools, else tokens."""
    known = [name for name in (POOLED_OUTPUT, *TOKEN_OUTPUTS) if name in outputs]
    if not known or not KNOWN_INPUTS.issuperset(inputs):
        raise EmbedderError(f"{path} is not a text encoder we know: {inputs} to {outputs}")
    return known[0]
