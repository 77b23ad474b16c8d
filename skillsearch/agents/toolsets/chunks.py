"""Skills whose chunks an agent loads one by one, through the tool ``load_skill_chunk``."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from pydantic import Field

from skillsearch.agents.session import SkillSession
from skillsearch.agents.session_state import scope
from skillsearch.agents.tools.failures import DiagnosticLog
from skillsearch.agents.tools.tool import Tool, ToolArguments, Toolset
from skillsearch.errors import ChunkNotFoundError, ParseError, SkillNotFoundError
from skillsearch.index.documents import Document
from skillsearch.index.names import read_skill
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.skills.chunks import Chunk, parse_chunks
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types import Diagnostic, JsonValue, Languages, SearchResult, SkillMetadata

__all__ = ["LoadSkillChunkTool", "Skill", "SkillChunk", "SkillManager", "SkillMetadata"]

SkillChunk: TypeAlias = Chunk

_LIST_HEAD = "[Available Chunks]"
_OUR_LINE = re.compile(
    rf"^([^\S\n]*+)(?=(?P<list>{re.escape(_LIST_HEAD)}(?![(\[:]))|##(?!#)(?P<title>[^\n]*+))",
    re.IGNORECASE | re.MULTILINE,
)
"""The start of a line that `render_skills` might write; a Markdown link is not one."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as it was last read: its body without chunks, and the chunks by id, in order."""

    metadata: SkillMetadata
    core_content: str
    chunks: Mapping[str, SkillChunk]
    active_chunks: frozenset[str] = frozenset()

    @property
    def available_chunks(self) -> tuple[SkillChunk, ...]:
        """The chunks that were not handed out yet."""
        return tuple(c for c in self.chunks.values() if c.id not in self.active_chunks)


class SkillManager:
    """Skills in a system prompt, without their chunks until an agent asks for them.

    Every method looks at the disk as it is then. A chunk counts as handed out until it is
    deactivated, it changes on disk, or the session forgets it. A manager belongs to one agent and
    one thread.
    """

    def __init__(
        self,
        *,
        variables: MutableMapping[str, str] | None = None,
        variable: str = "skill_docs",
        session: SkillSession | None = None,
        library: SkillLibrary | None = None,
        index_dir: str | Path | None = None,
        model: str = "onnx",
        languages: Languages = "auto",
    ) -> None:
        """Create a manager, without skills if no library is given.

        Every call updates `variable`, the prompt of the skills, among the variables of the host's
        prompt template. By default a new session, which never ends, keeps the active chunks. The
        other arguments are those of `SkillLibrary.from_roots`.
        """
        self.library = (
            SkillLibrary.from_roots((), index_dir=index_dir, model=model, languages=languages)
            if library is None
            else library
        )
        self.session = SkillSession(lifetime="session") if session is None else session
        self._variables = variables
        self._variable = variable
        self._documents: Sequence[Document] = ()
        self._parsed: dict[tuple[str, str], Skill] = {}
        self._skills: dict[str, Skill] = {}
        self._log = DiagnosticLog(logger, _warning)
        self.get_skills_prompt()

    @property
    def skills(self) -> Mapping[str, Skill]:
        """The skills by the name that the tool takes, in the order of the prompt.

        That is the skill's own name, or its id if several share the name and none takes precedence.
        Skills that ask not to be offered to models are included here, but not in the prompt.
        """
        self._look()
        return self._as_active()

    def load_from_directory(self, dir: str | Path) -> None:
        """Add all skills below a folder.

        Whatever cannot be read is logged and skipped, even a missing folder, which may come later.
        If several skills share a name, the one in the folder that was loaded first is meant.
        """
        self.library.add_root(dir)
        self.get_skills_prompt()

    def register_skill(self, content: str) -> Skill:
        """Add a skill, given its whole SKILL.md, or replace the one of that name.

        All chunks of a replaced skill are available again. `ParseError` if it is not a skill.
        """
        name = self.library.handle(self.library.register(content))
        if name in self._skills:
            self.session.deactivate_chunks(name)
        self.get_skills_prompt()
        return self.skills[name]

    def get_skills_prompt(self) -> str:
        """Return the part of a system prompt that describes the skills, see `render_skills`.

        It also goes into the variables of the host.
        """
        self._look()
        return self._publish()

    def update_variables(self, variables: MutableMapping[str, str] | None = None) -> dict[str, str]:
        """Put the prompt into the variables of a host, and return the variable with it.

        If given, `variables` replace the previous ones and are kept up to date from now on.
        """
        if variables is not None:
            self._variables = variables
        return {self._variable: self.get_skills_prompt()}

    def activate_chunk(self, skill_name: str, chunk_id: str) -> str:
        """Hand out a chunk, as it is on disk now, which leaves the prompt's list.

        Repeating that has no further effect. The skill is named in any case, as in
        `SkillLibrary.find`, whose errors this raises; or `ChunkNotFoundError`.
        """
        name, chunk = self._find(skill_name, chunk_id)
        self.session.activate_chunk(name, chunk.id)
        self._publish()
        return visible(chunk.content)

    def deactivate_chunk(self, skill_name: str, chunk_id: str) -> None:
        """Make a chunk available again; raises as `activate_chunk` does."""
        name, chunk = self._find(skill_name, chunk_id)
        self.session.deactivate_chunks(name, [chunk.id])
        self._publish()

    def reset(self) -> None:
        """Make all chunks available again, as at the end of a task."""
        for name in {record.name for record in scope(self.session.state, self.session.agent)}:
            self.session.deactivate_chunks(name)
        self.get_skills_prompt()

    def search(self, query: str, n: int = 5) -> SearchResult:
        """Find the skills that fit a request, best first, each with its best chunk if there is one.

        `QueryError` if an argument cannot be used.
        """
        self._look()
        return self.library.search(query, n)

    def _find(self, skill_name: str, chunk_id: str) -> tuple[str, SkillChunk]:
        """Return the name of a skill in the prompt, and a chunk of it."""
        self._look()
        name = skill_name
        if name not in self._skills:
            document = self.library.find(skill_name)
            name = self.library.handle(document)
            if name not in self._skills:  # another of that name takes precedence
                raise SkillNotFoundError(skill_name, (document.name,))
        chunks = self._skills[name].chunks
        if chunk_id not in chunks:
            raise ChunkNotFoundError(name, chunk_id, tuple(chunks))
        return name, chunks[chunk_id]

    def _look(self) -> None:
        """Bring the skills up to date with the disk; if nothing changed, no file is opened."""
        self.library.refresh()
        self._log.update(self.library.diagnostics)
        documents = self.library.list(include_hidden=True)
        if documents is self._documents:
            return
        before, parsed = self._skills, self._parsed
        self._documents, self._skills, self._parsed = documents, {}, {}
        for document in documents:
            key = (document.doc_id, document.content_hash)
            try:
                skill = parsed.get(key) or _read(document)
            except ParseError as error:  # it was readable a moment ago
                logger.warning("%s", one_line(f"{document.path}: {error}"))
            else:
                self._parsed[key] = self._skills[self.library.handle(document)] = skill
        self._forget_changed(before)

    def _forget_changed(self, before: Mapping[str, Skill]) -> None:
        """Make chunks available again if their text is no longer the one that was handed out."""
        for name, skill in before.items():
            now = self._skills.get(name)
            chunks = now.chunks if now else {}
            gone = [each for each, chunk in skill.chunks.items() if chunks.get(each) != chunk]
            self.session.deactivate_chunks(name, gone)

    def _as_active(self) -> dict[str, Skill]:
        """Return the skills with the chunks that the session has active."""
        skills = {}
        for name, skill in self._skills.items():
            active = frozenset(self.session.active_chunks(name)).intersection(skill.chunks)
            skills[name] = replace(skill, active_chunks=active) if active else skill
        return skills

    def _publish(self) -> str:
        """Render the prompt, and put it into the variables of the host."""
        prompt = render_skills(self._as_active())
        if self._variables is not None:
            self._variables[self._variable] = prompt
        return prompt


class LoadSkillChunkArgs(ToolArguments):
    """Arguments of ``load_skill_chunk``."""

    skill_name: str = Field(description="The skill, as its heading names it.")
    chunk_id: str = Field(description="What stands before the colon under [Available Chunks].")


class LoadSkillChunkTool:
    """The tool by which an agent loads a chunk; its result goes into the agent's history."""

    name = "load_skill_chunk"
    description = (
        "Load a chunk of a skill: one of those listed under [Available Chunks], when the task "
        "needs what its description promises. It is listed no longer then; load it again only if "
        "its text has left the conversation."
    )

    def __init__(self, manager: SkillManager) -> None:
        """Take the manager whose chunks it loads."""
        self._manager = manager

    def execute(self, args: LoadSkillChunkArgs | Mapping[str, JsonValue]) -> str:
        """Return the content of a chunk, given ``skill_name`` and ``chunk_id``.

        `SkillError` if there is no such skill or chunk; `ValueError` for any other arguments.
        """
        checked = LoadSkillChunkArgs.model_validate(args)
        return self._manager.activate_chunk(checked.skill_name, checked.chunk_id)

    def toolset(self) -> Toolset:
        """Return the same for a host: its calls never raise."""
        return Toolset([Tool(self.name, self.description, LoadSkillChunkArgs, self.execute)])


def render_skills(skills: Mapping[str, Skill]) -> str:
    r"""Render the skills that may be offered to models, keyed by names on one line.

    Each has a heading, its core, and a list of the chunks that are not active, with a blank line
    between skills. Hidden characters in a core are left out, and a line that would pass for the
    head of a list of chunks, or for the heading of another of these skills, gets a backslash:
    ``\## other-skill``. All other headings stay, so a core can still invent a skill.
    """
    titles = frozenset(map(_folded, skills))
    return "\n\n".join(
        _section(name, skill, titles) for name, skill in skills.items() if not skill.metadata.hidden
    )


def _section(name: str, skill: Skill, titles: frozenset[str]) -> str:
    """Render a skill among others of these titles."""
    own = _folded(name)

    def mark(line: re.Match[str]) -> str:
        title = _folded(line["title"] or "")
        is_ours = line["list"] or (title in titles and title != own)
        return f"{line[1]}\\" if is_ours else line[1]

    core = _OUR_LINE.sub(mark, visible(skill.core_content)).strip("\n")
    lines = [f"## {name}", core] if core else [f"## {name}"]
    if available := skill.available_chunks:
        lines.append(_LIST_HEAD)
        lines += [f"- {': '.join(filter(None, (c.id, c.description)))}" for c in available]
    return "\n".join(lines)


def _folded(title: str) -> str:
    """Return the words of a heading, without case and emphasis."""
    return one_line(title).strip("#*_`~ ").casefold()


def _read(document: Document) -> Skill:
    """Read a skill and separate its core from its chunks."""
    skill = read_skill(document)
    body = parse_chunks(skill.body)
    chunks = MappingProxyType({chunk.id: chunk for chunk in body.chunks})
    return Skill(skill.metadata, body.core, chunks)


def _warning(found: Diagnostic) -> str | None:
    """Return what to log of a diagnostic: errors, and warnings about roots and chunks."""
    is_ours = found.code.startswith(("root-", "chunk-")) and found.severity == "warning"
    if not is_ours and found.severity != "error":
        return None
    line = f" line {found.line}:" if found.line else ""
    return f"{found.path}:{line} {found.message}"
