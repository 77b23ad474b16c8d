"""What has to work of an index: its folder, its parts, its roots, its skills."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from skillsearch import config
from skillsearch.config import Settings
from skillsearch.errors import CacheError, IndexNotFoundError
from skillsearch.index.build.reuse import count_lost
from skillsearch.index.corpus import open_current
from skillsearch.index.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.index.storage.sealed_parts import describe_damage
from skillsearch.library.publication import describe
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.reports.check import Check, Verdict
from skillsearch.reports.languages import advice, count_languages, in_words, install_line
from skillsearch.roots.sources import is_bundle, shown, source_of, unpacked_from
from skillsearch.skills.discovery import make_roots
from skillsearch.types import Root

_MAX_NAMED = 10


def check_folder(folder: Path) -> Check:
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


def check_index(settings: Settings) -> Iterator[Check]:
    """Hash all files of the index, open it, and compare it with its roots."""
    try:
        folder = IndexFolder(settings.index_dir.absolute())
    except IndexNotFoundError as exc:
        yield Check("index", "error", str(exc))
        return
    damaged = folder.damage(everything=True)
    if damaged:
        yield Check("index", "error", describe_damage(folder.path, damaged))
        yield from _check_wanted_roots(settings, folder)
        return
    opened = open_current(folder)
    if opened is None:
        yield _missing_index(folder, settings)
        yield from _check_wanted_roots(settings, folder)
        return
    index = SkillIndex(folder, opened)
    yield Check("index", "ok", f"{len(index)} skills, checksums good, generation {opened.name}")
    yield _check_vectors(index)
    yield from _check_roots([root.path for root in opened.settings.roots])
    yield _check_freshness(index)
    yield from _check_languages(index)
    yield from _check_diagnostics(index)
    yield from _check_library(SkillLibrary.of_index(index))


def _check_vectors(index: SkillIndex) -> Check:
    """Read the saved vectors of all texts, which a search needs not but the next index does."""
    try:
        count = count_lost(index.opened, index.folder)
    except OSError as exc:
        return Check("saved vectors", "error", f"{exc.filename} cannot be read: {exc.strerror}")
    if count:
        detail = (
            f"{count:,} skills have none, or a damaged one, in the embedding cache; the index is "
            f"whole. To fix: run `skillsearch index --verify --index-dir {index.folder}`"
        )
        return Check("saved vectors", "warning", detail)
    return Check("saved vectors", "ok", "those of all skills are good")


def _missing_index(folder: IndexFolder, settings: Settings) -> Check:
    """Say what is wrong if no index can be opened."""
    if folder.exists():
        detail = "of another version; the next index or query builds it anew"
        return Check("index", "error", detail)
    return Check("index", "warning", config.no_index(folder.path, settings))


def describe_root(root: Root) -> str:
    """Say where a root lies, what it is called, and what it was unpacked from, if it was."""
    source = unpacked_from(root.path)
    return f"{root.path} (alias {root.alias}{f', from {source}' if source else ''})"


def _check_wanted_roots(settings: Settings, folder: IndexFolder) -> Iterator[Check]:
    """Look at the roots that the next indexing would take, but for archives and URLs."""
    request = IndexRequest.load(folder.path)
    before = request.named if request else config.standard_roots()
    roots = settings.roots or before
    for bundle in filter(is_bundle, roots):
        yield Check("root", "ok", f"{shown(source_of(bundle))}, unpacked by: skillsearch index")
    folders = [Path(root) for root in roots if not is_bundle(root)]
    if folders or not roots:
        yield from _check_roots(folders)


def _check_roots(paths: Sequence[Path]) -> Iterator[Check]:
    """Look whether each root can be read."""
    roots, diagnostics = make_roots(paths)
    for root in roots:
        yield Check("root", "ok", describe_root(root))
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


def _check_languages(index: SkillIndex) -> Iterator[Check]:
    """Count the skills by language, and look whether the dense channels know all of them."""
    told = in_words(count_languages(index)) or "no skill"
    needed = advice(index)
    if index.lacks_channel():
        needed = f"the channel for other languages cannot be asked: {install_line()}"
    yield Check("languages", "warning" if needed else "ok", f"{told}; {needed}" if needed else told)


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
    if unfit:
        told += f". To publish more (`skillsearch validate FOLDER` says all): {_first(unfit)}"
    yield Check("skills over MCP", "warning" if unfit else "ok", told)


def _first(texts: Sequence[str]) -> str:
    """Join the first of some texts and count the others."""
    left = len(texts) - _MAX_NAMED
    return ", ".join(texts[:_MAX_NAMED]) + (f" and {left:,} more" if left > 0 else "")
