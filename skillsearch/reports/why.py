"""Why a skill does not come: what keeps it out of answers, or puts another before it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from skillsearch.budget.costs import listed_skills, sources_of_index
from skillsearch.budget.hosts import FATES, HOSTS, Fate, ListedSkill, list_in
from skillsearch.errors import ParseError, SelectionError, SkillNotFoundError
from skillsearch.hosts.files import host_file
from skillsearch.hosts.listings import Listings
from skillsearch.hosts.table import hosts, library_folder, title_of
from skillsearch.index.documents.document import Document, name_hash
from skillsearch.index.documents.names import find_by_name, near_to, split_written_name
from skillsearch.index.documents.relatives import family_of
from skillsearch.index.documents.selecting import selected
from skillsearch.index.documents.shadowing import find_shadowed
from skillsearch.index.indexing.reading import read_for_index
from skillsearch.index.next_steps import index_option
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.roots.scope import (
    Viewpoint,
    folders_of,
    is_in_scope,
    scope_of,
    without_scope,
)
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.reports.audit_text import audit_text
from skillsearch.reports.health import Check
from skillsearch.reports.host_folders import FolderReport, report_folders
from skillsearch.reports.standing import Standing, check_standing, find_standing
from skillsearch.reports.status import describe_root
from skillsearch.settings.table import Settings
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.parser import decode_skill_md, parse_skill
from skillsearch.skills.resources import read_skill_md
from skillsearch.text.provenance import vouch_for
from skillsearch.text.safe_text import counted, listed, one_line, visible
from skillsearch.types.answers import Selection
from skillsearch.types.json_values import Record
from skillsearch.types.skills import SHOWN_NAME_CHARS, Diagnostic, Root, SkillFile

_MOST_NAMED = 5
# Files of skills that are read to learn their names, and folders that are looked into.
_MOST_READ, _MOST_FOLDERS = 1_000, 10_000
_OUT = {
    "disabled": "which is turned off, or is not the installed version; enable it in {}",
    "outside": "a link out of the project, which is not followed; to take it: skillsearch index {}",
    "left out": "which was taken out by --remove and stays out; to take it: skillsearch index {}",
    "not indexed": "which is not indexed yet; to do that: skillsearch index",
}
"""Why an index lacks a folder where hosts look, and what helps, by the folder's state."""
_FOLDED = "scope settings name copies offer trust file examples hosts listing".split()
"""Checks that share one line if a request is given and nothing is wrong with them."""


@dataclass(frozen=True, slots=True)
class Why(Record):
    """The answer: the checks, and how the skill stands for a request, if there is one."""

    OPTIONAL = ("doc_id", "path", "standing")

    name: str
    checks: tuple[Check, ...]
    doc_id: str = ""
    path: str = ""
    standing: Standing | None = None

    @property
    def is_out(self) -> bool:
        """Whether something keeps the skill out, or it does not surely fit the request."""
        is_unfit = self.standing is not None and self.standing.state != "fits"
        return is_unfit or any(check.verdict == "error" for check in self.checks)

    @property
    def told(self) -> tuple[Check, ...]:
        """The checks for a reader: those passed before a request was looked at, in one line."""
        if self.standing is None:
            return self.checks
        passed = [check for check in self.checks if _is_folded(check)]
        names = listed(dict.fromkeys(check.name for check in passed), len(_FOLDED))
        line = Check("checked", "ok", f"nothing wrong with {names}; details: without the request")
        rest = (check for check in self.checks[1:] if not _is_folded(check))
        return (self.checks[0], *([line] if passed else []), *rest)


def explain_skill(
    index: SkillIndex,
    name: str,
    options: SearchOptions,
    *,
    request: str = "",
    window: int | None,
    settings: Settings | None = None,
) -> Why:
    """Find out why a skill does not come, for any request or for one.

    The selection of the options says which folder the question comes from; the `window` of hosts
    is in tokens; the settings are those that named the index.

    Raises:
        AmbiguousNameError: If the name means several skills; names their ids.
        QueryError: If the request cannot be searched.
    """
    document, option = _find(index, name, options.selection), index_option(index.folder, settings)
    if document is None:
        return Why(name, tuple(check_absent(index, name, options.selection, option)))
    checks = [*check_skill(index, document, options.selection, window, option)]
    standing = None
    out = {check.name for check in checks if check.verdict == "error"}
    if request and out.isdisjoint(("scope", "settings")):
        standing = find_standing(index, document, request, options)
    handle = index.handle(document)
    if standing:
        if standing.skill != handle:
            detail = f"what follows is of {standing.skill}, which is shown instead"
            checks.append(Check("copies", "warning", detail))
        checks += check_standing(standing, document, index.root_of(document), option)
    return Why(handle, tuple(checks), document.doc_id, document.path, standing)


def _is_folded(check: Check) -> bool:
    return check.verdict == "ok" and check.name in _FOLDED


def _find(index: SkillIndex, name: str, selection: Selection) -> Document | None:
    """Return the skill of a name, seen from the question's folder or else anywhere, or None."""
    every, settings = index.opened.corpus.documents, index.opened.settings
    for scope in (scope_of(selection), ()):
        with suppress(SkillNotFoundError, SelectionError):
            documents = selected(every, scope, settings.roots)
            return find_by_name(name, documents, settings.root_paths, suggest=False)
    return None


def check_absent(
    index: SkillIndex, name: str, selection: Selection = (), option: str = ""
) -> Iterator[Check]:
    """Say why an index does not have a skill, as far as disk, settings and reports tell.

    The `option` names the index in commands, if it has to.
    """
    shown = one_line(name, SHOWN_NAME_CHARS)
    yield Check("skill", "error", f"the index has no skill named {shown!r}")
    folder = Path(next(iter(folders_of(selection)), Path.cwd()))
    sightings = dict(_sightings(index, split_written_name(name)[2], folder, option))
    for path, reason in islice(sightings.items(), _MOST_NAMED):
        yield Check("disk", "error", f"{path}: {reason}")
    called, near = near_to(name, index.opened.corpus.documents)
    for document in called[:_MOST_NAMED]:
        handle = one_line(index.handle(document), SHOWN_NAME_CHARS)
        yield Check("disk", "warning", f"{visible(document.path)}: it is indexed as {handle}")
    if not sightings and not called:
        roots = counted(len(index.opened.settings.roots), "root")
        where = f"no SKILL.md of that name lies in what is indexed ({roots}), nor where hosts look"
        next_step = f"to add its folder: skillsearch index FOLDER{option}"
        yield Check("disk", "warning", f"{where} from {folder}; {next_step}")
    if near:
        names = ", ".join(one_line(other, SHOWN_NAME_CHARS) for other in near)
        yield Check("names", "ok", f"similar names: {names}")


def _sightings(
    index: SkillIndex, name: str, folder: Path, option: str
) -> Iterator[tuple[str, str]]:
    """Yield the path of each skill of a name that is not indexed, and why not."""
    wanted = name_hash(name)
    for diagnostic in index.diagnostics():
        yield from _reported(diagnostic, wanted)
    for path in index.differences().added:
        if name_hash(Path(path).parent.name) == wanted:
            yield path, f"it is new, and not indexed yet; to do that: skillsearch index{option}"
    for report in report_folders(index, folder):
        if report.state in _OUT:
            reason = _reason(report)
            yield from ((path, reason) for path in _named_below(report.path, wanted))
    request = IndexRequest.load(index.folder)
    for root in request.left_out if request else ():
        reason = f"in {root}, {_OUT['left out'].format(shlex.quote(root))}"
        yield from ((path, reason) for path in _named_below(root, wanted))


def _reported(item: Diagnostic, wanted: int) -> Iterator[tuple[str, str]]:
    """Yield each skill that a report says was skipped, alone or with a folder, and why."""
    path, is_skill = Path(item.path), item.severity == "error"
    if path.is_dir():
        reason = f"{item.code}: {item.message}"
        yield from ((below, reason) for below in _named_below(item.path, wanted))
    elif (is_skill or item.code == "file-name-near") and name_hash(path.parent.name) == wanted:
        yield item.path, f"{item.code}: {item.message}"


def _reason(report: FolderReport) -> str:
    titles = listed(map(title_of, report.hosts), _MOST_NAMED)
    where = f"in the plugin {report.plugin}" if report.plugin else f"where {titles} look"
    if not report.plugin and not titles:
        where = "in your library"
    subject = titles if report.state == "disabled" else shlex.quote(report.path)
    return f"{where}, {_OUT[report.state].format(subject)}"


def _named_below(folder: str, wanted: int) -> Iterator[str]:
    """Yield the SKILL.md files below a folder whose folder or skill has a name, by its hash."""
    roots, _ = make_roots([Path(folder)])
    files = discover(roots, max_folders=_MOST_FOLDERS).files
    for file in islice(files, _MOST_READ):
        if name_hash(file.path.parent.name) == wanted or _is_named(file, wanted):
            yield str(file.path)


def _is_named(file: SkillFile, wanted: int) -> bool:
    skill = read_for_index(file).skill
    return skill is not None and name_hash(skill.name) == wanted


def check_skill(
    index: SkillIndex,
    document: Document,
    selection: Selection,
    window: int | None,
    option: str = "",
) -> Iterator[Check]:
    """Check all that may keep an indexed skill out of answers, prompts and hosts' listings.

    What does so is an error; what only makes it come less is a warning.
    """
    root = index.root_of(document)
    yield Check("skill", "ok", f"{document.path}; root: {describe_root(root)}")
    yield _check_scope(index, document, root, selection)
    yield _check_settings(index, document, without_scope(selection))
    store = index.opened.corpus.documents
    with suppress(SelectionError):
        store = selected(store, scope_of(selection), index.opened.settings.roots)
    yield _check_name(index, document, store)
    yield _check_family(index, document, store)
    yield _check_offer(document)
    yield _check_trust(root, option)
    yield from _check_text(index, document, option)
    yield from _check_hosts(index, document, selection, window)


def _check_scope(index: SkillIndex, document: Document, root: Root, selection: Selection) -> Check:
    scope = scope_of(selection)
    folders = listed(folders_of(selection), _MOST_NAMED)
    projects = listed(root.projects, _MOST_NAMED)
    detail = f"of the project {projects}, seen from there" if projects else "seen from everywhere"
    if document.paths:
        detail += f", where files fit {listed(document.paths, _MOST_NAMED)}"
    reason = ""
    if _is_left_out(index, document, scope):
        if is_in_scope(root, map(Viewpoint.of, folders_of(scope))):
            reason = f"it is for files such as {listed(document.paths, _MOST_NAMED)}: go there"
        elif projects:
            reason = f"it is of the project {projects}: go there, or ask with --all-projects"
        else:
            reason = "the project has turned off its plugin: enable that there"
        reason = f"not seen from {folders}; {reason}"
    return Check.of("scope", detail, reason, "error")


def _check_settings(index: SkillIndex, document: Document, selection: Selection) -> Check:
    """Name the options and settings that leave a skill out."""
    reasons = []
    for test in selection:
        kind, values, *_ = test
        if _is_left_out(index, document, (test,)):
            why = listed(document.lapses if kind == "strict" else values, _MOST_NAMED)
            reasons.append(f"{kind} ({why})")
    bad = f"left out by {'; '.join(reasons)}: change the options, settings or profile that say so"
    return Check.of("settings", "no setting leaves it out", bad if reasons else "", "error")


def _is_left_out(index: SkillIndex, document: Document, selection: Selection) -> bool:
    opened = index.opened
    try:
        store = selected(opened.corpus.documents, selection, opened.settings.roots)
    except SelectionError:
        return True
    return store.number_of(document.doc_id) is None


def _check_name(index: SkillIndex, document: Document, store: DocumentStore) -> Check:
    """Say whether the name means the skill, or another of that name stands before it."""
    shadowed = find_shadowed(store, index.opened.settings.roots)
    by = next((each.by for each in shadowed if each.document.doc_id == document.doc_id), None)
    if by:
        detail = f"the name means {by.doc_id} ({by.path}), which stands before this one; rename one"
        return Check("name", "error", f"{detail}, or load this one as {document.doc_id}")
    behind = [each.document.doc_id for each in shadowed if each.by.doc_id == document.doc_id]
    others = f", and not {listed(behind, _MOST_NAMED)}" if behind else ""
    return Check("name", "ok", f"{index.handle(document)} means this skill{others}")


def _check_family(index: SkillIndex, document: Document, store: DocumentStore) -> Check:
    """Say whether a near-copy is shown instead of the skill, or the skill for others."""
    number = store.number_of(document.doc_id)
    family = None if number is None else family_of(store, number, store.shadowed)
    if family is None or number is None:
        return Check("copies", "ok", "it has no near-copies")
    leader = store.families.leader_of(number)
    if leader == number or leader in store.left_out:
        return Check("copies", "ok", f"it stands for {family}: {family.names}")
    handle = index.handle(store[leader])
    detail = f"it is a near-copy of {handle} ({store[leader].path}), which is shown instead"
    return Check("copies", "warning", detail)


def _check_offer(document: Document) -> Check:
    problem = (
        "it asks not to be offered to models, so only people find it; in its frontmatter, take out "
        "disable-model-invocation, or internal"
    )
    return Check.of(
        "offer", "models may be offered it", problem if document.hidden else "", "error"
    )


def _check_trust(root: Root, option: str) -> Check:
    good = "its root is vetted, so that prompt and hook may offer it"
    bad = f"nobody vouches for its root ({root.trust}): prompt and hook leave it out; if you do: "
    return Check.of(
        "trust", good, "" if root.trust == "vetted" else f"{bad}{vouch_for(root, option)}"
    )


def _check_text(index: SkillIndex, document: Document, option: str) -> Iterator[Check]:
    """Read the skill as it is now, audit it, and count its example requests."""
    path, root = Path(document.path), Path(document.root)
    try:
        data, _ = read_skill_md(path, (root, *index.opened.settings.root_paths))
        skill, reported = parse_skill(data, doc_id=document.doc_id, path=path, root=root)
    except (ParseError, OSError) as exc:
        detail = f"it cannot be read any more: {one_line(str(exc))} Then: skillsearch index{option}"
        yield Check("file", "error", detail)
        return
    is_stale = skill.content_hash != document.content_hash
    changed = f"it has changed since it was indexed; to index it: skillsearch index{option}"
    yield Check.of("file", "as it was indexed", changed if is_stale else "")
    for diagnostic in reported:
        if diagnostic.severity != "note":
            yield Check("file", "warning", f"{diagnostic.code}: {diagnostic.message}")
    for finding in audit_text(skill, decode_skill_md(data)[0]):
        yield Check("audit", "warning", f"{finding.code}: {finding.message}")
    if document.hubness > 0:
        detail = "hub: it is near whatever is asked, so it ranks lower; say what it does"
        yield Check("audit", "warning", detail)
    detail = f"{counted(len(document.examples), 'example request')} to find it by"
    name = shlex.quote(index.handle(document))
    next_step = f"to have some: skillsearch enrich --pending {name}{option}"
    none = f"no example requests to find it by; {next_step}"
    yield Check("examples", "ok", detail if document.examples else none)


def _check_hosts(
    index: SkillIndex, document: Document, selection: Selection, window: int | None
) -> Iterator[Check]:
    """Say which hosts list the skill themselves, which are told not to, and which cut it."""
    around = Path(next(iter(folders_of(selection)), Path.cwd()))
    listings = Listings(around)
    folder = Path(document.path).parent
    readers = listings.readers(folder, with_plugins=True)
    if library_folder().resolve() in folder.parents:
        yield Check("hosts", "ok", "it is in your library: found by search, listed by no host")
        return
    if not readers:
        yield Check("hosts", "ok", f"no host looks where it lies, from {around}: search finds it")
        return
    off = [host for host in listings.readers(folder) if listings.is_off(host, document.name)]
    for host in off:
        file = host_file(host, hook="hook" in hosts()[host])
        tables = ".".join(hosts()[host]["switch"]["tables"])
        next_step = f"change {tables} in {file}, or skillsearch library restore"
        yield Check("hosts", "error", f"{title_of(host)} is told to turn it off: {next_step}")
    listing = [host for host in readers if host not in off]
    if listing:
        yield Check("hosts", "ok", f"looked for by {listed(map(title_of, listing), _MOST_NAMED)}")
    sources = sources_of_index(index, scope_of(selection))
    looked_at = [
        (source, listings.readers(source.path.parent, with_plugins=True)) for source in sources
    ]
    for host in (host for host in listing if host in HOSTS):
        skills = listed_skills([source for source, names in looked_at if host in names])
        skills = tuple(skill for skill in skills if not listings.is_off(host, skill.name))
        yield _check_listing(host, document.name, skills, window)


def _check_listing(
    host: str, name: str, skills: Sequence[ListedSkill], window: int | None
) -> Check:
    """Say how a host's listing of some skills shows one of them."""
    listing, title = list_in(host, skills, window), title_of(host)
    fates = [fate for fate in FATES if name in listing.fates[fate]]
    size = (
        f"{counted(len(skills), 'skill')}, {listing.needed:,} of {listing.limit:,} {listing.unit}"
    )
    next_step = f"({size}); to make room: skillsearch budget, skillsearch library move"
    texts: Mapping[Fate, str] = {
        "shortened": f"{title} shortens its description {next_step}",
        "name only": f"{title} lists its name alone {next_step}",
        "omitted": f"{title} leaves it out {next_step}",
        "hidden": f"{title} leaves it out, as it asks",
    }
    return Check.of(
        "listing",
        f"{title} lists it whole ({size})",
        texts.get(fates[0], "") if fates else texts["omitted"],
    )
