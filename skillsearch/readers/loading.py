"""From the spec or setting of a reader to the reader, each loaded once."""

from __future__ import annotations

import logging
from pathlib import Path

from skillsearch.embedders.embedder import PACKAGED_MODEL
from skillsearch.embedders.sentence_transformer_embedder import load_cross_encoder
from skillsearch.embedders.word_table import WORDS_NAME
from skillsearch.errors import EmbedderError, MissingDependencyError, ModelNotFoundError
from skillsearch.files.openat import is_file, is_folder
from skillsearch.readers.mapped_reader import MappedReader
from skillsearch.readers.other_readers import CrossEncoderReader, OnnxReader
from skillsearch.readers.reader import Reader
from skillsearch.settings import config
from skillsearch.settings.values import DEFAULT_READER, READING

logger = logging.getLogger(__name__)

# The digest of the packaged reader's reader.json, which pins every other file of it.
PACKAGED_SHA256 = "a1805e9a4a155fd674d62d44af1c085d1c91c6432bf3ef5fd5aea4acda6e4306"
# The spec of the packaged reader, and all of them, for error messages.
PACKAGED_SPEC = "packaged"
SPECS = f"{PACKAGED_SPEC}, st:NAME_OR_FOLDER, FOLDER (of an ONNX model)"


class Readers:
    """Readers by their spec, each loaded when first asked for."""

    def __init__(self, *, device: str | None = None) -> None:
        self.loaded: dict[str, Reader | None] = {}
        self._device = device
        self._setting: str | None = None

    def choice(self, spec: str | None) -> str:
        """Return a spec, or else the setting: one of `settings.values.READING`, or a model."""
        if spec is None and self._setting is None:
            self._setting = config.load_only("reader").reader
        return spec or self._setting or DEFAULT_READER

    def get(self, spec: str) -> Reader | None:
        """Return a reader; None, logged once, if the packaged one cannot be loaded here."""
        if spec not in self.loaded:
            try:
                self.loaded[spec] = load_reader(spec, self._device)
            except (EmbedderError, MissingDependencyError) as exc:
                if spec != PACKAGED_SPEC:
                    raise
                logger.warning("Skills are not read, only searched: %s", exc)
                self.loaded[spec] = None
        return self.loaded[spec]


def reader_spec(choice: str) -> str:
    """Return the spec of the model that a setting means."""
    return PACKAGED_SPEC if choice in READING else choice


def load_reader(spec: str, device: str | None = None) -> Reader:
    """Load the reader of a spec, one of `SPECS`.

    A `device` is for models of sentence-transformers; None asks the settings. A ModelNotFoundError
    if nothing has that name, an EmbedderError if its files cannot be used.
    """
    if spec == PACKAGED_SPEC:
        return MappedReader.load(PACKAGED_MODEL, manifest_sha256=PACKAGED_SHA256)
    if spec.startswith("st:") and spec != "st:":
        name = spec.removeprefix("st:")
        device = device or config.load_only("device").device
        return CrossEncoderReader(name, load_cross_encoder(name, device))
    if spec and is_folder(spec):
        reader_class = MappedReader if is_file(Path(spec, WORDS_NAME)) else OnnxReader
        return reader_class.load(Path(spec))
    raise ModelNotFoundError(f"No reader is called {spec[:200]!r}; use one of: {SPECS}")
