"""Check a skill folder against the Agent Skills specification and report every problem."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import NoneType
from typing import NamedTuple

from skillsearch.errors import ParseError, SkillError, UnsafePathError
from skillsearch.files.paths import confine, printable
from skillsearch.skills import frontmatter as front
from skillsearch.skills import metadata as meta
from skillsearch.skills.findings import Finding, finding_of
from skillsearch.skills.frontmatter import Fields, Sections
from skillsearch.skills.meaning import mend_fields, regular_keys
from skillsearch.skills.metadata import MAX_COMPATIBILITY_CHARS, MAX_DESCRIPTION_CHARS
from skillsearch.skills.parser import decode_skill_md, parse_skill, repair_mapping
from skillsearch.skills.resources import list_files, read_skill_md
from skillsearch.text import markdown
from skillsearch.text.safe_text import counted
from skillsearch.types.skills import SKILL_MD, SKILL_MD_NAMES, Diagnostic

FIELDS = ("allowed-tools", "compatibility", "description", "license", "metadata", "name")
"""The fields that the specification knows."""

MAX_BODY_LINES = 500
MAX_BODY_TOKENS = 5_000
"""The specification's advice on the body."""

_UNKNOWN = "The specification has no field {!r}; nest it in 'metadata'."
_READ = "The specification has no field {!r}; hosts that read it: {}."
FieldReaders = Mapping[str, Sequence[str]]
"""The hosts that read each field that the specification does not know, by their names."""

_CHARS_PER_TOKEN = 4
_finding = partial(finding_of, "validator")
_MAX_CHARS = {"description": MAX_DESCRIPTION_CHARS, "compatibility": MAX_COMPATIBILITY_CHARS}
_LINK = re.compile(r"\]\(([^()\s]{1,500})\)")
_RESOURCE = re.compile(r"(?<![\w./-])((?:references|assets|scripts)/[\w./-]{1,300}\.\w{1,10})")
_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:|[#/{<$]")
# The flags of England, Scotland and Wales are spelled with tag characters after a black flag.
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007f]+")
_HIDDEN = re.compile("[\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")


class Verdict(NamedTuple):
    """All problems of a skill folder, and whether its skill cannot be indexed."""

    problems: tuple[Diagnostic, ...]
    is_lost: bool


def validate(
    path: Path, readers: FieldReaders | None = None, roots: Sequence[Path] = ()
) -> Verdict:
    """Check a skill folder, or the SKILL.md in it, by one read; return every problem.

    The skill is valid if none is an error; warnings and notes are advice. Verdicts agree with the
    reference implementation, except where it rejects sound files or accepts broken ones. For the
    hosts that are `readers` of fields, what they read and the reference refuses is a note. The
    SKILL.md may link to a text in the `roots`.
    """
    folder = path.parent if path.is_file() and path.name in SKILL_MD_NAMES else path
    skill_md = next((folder / name for name in SKILL_MD_NAMES if (folder / name).exists()), None)
    shown = printable(skill_md or folder)
    findings, is_lost = _check_folder(folder, skill_md, roots)
    if readers is not None:
        listed = {key: ", ".join(hosts) for key, hosts in readers.items()}
        notes = {_UNKNOWN.format(key): _READ.format(key, hosts) for key, hosts in listed.items()}
        findings = [_for_hosts(finding, notes) for finding in findings]
    return Verdict(tuple(finding.at(shown) for finding in findings), is_lost)


def _for_hosts(finding: Finding, notes: Mapping[str, str]) -> Finding:
    """Turn a finding about what hosts read into a note; `notes` maps messages to replacements."""
    if finding.message in notes or finding.code == "yaml-flow-style":
        message = notes.get(finding.message, finding.message)
        return finding._replace(severity="note", message=message)
    return finding


def _check_folder(
    folder: Path, skill_md: Path | None, roots: Sequence[Path]
) -> tuple[list[Finding], bool]:
    """Return the problems of a skill folder, and whether the skill is lost."""
    if not folder.exists():
        return [_finding("path-missing")], True
    if not folder.is_dir():
        return [_finding("not-a-folder")], True
    if skill_md is None:
        return [_finding("skill-md-missing")], True
    named = folder.resolve() if folder.name in {"", ".."} else folder
    is_lost = False
    try:
        data, _ = read_skill_md(skill_md, roots)
    except ParseError as error:
        is_lost = error.severity == "error"
        findings = [Finding(error.code, str(error), error.line, error.severity)]
    else:
        findings = list(_check_file(data, named))
        try:
            parse_skill(data, doc_id="", path=skill_md, root=folder)
        except ParseError:
            is_lost = True
    if skill_md.name != SKILL_MD_NAMES[0]:
        findings.append(_finding("file-name-case"))
    return findings, is_lost


def _check_file(data: bytes, folder: Path) -> Iterator[Finding]:
    text, oddities = decode_skill_md(data)
    for oddity in oddities:
        yield oddity._replace(severity="error")
    seen = _FLAG.sub(lambda flag: " " * len(flag[0]), text).replace("\r\n", " \n")
    if hidden := meta.CONTROL_CHARACTERS.search(seen) or _HIDDEN.search(seen):
        line = text.count("\n", 0, hidden.start()) + 1
        yield _finding("hidden-characters", ord(hidden[0]), line=line)
    sections = front.split_frontmatter(text)
    if sections.frontmatter is None or sections.first_line != 2:
        yield _finding("frontmatter-missing", line=1)
    if sections.frontmatter is not None:
        if not sections.closed:
            yield _finding("frontmatter-unclosed", line=sections.first_line)
        yield from _check_frontmatter(sections.frontmatter, sections.first_line, folder.name)
    yield from _check_body(sections, folder)


def _check_frontmatter(text: str, first_line: int, folder: str) -> Iterator[Finding]:
    """Yield all problems of the frontmatter, reading on after a mistake in its YAML."""
    yield from regular_keys(text, first_line=first_line)[1]
    try:
        fields, duplicates = front.load_yaml(text, first_line=first_line)
        for duplicate in duplicates:
            yield duplicate._replace(severity="error")
        if line := front.find_flow_style(text, first_line=first_line):
            yield _finding("yaml-flow-style", line=line)
    except ParseError as error:
        yield Finding(error.code, str(error), error.line, "error")
        fields = {}
        with suppress(ParseError):
            fields, _ = repair_mapping(text[: front.end_of_keys(text)], first_line=first_line)
        if not fields:
            return
    fields, mended = mend_fields(fields, text, first_line=first_line)
    yield from mended
    lines: dict[str, int] = {}  # of each top-level key
    for number, line_text in enumerate(text.split("\n"), first_line):
        key, colon, _ = line_text.partition(":")
        if colon and not line_text.startswith((" ", "\t")):
            lines.setdefault(key.strip().strip("\"'"), number)
    for key, finding in _check_fields(fields, folder):
        yield finding._replace(line=lines.get(key))


def _check_fields(fields: Fields, folder: str) -> Iterator[tuple[str, Finding]]:
    """Yield all problems of the fields, each with its key."""
    for key in (key for key in fields if key not in FIELDS):
        yield key, Finding("field-unknown", _UNKNOWN.format(key), None, "error")
    name = fields.get("name")
    if isinstance(name, (list, dict)):
        yield "name", _finding("name-not-text")
    else:
        for problem in meta.check_name(meta.as_text(name).strip(), folder, "error"):
            yield "name", problem
    for key, limit in _MAX_CHARS.items():
        if fault := _text_problem(key, fields, limit):
            yield key, fault
    yield from _check_shapes(fields)


def _check_shapes(fields: Fields) -> Iterator[tuple[str, Finding]]:
    tools, metadata = fields.get("allowed-tools"), fields.get("metadata")
    listed = tools if isinstance(tools, list) else [tools]
    if tools is not None and not all(isinstance(tool, str) for tool in listed):
        yield "allowed-tools", _finding("allowed-tools-shape")
    if not isinstance(metadata, (dict, NoneType)):
        yield "metadata", _finding("metadata-shape")
    elif any(isinstance(value, (list, dict)) for value in (metadata or {}).values()):
        yield "metadata", _finding("metadata-nested")


def _text_problem(key: str, fields: Fields, limit: int) -> Finding | None:
    value, text = fields.get(key), meta.as_text(fields.get(key))
    if isinstance(value, (list, dict)):
        return _finding(f"{key}-not-text")
    if text.strip():
        return _finding(f"{key}-too-long", len(text), limit) if len(text) > limit else None
    if key == "description":
        return _finding("description-missing")
    return _finding(f"{key}-empty") if key in fields else None


def _check_body(sections: Sections, folder: Path) -> Iterator[Finding]:
    """Yield advice on the length of the body and on files that it names and the skill lacks."""
    body = sections.body
    length, tokens = body.count("\n") + 1, len(body) // _CHARS_PER_TOKEN
    if length > MAX_BODY_LINES or tokens > MAX_BODY_TOKENS:
        yield _finding(
            "body-too-long",
            counted(length, "line"),
            tokens,
            MAX_BODY_LINES,
            MAX_BODY_TOKENS,
            line=sections.body_line,
        )
    try:
        files, is_truncated = list_files(folder)
    except SkillError:
        return
    present = {SKILL_MD, *files, *(str(above) for file in files for above in Path(file).parents)}
    for target, at in _references(body).items():
        try:
            if is_truncated or str(confine(target)) in present:
                continue
            code = "reference-missing"
        except UnsafePathError:
            code = "reference-unsafe"
        yield _finding(code, target, line=sections.body_line + body.count("\n", 0, at))


def _references(body: str) -> dict[str, int]:
    """Return the relative files that a body names outside code fences, with their offsets."""
    lines = markdown.lines(body)
    prose = "\n".join(" " * len(text) if is_fenced else text for text, _, is_fenced in lines)
    references: dict[str, int] = {}
    for match in _LINK.finditer(prose):
        target = match[1].partition("#")[0].partition("?")[0]
        if target and not _SCHEME.match(match[1]):
            references.setdefault(target.removeprefix("./"), match.start())
    for match in _RESOURCE.finditer(prose):
        references.setdefault(match[1], match.start())
    return references
