"""Skills → the parts of a system prompt: the overview, loaded bodies and documents, as text.

All that a skill says is material here. Nothing in it can hide from a reader, close the element
that it stands in, or pass for a line of ours. Parts are joined by the caller, with a blank line
between them; an empty one is left out.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from skillsearch.text.safe_text import one_line, shorten, visible

OverviewFormat = Literal["xml", "markdown", "json"]
OVERVIEW_FORMATS: tuple[OverviewFormat, ...] = get_args(OverviewFormat)
"""Forms of the overview. xml is what the Agent Skills specification's own library writes."""

MAX_NAME_CHARS = 200
MAX_DESCRIPTION_CHARS = 1024
"""The specification's limit."""
MAX_PATH_CHARS = 4096
MAX_SHOWN_FILES = 200
"""Files that are named below a body; a host asks for the rest."""

_TAG = re.compile(
    r"<(?=\s*+/?+\s*+(?:available_skills|skill_(?:content|document|resources))\b)", re.IGNORECASE
)
"""Begins a tag of ours, as a model may read it: in any case and with blanks inside."""
_MARK = re.compile(
    r"^([^\S\n]*+)(?=\[(?:loaded|doc)\](?![(\[:])|docs loaded:)", re.IGNORECASE | re.MULTILINE
)
"""Begins a line that `render_loaded` would write; a Markdown link is none."""
_MARKUP = re.compile(r"[\\`*~\[\]_](?<!\w_(?=\w))")
"""What Markdown obeys inside a line; an underscore only at the edge of a word."""
_ENTITY = re.compile(r"&(?=#?\w+;)")


@dataclass(frozen=True, slots=True)
class PromptSkill:
    """A skill as the overview shows it.

    Attributes:
        name: The name by which the agent is to ask for it.
        description: What it does and when to use it.
        location: Path of its SKILL.md; empty where the agent loads skills by name.
    """

    name: str
    description: str
    location: str = ""


@dataclass(frozen=True, slots=True)
class LoadedPrompt:
    """A loaded skill, for `render_loaded`.

    Attributes:
        name: Its name.
        body: The Markdown of its SKILL.md.
        docs: Path and content of each of its documents that is loaded too.
    """

    name: str
    body: str
    docs: Sequence[tuple[str, str]] = ()


def render_overview(skills: Sequence[PromptSkill], form: OverviewFormat = "xml") -> str:
    """Render the names and descriptions that an agent chooses from.

    Of skills that follow the specification, xml is byte for byte what ``skills-ref to-prompt``
    writes, save that locations are escaped too. Markdown has one list item a skill.

    Args:
        skills: The skills, in the order to show them.
        form: One of `OVERVIEW_FORMATS`.

    Returns:
        The overview; where there is no skill, the empty text, or as JSON the empty list.

    Raises:
        ValueError: There is no such form.
    """
    if form not in _OVERVIEWS:
        raise ValueError(f"form is {form!r}; use one of: {', '.join(OVERVIEW_FORMATS)}.")
    return _OVERVIEWS[form]([_safe(skill) for skill in skills])


def render_available(skills: Sequence[PromptSkill], limit: int | None = None) -> str:
    """Render an overview as the plain list of trpc-agent-go: a line for each skill.

    Args:
        skills: The skills, those to describe first.
        limit: How many to describe at most; of the others only the names are given.

    Returns:
        The list; empty where there is no skill.
    """
    if not skills:
        return ""
    shown = len(skills) if limit is None else min(max(limit, 0), len(skills))
    described = [_safe(skill) for skill in skills[:shown]]
    lines = [f"- {skill.name}: {one_line(skill.description)}" for skill in described]
    head = "Available skills:"
    if shown < len(skills):
        head += f" (showing {shown} of {len(skills)}; remaining names listed below)"
        names = ", ".join(_name(skill.name) for skill in skills[shown:])
        lines.append(f"Additional skills (use skill_load by name to access): {names}")
    return _without_tags("\n".join([head, *lines]))


def render_body(
    name: str,
    body: str,
    *,
    directory: str = "",
    files: Sequence[str] = (),
    files_truncated: bool = False,
) -> str:
    """Render the body of a skill that was loaded, for a system prompt or the result of a tool.

    The body stays Markdown, so the block is no XML; but its last line is the only one that has
    its closing tag.

    Args:
        name: The skill's name.
        body: The Markdown of its SKILL.md.
        directory: Its folder; empty where the agent cannot open files itself.
        files: Paths of its files below the folder; `MAX_SHOWN_FILES` of them are shown.
        files_truncated: True where it has more files than these.

    Returns:
        A ``skill_content`` block.
    """
    lines = [f'<skill_content name="{html.escape(_name(name))}">', _text(body)]
    if directory:
        lines += [
            f"\nSkill directory: {_without_tags(_path(directory))}",
            "Relative paths in this skill are relative to the skill directory.",
        ]
    if files or files_truncated:
        shown = files[:MAX_SHOWN_FILES]
        lines.append("\n<skill_resources>")
        lines += [f"<file>{html.escape(_path(file))}</file>" for file in shown]
        if files_truncated or len(shown) < len(files):
            lines.append("There are more files than are listed here.")
        lines.append("</skill_resources>")
    return "\n".join([*lines, "</skill_content>"])


def render_chunks(chunks: Sequence[tuple[str, str]]) -> str:
    """Render what a body leaves out until it is asked for.

    Args:
        chunks: Id and description of each chunk of the body.

    Returns:
        A line for each below a head; empty where there is none.
    """
    lines = [f"- {one_line(name)}: {one_line(about)}" for name, about in chunks]
    head = ["Chunks of the body, loaded by their ids:"] if lines else []
    return _without_tags("\n".join([*head, *lines]))


def render_docs(name: str, docs: Sequence[tuple[str, str]]) -> str:
    """Render documents of a skill, one block after the other.

    Args:
        name: The skill's name.
        docs: Path and content of each document.

    Returns:
        A ``skill_document`` block for each; empty where there is none.
    """
    skill = html.escape(_name(name))
    return "\n".join(
        f'<skill_document skill="{skill}" path="{html.escape(_path(path))}">\n'
        f"{_text(content)}\n</skill_document>"
        for path, content in docs
    )


def render_loaded(entries: Sequence[LoadedPrompt]) -> str:
    r"""Render loaded skills and their documents in the plain form of trpc-agent-go.

    A line of a body or document that begins like one of ours (``[Loaded]``, ``[Doc]`` or ``Docs
    loaded:``, after blanks and in any case) gets a backslash before it: ``\[Doc] a.md``.

    Args:
        entries: The skills, in the order to show them.

    Returns:
        For each the body, a line that names its documents, and the documents.
    """
    return "\n\n".join(_loaded(entry) for entry in entries)


def _loaded(entry: LoadedPrompt) -> str:
    """Render one loaded skill in plain form."""
    docs = [(_without_tags(_path(path)), _unmarked(content)) for path, content in entry.docs]
    paths = ", ".join(path for path, _ in docs) or "none"
    name = _without_tags(_name(entry.name))
    head = f"[Loaded] {name}\n\n{_unmarked(entry.body)}\nDocs loaded: {paths}"
    return "\n\n".join([head, *(f"[Doc] {path}\n\n{content}" for path, content in docs)])


def _xml(skills: Sequence[PromptSkill]) -> str:
    """Render an overview as XML, one tag a line."""
    if not skills:
        return ""
    lines = ["<available_skills>"]
    for skill in skills:
        lines.append("<skill>")
        for tag, value in asdict(skill).items():
            if value or tag != "location":
                lines += [f"<{tag}>", html.escape(value), f"</{tag}>"]
        lines.append("</skill>")
    return "\n".join([*lines, "</available_skills>"])


def _markdown(skills: Sequence[PromptSkill]) -> str:
    """Render an overview as a Markdown list; a location is the second line of its item."""
    lines = []
    for skill in skills:
        description = _as_markdown(one_line(skill.description))
        lines.append(f"- **{_as_markdown(skill.name)}**: {description}")
        if skill.location:
            lines.append(f"  location: {_as_markdown(skill.location)}")
    return "\n".join(lines)


def _json(skills: Sequence[PromptSkill]) -> str:
    """Render an overview as a JSON list on one line, without a character that opens a tag."""
    records = [asdict(skill) for skill in skills]
    return json.dumps(records, ensure_ascii=False).replace("<", "\\u003c")


_OVERVIEWS: dict[str, Callable[[Sequence[PromptSkill]], str]] = {
    "xml": _xml,
    "markdown": _markdown,
    "json": _json,
}


def _safe(skill: PromptSkill) -> PromptSkill:
    """Return a skill of bounded length that hides nothing; its description keeps its lines."""
    description = shorten(visible(skill.description), MAX_DESCRIPTION_CHARS)
    return PromptSkill(_name(skill.name), description, _path(skill.location))


def _name(name: str) -> str:
    """Return a name on one line."""
    return one_line(name, MAX_NAME_CHARS)


def _path(path: str) -> str:
    """Return a path on one line; its blanks stay as they are, since it is to be opened."""
    return shorten(visible(path).replace("\n", " "), MAX_PATH_CHARS)


def _text(markdown: str) -> str:
    """Return a body or document with its lines, in which tags of ours are text."""
    return _without_tags(visible(markdown)).strip("\n")


def _unmarked(markdown: str) -> str:
    """Return a body or document without tags or marked lines of ours."""
    return _MARK.sub(r"\1\\", _text(markdown))


def _without_tags(text: str) -> str:
    """Return a text in which tags of ours are text."""
    return _TAG.sub("&lt;", text)


def _as_markdown(line: str) -> str:
    """Return a line as Markdown that shows it and does nothing else."""
    plain = _ENTITY.sub("&amp;", line).replace("<", "&lt;")
    return _MARKUP.sub(r"\\\g<0>", plain)
