"""Check a skill folder against the Agent Skills specification and report every problem."""

from __future__ import annotations

import re
from pathlib import Path

from skillsearch.errors import ParseError, SkillError, UnsafePathError
from skillsearch.files.paths import confine, printable
from skillsearch.skills.frontmatter import (
    Finding,
    Sections,
    end_of_keys,
    find_flow_style,
    load_yaml,
    split_frontmatter,
)
from skillsearch.skills.listing import list_files
from skillsearch.skills.metadata import (
    CONTROL_CHARACTERS,
    MAX_COMPATIBILITY_CHARS,
    MAX_DESCRIPTION_CHARS,
    as_text,
    check_name,
)
from skillsearch.skills.parser import decode_skill_md
from skillsearch.skills.repair import repair_mapping
from skillsearch.skills.resources import read_skill_md
from skillsearch.text import markdown
from skillsearch.types import Diagnostic, JsonValue

FIELDS = ("allowed-tools", "compatibility", "description", "license", "metadata", "name")
"""The fields that the specification knows."""

MAX_BODY_LINES = 500
MAX_BODY_TOKENS = 5_000
"""The specification's advice on the body."""

_CHARS_PER_TOKEN = 4
FILE_NAMES = ("SKILL.md", "skill.md")
_LINK = re.compile(r"\]\(([^()\s]{1,500})\)")
_RESOURCE = re.compile(r"(?<![\w./-])((?:references|assets|scripts)/[\w./-]{1,300}\.\w{1,10})")
_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:|[#/{<$]")
# The flags of England, Scotland and Wales are spelled with tag characters after a black flag.
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007f]+")
_HIDDEN = re.compile("[\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")


def validate(path: Path) -> tuple[Diagnostic, ...]:
    """Check a skill folder, or the SKILL.md in it, and return every problem.

    The skill is valid if none is an error; warnings and notes are advice. Verdicts agree with the
    reference implementation, except where it rejects sound files or accepts broken ones.
    """
    folder = path.parent if path.is_file() and path.name in FILE_NAMES else path
    if not folder.is_dir():
        return (_unusable(folder).at(printable(folder)),)
    skill_md = next((folder / name for name in FILE_NAMES if (folder / name).exists()), None)
    if skill_md is None:
        message = "The folder has no SKILL.md; add one with a name and a description."
        return (Finding("skill-md-missing", message, None, "error").at(printable(folder)),)
    if folder.name in {"", ".."}:
        folder = folder.resolve()
    findings = _check_file(skill_md, folder)
    if skill_md.name != FILE_NAMES[0]:
        message = "The file is named 'skill.md'; some hosts see only 'SKILL.md'."
        findings.append(Finding("file-name-case", message))
    return tuple(finding.at(printable(skill_md)) for finding in findings)


def _unusable(path: Path) -> Finding:
    """Return why a path is not a skill folder."""
    if path.exists():
        return _error("not-a-folder", "This is neither a skill folder nor a SKILL.md.")
    return _error("path-missing", "The path does not exist; correct it.")


def _error(code: str, message: str, line: int | None = None) -> Finding:
    return Finding(code, message, line, "error")


def _as_error(error: ParseError) -> Finding:
    return _error(error.code, str(error), error.line)


def _check_file(skill_md: Path, folder: Path) -> list[Finding]:
    try:
        data, _ = read_skill_md(skill_md)
    except ParseError as error:
        return [_as_error(error)]
    text, findings = decode_skill_md(data)
    findings = [finding._replace(severity="error") for finding in findings]
    sections = split_frontmatter(text)
    findings += _check_hidden_characters(text)
    if sections.frontmatter is None or sections.first_line != 2:
        message = "The file must start with frontmatter: a '---' line, fields, a '---' line."
        findings.append(_error("frontmatter-missing", message, 1))
    if sections.frontmatter is not None:
        findings += _check_frontmatter(sections, folder.name)
    return findings + _check_body(sections, folder)


def _check_frontmatter(sections: Sections, folder: str) -> list[Finding]:
    """Return all problems of the frontmatter, reading on after a mistake in its YAML."""
    text = sections.frontmatter or ""
    findings: list[Finding] = []
    if not sections.closed:
        message = "The frontmatter is not closed; add a '---' line after its fields."
        findings.append(_error("frontmatter-unclosed", message, sections.first_line))
    try:
        fields, duplicates = load_yaml(text, first_line=sections.first_line)
        findings += (finding._replace(severity="error") for finding in duplicates)
        if line := find_flow_style(text, first_line=sections.first_line):
            message = "Lists and mappings in brackets are refused; write an item a line."
            findings.append(_error("yaml-flow-style", message, line))
    except ParseError as error:
        findings.append(_as_error(error))
        try:
            fields, _ = repair_mapping(text[: end_of_keys(text)], first_line=sections.first_line)
        except ParseError:
            return findings
        if not fields:
            return findings
    lines = _key_lines(text, sections.first_line)
    for key, finding in _check_fields(fields, folder):
        findings.append(finding._replace(line=lines.get(key)))
    return findings


def _key_lines(text: str, first_line: int) -> dict[str, int]:
    """Return the line of each top-level key."""
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), first_line):
        key, colon, _ = line.partition(":")
        if colon and not line.startswith((" ", "\t")):
            lines.setdefault(key.strip().strip("\"'"), number)
    return lines


def _check_fields(fields: dict[str, JsonValue], folder: str) -> list[tuple[str, Finding]]:
    """Return all problems of the fields, each with its key."""
    found = []
    for key in (key for key in fields if key not in FIELDS):
        message = f"The specification has no field {key!r}; nest it in 'metadata'."
        found.append((key, _error("field-unknown", message)))
    name = fields.get("name")
    if isinstance(name, (list, dict)):
        message = "The name is a list or mapping; write one word."
        found.append(("name", _error("name-not-text", message)))
    else:
        problems = check_name(as_text(name).strip(), folder, "error")
        found += [("name", problem) for problem in problems]
    empty = "There is no description; say what the skill does and when to use it."
    missing = _error("description-missing", empty)
    found += _check_text("description", fields, MAX_DESCRIPTION_CHARS, missing)
    if "compatibility" in fields:
        empty = "The compatibility is empty; fill or remove it."
        missing = Finding("compatibility-empty", empty)
        found += _check_text("compatibility", fields, MAX_COMPATIBILITY_CHARS, missing)
    return found + _check_shapes(fields)


def _check_text(
    key: str, fields: dict[str, JsonValue], limit: int, missing: Finding
) -> list[tuple[str, Finding]]:
    """Return the problem of a text, with its key; `missing` if it is empty."""
    value = fields.get(key)
    if isinstance(value, (list, dict)):
        message = f"The {key} is a list or mapping; write it as one string."
        return [(key, _error(f"{key}-not-text", message))]
    text = as_text(value)
    if not text.strip():
        return [(key, missing)]
    if len(text) > limit:
        message = f"The {key} has {len(text)} characters; shorten it to {limit}."
        return [(key, _error(f"{key}-too-long", message))]
    return []


def _check_shapes(fields: dict[str, JsonValue]) -> list[tuple[str, Finding]]:
    """Return advice on fields whose shape differs from the specification's."""
    found = []
    tools = fields.get("allowed-tools")
    is_list = isinstance(tools, list) and all(isinstance(tool, str) for tool in tools)
    if tools is not None and not isinstance(tools, str) and not is_list:
        message = "The allowed-tools are neither a string nor a list of strings; write 'Read Bash'."
        found.append(("allowed-tools", Finding("allowed-tools-shape", message)))
    metadata = fields.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        message = "The metadata are not a mapping; write 'key: value' lines below it."
        found.append(("metadata", Finding("metadata-shape", message)))
    elif metadata and any(isinstance(value, (list, dict)) for value in metadata.values()):
        message = "The metadata hold lists or mappings; the specification maps strings to strings."
        found.append(("metadata", Finding("metadata-nested", message, None, "note")))
    return found


def _check_hidden_characters(text: str) -> list[Finding]:
    """Warn about characters that a model reads and a person does not see."""
    visible = _FLAG.sub(lambda flag: " " * len(flag[0]), text) if "\U0001f3f4" in text else text
    visible = visible.replace("\r\n", " \n")
    found = CONTROL_CHARACTERS.search(visible) or _HIDDEN.search(visible)
    if found is None:
        return []
    line = text.count("\n", 0, found.start()) + 1
    message = f"The file holds the hidden character U+{ord(found[0]):04X}; remove it."
    return [Finding("hidden-characters", message, line)]


def _check_body(sections: Sections, folder: Path) -> list[Finding]:
    """Return advice on the length of the body and the files that it refers to."""
    findings = []
    lines = sections.body.count("\n") + 1
    tokens = len(sections.body) // _CHARS_PER_TOKEN
    if lines > MAX_BODY_LINES or tokens > MAX_BODY_TOKENS:
        message = (
            f"The body has {lines} lines, about {tokens} tokens; keep it below {MAX_BODY_LINES}"
            f" lines and {MAX_BODY_TOKENS} tokens, and move the rest to references/."
        )
        findings.append(Finding("body-too-long", message, sections.body_line))
    return findings + _check_references(sections, folder)


def _check_references(sections: Sections, folder: Path) -> list[Finding]:
    """Warn about files that the body names and the skill does not have."""
    try:
        files, is_truncated = list_files(folder)
    except SkillError:
        return []
    known = {"SKILL.md", *files}
    known.update(str(parent) for file in files for parent in Path(file).parents)
    findings = []
    for target, at in _references(sections.body).items():
        line = sections.body_line + sections.body.count("\n", 0, at)
        try:
            is_known = is_truncated or str(confine(target)) in known
        except UnsafePathError:
            message = f"The body refers to {target!r}, which leaves the skill folder."
            findings.append(Finding("reference-unsafe", message, line))
            continue
        if not is_known:
            message = f"The body refers to {target!r}, which does not exist; add it or correct it."
            findings.append(Finding("reference-missing", message, line))
    return findings


def _references(body: str) -> dict[str, int]:
    """Return the relative files that a body names outside code fences, with their offsets."""
    prose = "\n".join(
        " " * len(line.text) if line.is_fenced else line.text for line in markdown.lines(body)
    )
    found: dict[str, int] = {}
    for match in _LINK.finditer(prose):
        target = match[1].partition("#")[0].partition("?")[0]
        if target and not _SCHEME.match(match[1]):
            found.setdefault(target.removeprefix("./"), match.start())
    for match in _RESOURCE.finditer(prose):
        found.setdefault(match[1], match.start())
    return found
