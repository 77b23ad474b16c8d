"""What a tuning begins with: the skills of a library as texts, and the weights of a model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skillsearch.embedders.embedder import PACKAGED, PACKAGED_MODEL, load_embedder
from skillsearch.embedders.embedding import Role, embed
from skillsearch.errors import SkillError, TrainingError
from skillsearch.index.build.reading import read_file
from skillsearch.index.fields import field_texts
from skillsearch.index.request import resolve_roots
from skillsearch.skills.discovery import discover
from skillsearch.skills.listing import list_files
from skillsearch.skills.resources import read_file as read_skill_file
from skillsearch.training.bert_weights import BertWeights, read_exported, read_hugging_face
from skillsearch.training.phrases import SkillText, opening
from skillsearch.types import Progress, Skill

_MOST_SCRIPTS = 20
_SCRIPT_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Library:
    """The skills of some roots.

    Attributes:
        texts: Their texts.
        doc_ids: The ids that an index of the roots gives them, in the same order.
    """

    texts: tuple[SkillText, ...]
    doc_ids: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in the same order."""
        return tuple(text.name for text in self.texts)


def read_library(paths: Sequence[Path], progress: Progress) -> Library:
    """Read all skills below some folders; what cannot be read is passed over.

    Args:
        paths: The folders, in order of precedence.
        progress: Told how many files are read.

    Returns:
        The skills.

    Raises:
        RootError: When a folder cannot be read.
    """
    roots, _ = resolve_roots(paths)
    files = discover(roots).files
    texts: list[SkillText] = []
    doc_ids: list[str] = []
    for done, file in enumerate(files, start=1):
        skill = read_file(file).skill
        if skill is not None:
            texts.append(_text_of(skill))
            doc_ids.append(skill.doc_id)
        progress("read", done, len(files))
    return Library(tuple(texts), tuple(doc_ids))


def folder_of(model: str) -> tuple[Path, bool]:
    """Find the files of a model.

    Args:
        model: As in `skillsearch.embedders.embedder.load_embedder`.

    Returns:
        Its folder, and whether Hugging Face's libraries wrote it.

    Raises:
        TrainingError: When it has none that could be tuned.
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
    """Read the weights of a model.

    Args:
        model: As in `folder_of`.

    Returns:
        The weights.

    Raises:
        TrainingError: When the model is of another kind, or damaged.
        MissingDependencyError: When the libraries that read it are not installed.
    """
    folder, is_hugging_face = folder_of(model)
    if model in PACKAGED:
        return read_exported(folder, PACKAGED[model].stem)
    return read_hugging_face(folder) if is_hugging_face else read_exported(folder)


def texts_beside(model: str) -> tuple[str, str | None]:
    """Return the NOTICE and the LICENSE of a model.

    Args:
        model: As in `folder_of`.

    Returns:
        Both, as they lie in its folder; empty and None where they do not.
    """
    folder, _ = folder_of(model)
    notice, licence = (folder / name for name in ("NOTICE", "LICENSE"))
    return (
        notice.read_text("utf-8", "replace") if notice.is_file() else "",
        licence.read_text("utf-8", "replace") if licence.is_file() else None,
    )


def learn_from(teacher: str) -> Callable[[Sequence[str], Role], NDArray[np.float32]]:
    """Load an embedder to learn from.

    Args:
        teacher: As in `skillsearch.embedders.embedder.load_embedder`.

    Returns:
        What embeds texts in a role; documents come again and again, and are embedded once.

    Raises:
        EmbedderError: When it cannot be loaded.
        MissingDependencyError: When its extra is not installed.
    """
    embedder = load_embedder(teacher)
    known: dict[str, NDArray[np.float32]] = {}

    def encode(texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        """Embed texts."""
        if role == "query":
            return embed(embedder, texts, role=role).vectors
        missing = list(dict.fromkeys(text for text in texts if text not in known))
        known.update(zip(missing, embed(embedder, missing, role=role).vectors, strict=True))
        return np.stack([known[text] for text in texts])

    return encode


def make_room(out: Path) -> Path:
    """Make the folder beside a model that is to be, where a run keeps what it needs.

    Args:
        out: Folder of the model.

    Returns:
        The folder; one that an interrupted run left is taken up again.

    Raises:
        TrainingError: When the folder of the model is taken, or nothing can be written beside it.
    """
    room = out.with_name(f".{out.name}.unfinished")
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise TrainingError(f"{out} is there already; name a folder that is new or empty.")
        room.mkdir(parents=True, exist_ok=True)
        if not os.access(room, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as exc:
        raise TrainingError(
            f"{out} cannot be written: {exc.strerror or exc}; name another folder."
        ) from exc
    return room


def _text_of(skill: Skill) -> SkillText:
    """Return the texts of a skill as an index embeds them, the whole body among them."""
    embedded = field_texts(skill, [None], with_body=False).embedded[0].metadata
    scripts = _scripts_of(skill.path.parent)
    return SkillText(skill.name, embedded.partition(f"{skill.name}: ")[2], skill.body, scripts)


def _scripts_of(folder: Path) -> tuple[str, ...]:
    """Return what the scripts of a skill say of themselves; what cannot be read says nothing."""
    said = []
    with contextlib.suppress(SkillError):
        names = [name for name in list_files(folder)[0] if name.startswith("scripts/")]
        for name in names[:_MOST_SCRIPTS]:
            with contextlib.suppress(SkillError):
                data = read_skill_file(folder, name, limit=_SCRIPT_BYTES)
                said.append(opening(data.decode("utf-8", "replace")))
    return tuple(dict.fromkeys(filter(None, said)))
