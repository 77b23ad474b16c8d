"""Inputs of a tuning: the skills of a library as texts, and the weights of a model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedder import PACKAGED, PACKAGED_MODEL, load_embedder
from skillsearch.embedders.embedding import Role, embed
from skillsearch.errors import SkillError, TrainingError
from skillsearch.index.build.reading import read_file
from skillsearch.index.fields import field_texts
from skillsearch.index.request import resolve_roots
from skillsearch.skills.discovery import discover
from skillsearch.skills.resources import list_files
from skillsearch.skills.resources import read_file as read_skill_file
from skillsearch.training.bert_weights import BertWeights, read_exported, read_hugging_face
from skillsearch.training.queries import SkillText, opening
from skillsearch.types import Progress

_MOST_SCRIPTS = 20
_SCRIPT_BYTES = 256 * 1024


class Library(NamedTuple):
    """The texts of the skills of some roots, and their ids in an index, in the same order."""

    texts: tuple[SkillText, ...]
    doc_ids: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in the same order."""
        return tuple(text.name for text in self.texts)


def read_library(paths: Sequence[Path], progress: Progress) -> Library:
    """Read all skills below some folders in order of precedence; unreadable ones are skipped.

    Raises RootError if a folder cannot be read.
    """
    roots, _ = resolve_roots(paths)
    files = discover(roots).files
    texts: list[SkillText] = []
    doc_ids: list[str] = []
    for done, file in enumerate(files, start=1):
        skill = read_file(file).skill
        if skill is not None:
            # As an index embeds it, with the whole body.
            embedded = field_texts(skill, [None], with_body=False).embedded[0].metadata
            about = embedded.partition(f"{skill.name}: ")[2]
            scripts = _scripts_of(skill.path.parent)
            texts.append(SkillText(skill.name, about, skill.body, scripts))
            doc_ids.append(skill.doc_id)
        progress("read", done, len(files))
    return Library(tuple(texts), tuple(doc_ids))


def folder_of(model: str) -> tuple[Path, bool]:
    """Return the folder of a model spec, and whether Hugging Face's libraries wrote it.

    Raises TrainingError if it has none that could be tuned.
    """
    if model in PACKAGED:
        return PACKAGED_MODEL, False
    kind, _, rest = model.partition(":")
    if kind == "st" and Path(rest).is_dir():
        return Path(rest), True
    folder = Path(rest if kind == "onnx" and rest else model)
    if model and folder.is_dir():
        return folder, False
    raise TrainingError(
        f"The model {model[:200]!r} cannot be tuned; begin with onnx or minilm, the packaged "
        "ones, with the folder of a tuned one, or with st:FOLDER, a BERT with mean pooling as "
        "sentence-transformers saves it."
    )


def begin_weights(model: str) -> BertWeights:
    """Read the weights of a model spec; raises TrainingError if it is of another kind."""
    folder, is_hugging_face = folder_of(model)
    if model in PACKAGED:
        return read_exported(folder, PACKAGED[model].stem)
    return read_hugging_face(folder) if is_hugging_face else read_exported(folder)


def texts_beside(model: str) -> tuple[str, str | None]:
    """Return the NOTICE and the LICENSE of a model; empty and None if they are missing."""
    folder, _ = folder_of(model)
    notice, licence = (folder / name for name in ("NOTICE", "LICENSE"))
    return (
        notice.read_text("utf-8", "replace") if notice.is_file() else "",
        licence.read_text("utf-8", "replace") if licence.is_file() else None,
    )


def learn_from(teacher: str) -> Callable[[Sequence[str], Role], NDArray[np.float32]]:
    """Load an embedder to learn from, by its spec; repeated documents are embedded once."""
    embedder = load_embedder(teacher)
    known: dict[str, NDArray[np.float32]] = {}

    def encode(texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        if role == "query":
            return embed(embedder, texts, role=role)
        missing = list(dict.fromkeys(text for text in texts if text not in known))
        known.update(zip(missing, embed(embedder, missing, role=role), strict=True))
        return np.stack([known[text] for text in texts])

    return encode


def make_work_dir(out: Path) -> Path:
    """Make the folder beside `out` where a run keeps its files, or take over an interrupted one.

    Raises TrainingError if `out` is not empty, or nothing can be written beside it.
    """
    work_dir = out.with_name(f".{out.name}.unfinished")
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise TrainingError(f"{out} already exists; name a folder that is new or empty.")
        work_dir.mkdir(parents=True, exist_ok=True)
        if not os.access(work_dir, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as exc:
        raise TrainingError(
            f"{out} cannot be written: {exc.strerror or exc}; name another folder."
        ) from exc
    return work_dir


def _scripts_of(folder: Path) -> tuple[str, ...]:
    """Return the descriptions of a skill's scripts; unreadable ones have none."""
    said = []
    with contextlib.suppress(SkillError):
        names = [name for name in list_files(folder)[0] if name.startswith("scripts/")]
        for name in names[:_MOST_SCRIPTS]:
            with contextlib.suppress(SkillError):
                data = read_skill_file(folder, name, limit=_SCRIPT_BYTES)
                said.append(opening(data.decode("utf-8", "replace")))
    return tuple(dict.fromkeys(filter(None, said)))
