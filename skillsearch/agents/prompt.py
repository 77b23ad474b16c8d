"""Skills → text for a system prompt: overviews, loaded bodies and documents.

Everything that a skill says is quoted material. Nothing in it can hide from a reader, close the
element that it stands in, or pass for a line of ours. The caller joins parts by blank lines.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from skillsearch.skills.metadata import MAX_DESCRIPTION_CHARS
from skillsearch.text.provenance import source_tag, tag_of
from skillsearch.text.safe_text import counted, one_line, shorten, visible
from skillsearch.types.answers import Hit
from skillsearch.types.json_values import Json, choice_of, text_of
from skillsearch.types.skills import OVERVIEW_FORMATS, SHOWN_NAME_CHARS, TRUSTS, OverviewFormat

if TYPE_CHECKING:
    from skillsearch.index.documents.document import Document
    from skillsearch.library.skill_library import SkillLibrary

MAX_PATH_CHARS = 4096
MAX_SHOWN_FILES = 50
"""Lines for the files below a body; where there are more, the fullest folders take one each."""

_OPTIONAL = ("location", "source")

_TAG = re.compile(
    r"<(?=\s*+/?+\s*+(?:available_skills|skill_(?:content|document|resources))\b)", re.IGNORECASE
)
"""The start of one of our tags as a model may read it: in any case and with blanks inside."""
_MARK = re.compile(
    r"^([^\S\n]*+)(?=\[(?:loaded|doc)\](?![(\[:])|docs loaded:)", re.IGNORECASE | re.MULTILINE
)
"""The start of a line that `render_loaded` might write; a Markdown link is not one."""
_MARKUP = re.compile(r"[\\`*~\[\]_](?<!\w_(?=\w))")
"""Markdown's markup inside a line; an underscore only at the edge of a word."""
_ENTITY = re.compile(r"&(?=#?\w+;)")

CONCISE_CHARS = 400
"""Of a description in a summary: on 2,935 public skills, such lines take half the tokens of XML."""


class PromptSkill(NamedTuple):
    """A skill in an overview; without a location, the agent loads skills by name.

    The `source` tells where a skill comes from that nobody vouches for, and which near-copies it
    stands for.
    """

    name: str
    description: str
    location: str = ""
    source: str = ""


class LoadedPrompt(NamedTuple):
    """A loaded skill, with the path and content of each of its loaded documents."""

    name: str
    body: str
    docs: tuple[tuple[str, str], ...] = ()


def offered(library: SkillLibrary, skill: Document | Hit) -> PromptSkill:
    """Return a skill as an overview offers it to an agent that can open files."""
    about = skill if isinstance(skill, Hit) else library.root_of(skill)
    return PromptSkill(library.handle(skill), skill.description, skill.path, source_tag(about))


def render_offers(library: SkillLibrary, skills: Sequence[Document | Hit]) -> dict[str, str]:
    """Render each skill's part of an XML overview, by its id, an @ and the hash of its file."""
    return {
        f"{skill.doc_id}@{library.find(skill.doc_id).content_hash}": "\n".join(
            _xml_item(_safe(offered(library, skill))._asdict())
        )
        for skill in skills
    }


def overview_line(shown: Mapping[str, Json], more: str = "") -> str:
    """Return an overview on one line; what we say of a skill stands before its own words."""
    trust = choice_of(shown.get("trust", "vetted"), TRUSTS)
    tag = tag_of(trust, text_of(shown.get("origin", "")))
    family = f"[{shown['also']}]" if "also" in shown else ""
    parts = (text_of(shown["name"]), more, tag, family)
    return f"{' '.join(filter(None, parts))}: {shown['description']}"


def fit_lines(lines: Iterable[str], total: int, room: int, note: str) -> tuple[str, int]:
    """Join lines, most important first, while they fit into `room` characters, and count them.

    If not all of the `total` lines fit, the last one is `note`, formatted with ``shown``,
    ``hidden`` and ``total``, which is there even if it alone exceeds the room.
    """
    shown: list[str] = []
    used = -1
    for line in lines:
        used += len(line) + 1
        if used > room:
            break
        shown.append(line)
    else:
        return "\n".join(shown), len(shown)
    while True:
        last = note.format(shown=len(shown), hidden=total - len(shown), total=total)
        text = "\n".join([*shown, last])
        if len(text) <= room or not shown:
            return text, len(shown)
        shown.pop()


def render_overview(skills: Sequence[PromptSkill], form: OverviewFormat = "xml") -> str:
    """Render the names and descriptions that an agent chooses from, in the given order.

    For skills that follow the specification, xml is byte for byte what ``skills-ref to-prompt``
    writes, except that locations are escaped too. An unknown form is a `ValueError`.
    """
    if form not in OVERVIEW_FORMATS:
        raise ValueError(f"form is {form!r}; use one of: {', '.join(OVERVIEW_FORMATS)}.")
    records = [_safe(skill)._asdict() for skill in skills]
    if form == "json":
        return json.dumps(records, ensure_ascii=False).replace("<", "\\u003c")  # opens no tag
    lines: list[str] = []
    for record in records:
        lines += _markdown_item(record) if form == "markdown" else _xml_item(record)
    if form == "xml" and lines:
        lines = ["<available_skills>", *lines, "</available_skills>"]
    return "\n".join(lines)


def _markdown_item(record: dict[str, str]) -> list[str]:
    about = _as_markdown(one_line(record["description"]))
    lines = [f"- **{_as_markdown(record['name'])}**: {about}"]
    more = ((key, record[key]) for key in _OPTIONAL)
    return lines + [f"  {key}: {_as_markdown(text)}" for key, text in more if text]


def _xml_item(record: dict[str, str]) -> list[str]:
    lines = ["<skill>"]
    for tag, text in record.items():
        if text or tag not in _OPTIONAL:
            lines += [f"<{tag}>", html.escape(text), f"</{tag}>"]
    return [*lines, "</skill>"]


def render_available(
    skills: Sequence[PromptSkill], n: int | None = None, *, head: str = "Available skills:"
) -> str:
    """Render trpc-agent-go's plain list; skills after the first `n` are only named."""
    if not skills:
        return ""
    shown = len(skills) if n is None else min(max(n, 0), len(skills))
    described = map(_safe, skills[:shown])
    lines = [
        f"- {' '.join(filter(None, (skill.name, skill.source)))}: {one_line(skill.description)}"
        for skill in described
    ]
    if shown < len(skills):
        head += f" (showing {shown} of {len(skills)}; remaining names listed below)"
        names = ", ".join(_name(skill.name) for skill in skills[shown:])
        lines.append(f"Additional skills (use skill_load by name to access): {names}")
    return _without_tags("\n".join([head, *lines]))


def fold_files(files: Sequence[str]) -> list[str]:
    """Return the paths of files, in order; of too many, the fullest folders with their counts.

    A folder stands for all that is below it, so those within it are folded first.
    """
    whole = counts = dict.fromkeys(files, 1)
    while len(counts) > MAX_SHOWN_FILES:
        inside = Counter(filter(None, map(_folder, counts)))
        innermost = inside.keys() - {above for folder in inside for above in _folders(folder)}
        fullest = max((inside[folder] for folder in innermost), default=0)
        if not fullest:
            break
        folded: dict[str, int] = {}
        for path, count in counts.items():
            folder = _folder(path)
            line = folder if folder in innermost and inside[folder] == fullest else path
            folded[line] = folded.get(line, 0) + count
        counts = folded
    return [
        path if path in whole else f"{path} ({counted(count, 'file')})"
        for path, count in counts.items()
    ]


def _folder(path: str) -> str:
    """Return the folder of a file or of a folder, with a slash at its end; nothing at the top."""
    above, slash, _ = path.rstrip("/").rpartition("/")
    return above + slash


def _folders(path: str) -> Iterator[str]:
    """Yield all folders above a path, the nearest first."""
    while path := _folder(path):
        yield path


def render_body(
    name: str,
    body: str,
    *,
    directory: str = "",
    files: Sequence[str] = (),
    files_truncated: bool = False,
    note: str = "",
) -> str:
    """Render the body of a loaded skill as a ``skill_content`` block, for prompts and results.

    The body stays Markdown, so the block is not XML; but only its last line has its closing tag.
    `directory` is empty if the agent cannot open files itself; the `note` comes first.
    """
    lines = [_without_tags(one_line(note))] if note else []
    lines += [f'<skill_content name="{html.escape(_name(name))}">', _text(body)]
    if directory:
        lines += [
            f"\nSkill directory: {_without_tags(_path(directory))}",
            "Relative paths in this skill are relative to the skill directory.",
        ]
    if files or files_truncated:
        files = fold_files(files)
        shown = files[:MAX_SHOWN_FILES]
        lines.append("\n<skill_resources>")
        lines += [f"<file>{html.escape(_path(file))}</file>" for file in shown]
        if files_truncated or len(shown) < len(files):
            lines.append("There are more files than are listed here.")
        lines.append("</skill_resources>")
    return "\n".join([*lines, "</skill_content>"])


def render_chunks(chunks: Sequence[tuple[str, str]]) -> str:
    """Render a list of chunks that a body leaves out, given by id and description."""
    lines = [f"- {one_line(name)}: {one_line(about)}" for name, about in chunks]
    head = ["Chunks of the body, loaded by their ids:"] if lines else []
    return _without_tags("\n".join([*head, *lines]))


def render_loaded(entries: Sequence[LoadedPrompt]) -> str:
    r"""Render loaded skills and their documents in trpc-agent-go's plain form.

    A line that begins like one of ours (``[Loaded]``, ``[Doc]`` or ``Docs loaded:``, after blanks
    and in any case) gets a backslash: ``\[Doc] a.md``.
    """
    parts = []
    for entry in entries:
        docs = [(_without_tags(_path(path)), _unmarked(content)) for path, content in entry.docs]
        name, paths = _without_tags(_name(entry.name)), ", ".join(path for path, _ in docs)
        parts.append(f"[Loaded] {name}\n\n{_unmarked(entry.body)}\nDocs loaded: {paths or 'none'}")
        parts += (f"[Doc] {path}\n\n{content}" for path, content in docs)
    return "\n\n".join(parts)


def _safe(skill: PromptSkill) -> PromptSkill:
    """Bound the texts of a skill and reveal what they hide; the description keeps its lines."""
    description = shorten(visible(skill.description), MAX_DESCRIPTION_CHARS)
    source = one_line(skill.source, MAX_DESCRIPTION_CHARS)
    return PromptSkill(_name(skill.name), description, _path(skill.location), source)


def _name(name: str) -> str:
    return one_line(name, SHOWN_NAME_CHARS)


def _path(path: str) -> str:
    """Return a path on one line; its blanks stay, since someone will open it."""
    return shorten(visible(path).replace("\n", " "), MAX_PATH_CHARS)


def _text(markdown: str) -> str:
    """Return a body or document in which our tags are plain text."""
    return _without_tags(visible(markdown)).strip("\n")


def _unmarked(markdown: str) -> str:
    """Return a body or document without our tags and marked lines."""
    return _MARK.sub(r"\1\\", _text(markdown))


def _without_tags(text: str) -> str:
    return _TAG.sub("&lt;", text)


def _as_markdown(line: str) -> str:
    """Return Markdown that shows a line literally."""
    plain = _ENTITY.sub("&amp;", line).replace("<", "&lt;")
    return _MARKUP.sub(r"\\\g<0>", plain)
