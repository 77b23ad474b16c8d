"""Whether everything works: the installation, the settings, the index, its skills and the disk."""

from __future__ import annotations

import os
import platform
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Literal

from skillsearch._version import __version__
from skillsearch.embedders.embedder import PACKAGED, load_embedder
from skillsearch.errors import CacheError, ConfigError, EmbedderError, IndexNotFoundError
from skillsearch.execution.executors import executor_statuses
from skillsearch.index.corpus import open_current
from skillsearch.index.documents.languages import count_languages, in_words
from skillsearch.index.indexing.reading import count_skipped
from skillsearch.index.next_steps import index_option
from skillsearch.index.roots.host_roots import usual_folders
from skillsearch.index.roots.request import IndexRequest, require_readable
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.index.storage.generation_parts import describe_damage
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.mcp_server.publication import describe as describe_publication
from skillsearch.readers.loading import PACKAGED_SPEC, load_reader, reader_spec
from skillsearch.reports.host_folders import FolderReport, report_folders
from skillsearch.reports.sources import check_sources, unlocked
from skillsearch.reports.status import describe_root
from skillsearch.roots.lock import read_lock
from skillsearch.roots.sources import is_bundle, shown, source_of
from skillsearch.settings import config, user_folders
from skillsearch.settings.environ import install_extra, pip_install
from skillsearch.settings.table import Settings
from skillsearch.skills.discovery import make_roots
from skillsearch.skills.example_requests import count_exampled, exampled_in_words
from skillsearch.text.safe_text import counted, listed
from skillsearch.types.json_values import Record
from skillsearch.types.skills import Root

PACKAGES = tuple(
    "click faiss-cpu filelock numpy onnxruntime packaging platformdirs pydantic PyStemmer PyYAML"
    " rank-bm25 rich tokenizers xxhash".split()
)
EXTRAS = {
    "adk": "google.adk",
    "eval": "matplotlib",
    "find": "prompt_toolkit",
    "langchain": "langchain_core",
    "mcp": "mcp",
    "milvus": "pymilvus",
    "pydantic-ai": "pydantic_ai",
    "st": "sentence_transformers",
    "train": "onnx",
    "ui": "jinja2",
    "watch": "watchfiles",
}
"""Each extra of the package, and the module it installs."""
_MAX_NAMED = 10
_BLOCK = 4096  # bytes: what a disk gives to the smallest file

CheckVerdict = Literal["ok", "warning", "error"]
_OF_NAMES: Mapping[str, CheckVerdict] = {"name-ambiguous": "warning", "name-of-project": "ok"}


@dataclass(frozen=True, slots=True)
class Check(Record):
    """One thing that was checked; it is a ``warning`` if it works, but needs attention."""

    name: str
    verdict: CheckVerdict
    detail: str

    @classmethod
    def of(cls, name: str, good: str, bad: str = "", verdict: CheckVerdict = "warning") -> Check:
        """Return a check with the bad detail and its verdict, or ``ok`` if nothing is bad."""
        return cls(name, verdict if bad else "ok", bad or good)


def doctor(index_dir: str | Path | None = None) -> tuple[Check, ...]:
    """Check everything, by default for the index of the settings; one thing builds on another."""
    checks = [*_check_installation()]
    try:
        settings = config.load_settings(index_dir=index_dir)
        checks += _describe_settings(settings)
    except ConfigError as exc:
        checks.append(Check("settings", "error", str(exc)))
        settings = Settings(index_dir=Path(index_dir or user_folders.default_index_dir()))
    checks += _check_models(settings)
    checks.append(Check("index folder", *_check_folder(settings.index_dir)))
    checks += check_index(settings)
    for executor in executor_statuses():
        isolation = executor.capabilities.isolation
        detail = f"works, isolation: {isolation}" if executor.available else executor.reason
        checks.append(Check("executor", "ok", f"{executor.name}: {detail}"))
    return (*checks, *_check_extras())


def _check_installation() -> Iterator[Check]:
    system = f"{platform.system()} {platform.machine()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Check("versions", "ok", f"skillsearch {__version__}, {python}, {system}")
    installed, missing = [], []
    for name in PACKAGES:
        try:
            installed.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    yield Check("packages", "ok", ", ".join(installed))
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
    """Load the packaged model, the chosen one, and the reader."""
    model = "onnx" if settings.model in PACKAGED else settings.model
    for spec in dict.fromkeys(("onnx", model)):
        try:
            fingerprint = load_embedder(spec).fingerprint[:16]
            detail = f"{spec}: loads, its files are intact, fingerprint {fingerprint}"
            yield Check("model", "ok", detail)
        except (EmbedderError, ImportError) as exc:
            yield Check("model", "error", f"{spec}: {exc}")
    if settings.reader != "off":
        try:
            yield Check("reader", "ok", f"{load_reader(reader_spec(settings.reader)).name}: loads")
        except (EmbedderError, ImportError) as exc:
            # Without the packaged one, skills are still found.
            is_packaged = reader_spec(settings.reader) == PACKAGED_SPEC
            yield Check("reader", "warning" if is_packaged else "error", str(exc))


def _check_extras() -> Iterator[Check]:
    installed = [extra for extra, module in EXTRAS.items() if _is_installed(module)]
    if installed:
        yield Check("extras", "ok", f"installed: {', '.join(installed)}")
    if missing := [extra for extra in EXTRAS if extra not in installed]:
        next_step = f"to add EXTRA: {install_extra('EXTRA')}"
        yield Check(
            "extras", "ok", f"not installed, all optional: {', '.join(missing)}; {next_step}"
        )


def _is_installed(module: str) -> bool:
    with suppress(ModuleNotFoundError):  # of the package that a module belongs to
        return util.find_spec(module) is not None
    return False


def _check_folder(folder: Path) -> tuple[CheckVerdict, str]:
    above = (folder, *folder.absolute().parents)
    existing = next((path for path in above if path.exists()), folder)
    try:  # a full or read-only disk grants permission all the same
        with tempfile.TemporaryFile(dir=existing, buffering=0) as file:
            file.write(bytes(_BLOCK))
            os.fsync(file.fileno())
    except OSError as exc:
        next_step = "mend that, or choose another --index-dir"
        return "error", f"{folder} is not writable: {exc.strerror or exc}; {next_step}"
    if existing != folder:
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
        yield _check_unopened(folder, damaged, settings)
        yield from _check_wanted_roots(settings, folder)
        yield from _check_places(None)
        return
    index = SkillIndex(folder, opened)
    size = counted(len(index), "skill")
    yield Check("index", "ok", f"{size}, checksums good, generation {opened.name}")
    exampled = count_exampled(document.examples for document in index.documents())
    yield Check("example requests", "ok", exampled_in_words(exampled, len(index)))
    yield from _check_roots([root.path for root in opened.settings.roots], opened.settings.roots)
    changed = index.differences()
    again = f"skillsearch index{index_option(folder.path, settings)}"
    stale = f"{changed}; run: {again}" if len(changed) else ""
    yield Check.of("index = disk", "nothing was added, changed or removed", stale)
    yield Check("languages", "ok", in_words(count_languages(index.documents())) or "no skills")
    yield from _check_places(index)
    yield from _check_sources(folder)
    yield from _check_diagnostics(index)
    yield from _check_library(SkillLibrary.of_index(index))


def _check_unopened(folder: IndexFolder, damaged: Sequence[str], settings: Settings) -> Check:
    if damaged:
        return Check("index", "error", describe_damage(folder.path, damaged))
    try:
        require_readable(folder.path)
    except ConfigError as exc:
        return Check("index", "error", str(exc))
    if folder.exists():
        rebuilt = "of another version; the next index or query rebuilds it"
        return Check("index", "error", rebuilt)
    return Check("index", "warning", str(folder.not_found(settings)))


def _check_wanted_roots(settings: Settings, folder: IndexFolder) -> Iterator[Check]:
    """Check the roots that the next indexing would take; archives and URLs are only named."""
    request = IndexRequest.load(folder.path)
    usual = [host_folder.path for host_folder in usual_folders().values()]
    before = request.named if request else usual
    roots = settings.roots or before
    for bundle in filter(is_bundle, roots):
        yield Check("root", "ok", f"{shown(source_of(bundle))}, unpacked by: skillsearch index")
    folders = [Path(root) for root in roots if not is_bundle(root)]
    if folders or not roots:
        yield from _check_roots(folders)


def _check_sources(folder: IndexFolder) -> Iterator[Check]:
    """Compare the sources that were added with the lock file."""
    request = IndexRequest.load(folder.path)
    try:
        locked = read_lock()
    except ConfigError as exc:
        yield Check("sources", "error", str(exc))
        return
    for entry, problem in check_sources(locked.values(), request):
        detail = f"{entry.text}, added or updated on {entry.date}, {entry.digest[:19]}"
        yield Check.of("sources", detail, f"{detail}: {problem}" if problem else "")
    for source in unlocked(locked.values(), request):
        yield Check("sources", "ok", f"{source}: not pinned; to pin it: skillsearch add")


def _check_places(index: SkillIndex | None) -> Iterator[Check]:
    """Say which folders of hosts are indexed or missing, and which plugins are disabled."""
    by_state: dict[str, list[FolderReport]] = {}
    for report in report_folders(index, Path.cwd()):
        by_state.setdefault("indexed" if report.state == "new" else report.state, []).append(report)
    for state, reports in by_state.items():
        skills = sum(report.skills for report in reports)
        names = listed((report.plugin or report.path for report in reports), _MAX_NAMED)
        where = f"{counted(skills, 'skill')} in " if state != "outside" else ""
        detail = f"{state}: {where}{counted(len(reports), 'folder')} of hosts: {names}"
        is_missing = index is not None and state == "not indexed"
        problem = f"{detail}; to index them: skillsearch index" if is_missing else ""
        yield Check.of("hosts", detail, problem)


def _check_roots(paths: Sequence[Path], held: Sequence[Root] = ()) -> Iterator[Check]:
    roots, diagnostics = make_roots(paths)
    indexed = {root.path: root for root in held}
    yield from (Check("root", "ok", describe_root(indexed.get(root.path, root))) for root in roots)
    for diagnostic in diagnostics:
        detail = f"{diagnostic.path}: {diagnostic.message}"
        yield Check.of("root", detail, detail if diagnostic.severity == "error" else "", "error")
    if not paths:
        yield Check("root", "warning", "none is known; name one: skillsearch index FOLDER")


def _check_diagnostics(index: SkillIndex) -> Iterator[Check]:
    try:
        diagnostics = index.diagnostics()
    except CacheError as exc:
        yield Check("skills", "error", str(exc))
        return
    counts = Counter((diagnostic.severity, diagnostic.code) for diagnostic in diagnostics)
    lost = f"lost: {counted(skipped, 'skill')}; " if (skipped := count_skipped(diagnostics)) else ""
    for severity in ("error", "warning", "note"):
        codes = [f"{code} {n}" for (kind, code), n in counts.most_common() if kind == severity]
        if codes:
            detail = f"{lost * (severity == 'error')}{severity}s: {', '.join(codes)}"
            yield Check.of("skills", detail, "" if severity == "note" else detail)
    for code, verdict in _OF_NAMES.items():
        names = [diagnostic.message for diagnostic in diagnostics if diagnostic.code == code]
        yield from (Check("names", verdict, name) for name in names[:_MAX_NAMED])
    if not counts:
        yield Check("skills", "ok", "nothing was reported about any of them")


def _check_library(library: SkillLibrary) -> Iterator[Check]:
    pairs = [f"{item.document.doc_id} by {item.by.doc_id}" for item in library.shadowed()]
    if pairs:
        yield Check("shadowed", "ok", f"found only by their ids: {listed(pairs, _MAX_NAMED)}")
    needing = [document.doc_id for document in library.list() if document.requires]
    order = library.load_order(needing)
    lacks = [f"{item.requirement} (for {item.needed_by})" for item in order.missing]
    cycles = [" -> ".join((*cycle, cycle[0])) for cycle in order.cycles]
    for problem, items in (("missing", lacks), ("require each other", cycles)):
        if items:
            yield Check("required skills", "warning", f"{problem}: {listed(items, _MAX_NAMED)}")
    if needing and not (lacks or cycles):
        yield Check("required skills", "ok", "all there")
    detail, unfit = describe_publication(library)
    more = f"{detail}. To publish more (`skillsearch validate FOLDER` lists all): "
    yield Check.of("skills over MCP", detail, more + listed(unfit, _MAX_NAMED) if unfit else "")
