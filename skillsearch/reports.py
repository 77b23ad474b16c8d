"""What there is to say about an installation, an index and skill folders, as plain data."""

from __future__ import annotations

import os
import platform
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Literal

from skillsearch import __version__, config
from skillsearch.config import Settings
from skillsearch.errors import CacheError, ConfigError, EmbedderError
from skillsearch.index.builder import count_skipped
from skillsearch.index.cache import IndexFolder
from skillsearch.index.corpus import open_current
from skillsearch.index.embedder import PACKAGED_NAME, load_embedder
from skillsearch.index.freshness import Differences
from skillsearch.index.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.publication import describe
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.validator import FILE_NAMES, validate
from skillsearch.types import Diagnostic, JsonValue, Root

Verdict = Literal["ok", "warning", "error"]

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
    "pydantic-ai": "pydantic_ai",
    "st": "sentence_transformers",
    "watch": "watchfiles",
}
"""Each extra of the package, and the module that it brings."""
_MAX_NAMED = 10


@dataclass(frozen=True, slots=True)
class Status:
    """An index, and whether the disk still is what it was made of.

    Attributes:
        index_dir: Its folder.
        generation: Name of the generation in use.
        model: What its embedder is loaded by.
        fields: ``full``, or ``metadata`` for an index without bodies.
        indexed: Skills in it.
        skipped: SKILL.md files that could not be indexed.
        diagnostics: How many problems were reported, by severity.
        size_bytes: What its folder takes on disk.
        roots: The folders it was made of.
        differences: What came, changed and went since, every file hashed.
    """

    index_dir: Path
    generation: str
    model: str
    fields: str
    indexed: int
    skipped: int
    diagnostics: dict[str, int]
    size_bytes: int
    roots: tuple[Root, ...]
    differences: Differences

    @property
    def in_sync(self) -> bool:
        """Whether index and disk are the same."""
        return not len(self.differences) and not self.differences.missing_roots

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            "index_dir": str(self.index_dir),
            "generation": self.generation,
            "model": self.model,
            "fields": self.fields,
            "indexed": self.indexed,
            "skipped": self.skipped,
            "diagnostics": self.diagnostics,
            "size_bytes": self.size_bytes,
            "roots": [{"alias": root.alias, "path": str(root.path)} for root in self.roots],
            "in_sync": self.in_sync,
            "differences": self.differences.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: What it is about.
        verdict: ok; warning: works, but look at it; error: does not work.
        detail: What was found, and where it is not ok, what to do.
    """

    name: str
    verdict: Verdict
    detail: str

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return asdict(self)


def status(index: SkillIndex) -> Status:
    """Describe an index and compare it with the disk by the hash of every file.

    Args:
        index: The opened index.

    Returns:
        What there is to say about it.
    """
    settings = index.opened.settings
    diagnostics = index.diagnostics()
    return Status(
        index_dir=index.folder,
        generation=index.generation,
        model=settings.model,
        fields="full" if settings.with_body else "metadata",
        indexed=len(index),
        skipped=count_skipped(diagnostics),
        diagnostics=count_severities(diagnostics),
        size_bytes=IndexFolder(index.folder).size(),
        roots=settings.roots,
        differences=index.differences(verify=True),
    )


def count_severities(diagnostics: Iterable[Diagnostic]) -> dict[str, int]:
    """Count errors, warnings and notes.

    Args:
        diagnostics: What to count.

    Returns:
        The count of each severity, those without any included.
    """
    counts = Counter(diagnostic.severity for diagnostic in diagnostics)
    return {severity: counts[severity] for severity in ("error", "warning", "note")}


def validate_paths(paths: Sequence[Path]) -> tuple[int, tuple[Diagnostic, ...]]:
    """Hold skills against the specification.

    Args:
        paths: Each a skill folder, a SKILL.md, or a folder with skills somewhere below it.

    Returns:
        How many skills were checked, and every problem found, in the order of the paths.
    """
    checked = 0
    found: list[Diagnostic] = []
    for path in paths:
        skills, problems = _skills_at(path)
        checked += len(skills)
        found += problems
        for skill in skills:
            found += validate(skill)
    return checked, tuple(found)


def doctor(index_dir: Path | None = None) -> tuple[Check, ...]:
    """Look at everything that has to work.

    Args:
        index_dir: Folder of the index, where it is not to be the one of the settings.

    Returns:
        The checks, in the order in which they build on each other.
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
    checks += _check_index(settings)
    return (*checks, *_check_extras())


def _skills_at(path: Path) -> tuple[list[Path], list[Diagnostic]]:
    """Return the skills that a path means, and what is wrong on the way to them."""
    is_skill = any((path / name).exists() for name in FILE_NAMES)
    if is_skill or not path.is_dir():
        return [path], []
    roots, diagnostics = make_roots([path])
    discovery = discover(roots)
    found = [file.path.parent for file in discovery.files]
    problems = [*diagnostics, *discovery.diagnostics]
    return (found, problems) if found or problems else ([path], [])


def _check_python() -> Check:
    """Name the versions of skillsearch, Python and the system."""
    system = f"{platform.system()} {platform.machine()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    detail = f"skillsearch {__version__}, {python}, {system}"
    if sys.version_info < (3, 11):  # noqa: UP036 - a copied folder can meet any Python
        return Check("versions", "error", f"{detail}; Python 3.11 or newer is needed")
    return Check("versions", "ok", detail)


def _check_packages() -> Iterator[Check]:
    """Look for every package that skillsearch needs."""
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    yield Check("packages", "ok", ", ".join(found))
    if missing:
        yield Check("packages", "error", f"missing: pip install {' '.join(missing)}")


def _describe_settings(settings: Settings) -> Iterator[Check]:
    """Say of each setting that is no default what it is and where it came from."""
    for key, source in settings.sources.items():
        value = getattr(settings, key)
        shown = ", ".join(map(str, value)) if isinstance(value, tuple) else value
        yield Check("settings", "ok", f"{key} = {shown} ({source})")
    if not settings.sources:
        yield Check("settings", "ok", "all defaults")


def _check_models(settings: Settings) -> Iterator[Check]:
    """Load the packaged model, and the chosen one where it is another."""
    for spec in dict.fromkeys(("onnx", settings.model)):
        if spec == PACKAGED_NAME:
            continue
        try:
            embedder = load_embedder(spec)
            fingerprint = embedder.fingerprint[:16]
            detail = f"{spec}: loads, files as they should be, fingerprint {fingerprint}"
            yield Check("model", "ok", detail)
        except (EmbedderError, ImportError) as exc:
            yield Check("model", "error", f"{spec}: {exc}")


def _check_folder(folder: Path) -> Check:
    """Look at the place and the permissions of the index folder."""
    place = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    if not os.access(place, os.W_OK | os.X_OK) or not place.is_dir():
        detail = f"{folder} cannot be written; mend its permissions or choose another --index-dir"
        return Check("index folder", "error", detail)
    if place != folder:
        return Check("index folder", "ok", f"{folder} does not exist yet and can be made")
    status = folder.stat()
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        detail = f"{folder} belongs to another user, who decides what you find; choose your own"
        return Check("index folder", "warning", detail)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        detail = f"{folder} can be written by other users: chmod go-w {folder}"
        return Check("index folder", "warning", detail)
    return Check("index folder", "ok", f"{folder}, writable")


def _check_index(settings: Settings) -> Iterator[Check]:
    """Open the index, verify its checksums, and compare it with its roots."""
    folder = IndexFolder(settings.index_dir.absolute())
    opened = open_current(folder)
    if opened is None:
        yield _missing_index(folder)
        yield from _check_roots(_wanted_roots(settings))
        return
    index = SkillIndex(folder, opened)
    yield Check("index", "ok", f"{len(index)} skills, checksums good, generation {opened.name}")
    yield from _check_roots([root.path for root in opened.settings.roots])
    yield _check_freshness(index)
    yield from _check_diagnostics(index)
    yield from _check_library(SkillLibrary.of_index(index))


def _missing_index(folder: IndexFolder) -> Check:
    """Say what is the matter where no index can be opened."""
    if folder.exists():
        detail = "damaged, or of another version; the next index or query builds it anew"
        return Check("index", "error", detail)
    return Check("index", "warning", "there is none yet; make one: skillsearch index FOLDER")


def _wanted_roots(settings: Settings) -> Sequence[Path]:
    """Return the roots that the next indexing would take."""
    request = IndexRequest.load(settings.index_dir.absolute())
    return settings.roots or (request.roots if request else config.standard_roots())


def _check_roots(paths: Sequence[Path]) -> Iterator[Check]:
    """Look whether each root can be read."""
    roots, diagnostics = make_roots(paths)
    for root in roots:
        yield Check("root", "ok", f"{root.path} (alias {root.alias})")
    for problem in diagnostics:
        verdict: Verdict = "error" if problem.severity == "error" else "ok"
        yield Check("root", verdict, f"{problem.path}: {problem.message}")
    if not paths:
        yield Check("root", "warning", "none is known; name one: skillsearch index FOLDER")


def _check_freshness(index: SkillIndex) -> Check:
    """Compare an index with the disk, as far as stats tell."""
    differences = index.differences()
    if not len(differences):
        return Check("index = disk", "ok", "nothing came, changed or went")
    detail = f"{differences}; run: skillsearch index"
    return Check("index = disk", "warning", detail)


def _check_diagnostics(index: SkillIndex) -> Iterator[Check]:
    """Sum up what was reported when an index was made."""
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
        yield Check("skills", "ok", "nothing to report about any of them")


def _check_library(library: SkillLibrary) -> Iterator[Check]:
    """Say which skills no name means, what skills need and cannot have, and which are published."""
    shadowed = library.shadowed()
    if shadowed:
        pairs = [f"{item.document.doc_id} by {item.by.doc_id}" for item in shadowed]
        yield Check("shadowed", "ok", f"found by their ids alone: {_first(pairs)}")
    needing = [document.doc_id for document in library.list() if document.requires]
    order = library.load_order(needing)
    if order.missing:
        lacks = [f"{item.requirement} (for {item.needed_by})" for item in order.missing]
        yield Check("required skills", "warning", f"not there: {_first(lacks)}")
    if order.cycles:
        cycles = [" -> ".join((*cycle, cycle[0])) for cycle in order.cycles]
        yield Check("required skills", "warning", f"need each other: {_first(cycles)}")
    if needing and not (order.missing or order.cycles):
        yield Check("required skills", "ok", "all there")
    told, unfit = describe(library)
    detail = f"{told}; mend: {_first(unfit)}" if unfit else told
    yield Check("skills over MCP", "warning" if unfit else "ok", detail)


def _first(texts: Sequence[str]) -> str:
    """Join the first of some texts and count the others."""
    left = len(texts) - _MAX_NAMED
    return ", ".join(texts[:_MAX_NAMED]) + (f" and {left:,} more" if left > 0 else "")


def _check_extras() -> Iterator[Check]:
    """Say which optional libraries are there."""
    for extra, module in EXTRAS.items():
        if _is_installed(module):
            yield Check("extra", "ok", f"{extra}: {module} is installed")
        else:
            detail = f"{extra}: not installed; optional: pip install 'skillsearch[{extra}]'"
            yield Check("extra", "ok", detail)


def _is_installed(module: str) -> bool:
    """Say whether a module can be found; one inside a package may be looked for where none is."""
    try:
        return util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
