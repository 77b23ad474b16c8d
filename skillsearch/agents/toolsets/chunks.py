"""Skills whose chunks an agent loads one by one, through the tool ``load_skill_chunk``."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias, Unpack

from pydantic import Field

from skillsearch.agents.bounds import MAX_PROMPT_CHARS, first, page
from skillsearch.agents.catalog import SkillCatalog
from skillsearch.agents.failures import problem_in
from skillsearch.agents.session import SkillSession
from skillsearch.agents.tool import Offset, Tool, ToolArguments, Toolset, description_of
from skillsearch.errors import ChunkNotFoundError, ParseError, SkillNotFoundError
from skillsearch.index.documents.document import Document
from skillsearch.index.documents.names import skill_of
from skillsearch.library.skill_library import LibraryConfig, SkillLibrary
from skillsearch.skills.chunks import Chunk, parse_chunks
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types.answers import SearchResult
from skillsearch.types.json_values import Json, text_of, texts_of
from skillsearch.types.skills import Diagnostic, SkillMetadata

__all__ = ["LoadSkillChunkTool", "Skill", "SkillChunk", "SkillManager", "SkillMetadata"]

SkillChunk: TypeAlias = Chunk

_LIST_HEAD = "[Available Chunks]"
_CORE_IS_CUT = "load_skill_chunk has what stands in chunks"
_CHOOSE = "load_skill_chunk takes their names, and the host can offer fewer"
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
    deactivated, it changes on disk, or the session forgets it. Not thread-safe.
    """

    def __init__(
        self,
        *,
        variables: MutableMapping[str, str] | None = None,
        variable: str = "skill_docs",
        session: SkillSession | None = None,
        library: SkillLibrary | None = None,
        **options: Unpack[LibraryConfig],
    ) -> None:
        """Create a manager, without skills if no library is given.

        Every call updates `variable`, the prompt of the skills, among the variables of the host's
        prompt template. By default a session that never ends keeps the active chunks.
        """
        self.library = SkillLibrary.from_roots((), **options) if library is None else library
        self.session = SkillSession(lifetime="session") if session is None else session
        self._variables = variables
        self._variable = variable
        self._documents: Sequence[Document] = ()
        self._parsed: dict[tuple[str, str], Skill] = {}
        self._skills: dict[str, Skill] = {}
        self._catalog = SkillCatalog(self.library, describe=_warning, logger=logger)
        self.get_skills_prompt()

    @property
    def skills(self) -> Mapping[str, Skill]:
        """The skills by the names that the tool takes, hidden ones too, in the prompt's order."""
        self._look()
        return self._as_active()

    def load_from_directory(self, dir: str | Path) -> None:
        """Add all skills below a folder, which may come later; the first folder wins a name."""
        self.library.add_root(dir)
        self.get_skills_prompt()

    def register_skill(self, content: str) -> Skill:
        """Add or replace a skill, given its whole SKILL.md; `ParseError` if it is not one."""
        name = self.library.handle(self.library.register(content))
        if name in self._skills:
            self.session.deactivate_chunks(name)
        self.get_skills_prompt()
        return self.skills[name]

    def get_skills_prompt(self) -> str:
        """Return the text of `render_skills`, and put it into the variables of the host."""
        self._look()
        return self._publish()

    def update_variables(self, variables: MutableMapping[str, str] | None = None) -> dict[str, str]:
        """Put the prompt into the host's variables, if given from now on into these; return it."""
        if variables is not None:
            self._variables = variables
        return {self._variable: self.get_skills_prompt()}

    def activate_chunk(self, skill_name: str, chunk_id: str) -> str:
        """Hand out a chunk, as it is on disk now, which leaves the prompt's list.

        The skill is named as in `SkillLibrary.find`. Raises its errors, or `ChunkNotFoundError`.
        """
        name, chunk = self._find(skill_name, chunk_id)
        self.session.activate_chunk(name, chunk.id)
        self._catalog.note_load(name)
        self._publish()
        return visible(chunk.content)

    def deactivate_chunk(self, skill_name: str, chunk_id: str) -> None:
        """Make a chunk available again; raises as `activate_chunk` does."""
        name, chunk = self._find(skill_name, chunk_id)
        self.session.deactivate_chunks(name, [chunk.id])
        self._publish()

    def reset(self) -> None:
        """Make all chunks available again, as at the end of a task."""
        self.session.reset_chunks()
        self.get_skills_prompt()

    def search(self, query: str, n: int = 5) -> SearchResult:
        """Find the skills that fit a request, best first, each with its best chunk if any."""
        self._look()
        return self._catalog.search(query, n)

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
        """Bring the skills up to date with the disk, and forget chunks whose text has changed."""
        self._catalog.refresh()
        documents = self.library.list(include_hidden=True)
        if documents is self._documents:
            return
        before, parsed = self._skills, self._parsed
        self._documents, self._skills, self._parsed = documents, {}, {}
        for document in documents:
            key = (document.doc_id, document.content_hash)
            try:
                skill = parsed.get(key) or self._read(document)
            except ParseError as error:  # it was readable a moment ago
                logger.warning("%s", one_line(f"{document.path}: {error}"))
            else:
                self._parsed[key] = self._skills[self.library.handle(document)] = skill
        for name, skill in before.items():
            chunks = self._skills[name].chunks if name in self._skills else {}
            gone = [each for each, chunk in skill.chunks.items() if chunks.get(each) != chunk]
            self.session.deactivate_chunks(name, gone)

    def _read(self, document: Document) -> Skill:
        """Read a skill as it is on disk now; `ParseError` if it is none any more.

        A warning comes before its core if nobody vouches for it.
        """
        skill = skill_of(document, self.library.root_paths)
        body = parse_chunks(skill.body)
        chunks = MappingProxyType({chunk.id: chunk for chunk in body.chunks})
        return Skill(skill.metadata, self._catalog.note(document) + body.core, chunks)

    def _as_active(self) -> dict[str, Skill]:
        skills = {}
        for name, skill in self._skills.items():
            active = frozenset(self.session.active_chunks(name)).intersection(skill.chunks)
            skills[name] = replace(skill, active_chunks=active) if active else skill
        return skills

    def _publish(self) -> str:
        prompt = render_skills(self._as_active())
        if self._variables is not None:
            self._variables[self._variable] = prompt
        return prompt


class LoadSkillChunkArgs(ToolArguments):
    """Load a chunk of a skill, one of those listed under [Available Chunks].

    Do so when the task needs what its description promises. It is listed no longer then; load it
    again only if its text has left the conversation.
    """

    skill_name: str = Field(description="Name of the skill, as in its heading.")
    chunk_id: str = Field(description="Id of the chunk: the text before the colon in the list.")
    offset: Offset = 0


class LoadSkillChunkTool:
    """The tool by which an agent loads a chunk; its result goes into the agent's history."""

    name = "load_skill_chunk"
    description = description_of(LoadSkillChunkArgs)

    def __init__(self, manager: SkillManager) -> None:
        self._manager = manager

    def execute(self, args: LoadSkillChunkArgs | Mapping[str, Json]) -> str:
        """Return the content of a chunk, or as text for the model why there is none."""
        arguments = dict(args) if isinstance(args, LoadSkillChunkArgs) else args
        answer = self.toolset().call(self.name, arguments)
        if "error" not in answer:
            return str(answer["result"])
        error = problem_in(answer)
        problems = texts_of(error.get("problems", []))
        return "\n".join([text_of(error["message"]), *problems, text_of(error["next_step"])])

    def toolset(self) -> Toolset:
        """Return the tool for a host: errors have a code and details."""

        def load(args: LoadSkillChunkArgs) -> str:
            return page(self._manager.activate_chunk(args.skill_name, args.chunk_id), args.offset)

        return Toolset([Tool(self.name, self.description, LoadSkillChunkArgs, load)])


def render_skills(skills: Mapping[str, Skill]) -> str:
    r"""Render the skills that may be offered to models, keyed by names on one line.

    A line of a core that would pass for the head of a list of chunks, or for the heading of another
    of these skills, gets a backslash: ``\## other-skill``. All other headings stay, so a core can
    still invent a skill.
    """
    titles = frozenset(map(_folded, skills))
    sections = []
    for name, skill in skills.items():
        if skill.metadata.hidden:
            continue
        mark = partial(_marked, titles, _folded(name))
        core = _OUR_LINE.sub(mark, page(visible(skill.core_content), then=_CORE_IS_CUT)).strip("\n")
        lines = [f"## {name}", core] if core else [f"## {name}"]
        if available := skill.available_chunks:
            lines.append(_LIST_HEAD)
            ids = [f"- {': '.join(filter(None, (c.id, c.description)))}" for c in available]
            ids, left_out = first(ids, "chunk", "they are listed when others are loaded")
            lines += [*ids, *left_out]
        sections.append("\n".join(lines))
    shown, left_out = first(sections, "skill", _CHOOSE, room=MAX_PROMPT_CHARS)
    return "\n\n".join([*shown, *left_out])


def _marked(titles: frozenset[str], own: str, line: re.Match[str]) -> str:
    """Return the start of a line, with a backslash if it would pass for one of ours."""
    title = _folded(line["title"] or "")
    is_ours = line["list"] or (title in titles and title != own)
    return f"{line[1]}\\" if is_ours else line[1]


def _folded(title: str) -> str:
    return one_line(title).strip("#*_`~ ").casefold()


def _warning(new: Diagnostic) -> str | None:
    """Return the log line of a diagnostic, for errors and warnings about roots and chunks."""
    is_ours = new.code.startswith(("root-", "chunk-")) and new.severity == "warning"
    line = f" line {new.line}:" if new.line else ""
    return f"{new.path}:{line} {new.message}" if is_ours or new.severity == "error" else None
