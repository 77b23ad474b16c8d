"""Skills whose chunks an agent loads one by one, and the prompt that says which are left."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path

from skillsearch.agents.session.records import scope
from skillsearch.agents.session.skill_session import SkillSession
from skillsearch.agents.toolsets.chunked_skill import Skill, SkillChunk, render_skills, take_apart
from skillsearch.errors import ChunkNotFoundError, ParseError, SkillNotFoundError
from skillsearch.index.documents import Document
from skillsearch.index.names import read_skill
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types import Diagnostic, Languages, SearchResult, SkillMetadata

__all__ = ["Skill", "SkillChunk", "SkillManager", "SkillMetadata"]

logger = logging.getLogger(__name__)


class SkillManager:
    """Skills in a system prompt, their chunks left out until they are asked for.

    Every method looks at the disk as it is at that moment. A chunk counts as handed out until it
    is deactivated, it changes on the disk, or the session forgets it. One manager belongs to one
    agent and one thread.

    Attributes:
        library: The skills.
        session: Which chunks are active.
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
        """Make a manager, without skills where no library is given.

        Args:
            variables: Variables of the host's prompt template, kept up to date with every call.
            variable: Which of them holds the prompt of the skills.
            session: Keeps the active chunks; by default one of its own, which never ends.
            library: Skills that are there already.
            index_dir: Folder of the index that searches use where no library is given; by default
                in the user's cache.
            model: What to load the embedder by, likewise.
            languages: Which languages to index for, likewise.
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
        self._diagnostics: tuple[Diagnostic, ...] = ()
        self.get_skills_prompt()

    @property
    def skills(self) -> Mapping[str, Skill]:
        """The skills by the name that the tool takes, in the order of the prompt.

        That is the skill's own name, or its id where several share that and nothing says which is
        meant. Skills that ask not to be offered to models are here, but not in the prompt.
        """
        self._look()
        return self._as_active()

    def load_from_directory(self, dir: str | Path) -> None:
        """Add all skills below a folder.

        What cannot be read is logged and skipped; so is a folder that is missing, which may come
        later. Of several skills with one name, that of the folder that was loaded first is meant.

        Args:
            dir: The folder.
        """
        self.library.add_root(dir)
        self.get_skills_prompt()

    def register_skill(self, content: str) -> Skill:
        """Add a skill, or replace the one of that name, whose chunks are all available again.

        Args:
            content: A whole SKILL.md.

        Returns:
            The skill.

        Raises:
            ParseError: When it is none.
        """
        name = self._name_of(self.library.register(content))
        if name in self._skills:
            self.session.deactivate_chunks(name)
        self.get_skills_prompt()
        return self.skills[name]

    def get_skills_prompt(self) -> str:
        """Return the part of a system prompt that describes the skills.

        It goes into the variables of the host as well. See `render_skills`.

        Returns:
            For each skill by name its heading, its core and the chunks that are available, with a
            blank line between skills; empty where there is no skill.
        """
        self._look()
        return self._publish()

    def update_variables(self, variables: MutableMapping[str, str] | None = None) -> dict[str, str]:
        """Put the prompt into the variables of a host.

        Args:
            variables: The variables, which are kept up to date from now on in the place of those
                before; None for those before.

        Returns:
            The variable and the prompt.
        """
        if variables is not None:
            self._variables = variables
        return {self._variable: self.get_skills_prompt()}

    def activate_chunk(self, skill_name: str, chunk_id: str) -> str:
        """Hand out a chunk, which leaves the prompt's list; a second time it is the same.

        Args:
            skill_name: Name of the skill, in any case.
            chunk_id: Id of the chunk, as the prompt has it.

        Returns:
            Its content as it is on disk now, without hidden characters.

        Raises:
            SkillNotFoundError: When there is no such skill; names those that come near.
            AmbiguousNameError: When several have that name; names their ids.
            ChunkNotFoundError: When the skill has no such chunk; names those it has.
        """
        name, chunk = self._find(skill_name, chunk_id)
        self.session.activate_chunk(name, chunk.id)
        self._publish()
        return visible(chunk.content)

    def deactivate_chunk(self, skill_name: str, chunk_id: str) -> None:
        """List a chunk as available again; without effect where it is.

        Args:
            skill_name: Name of the skill, in any case.
            chunk_id: Id of the chunk.

        Raises:
            SkillError: As of `activate_chunk`.
        """
        name, chunk = self._find(skill_name, chunk_id)
        self.session.deactivate_chunks(name, [chunk.id])
        self._publish()

    def reset(self) -> None:
        """List all chunks as available again, as at the end of a task."""
        for name in {record.name for record in scope(self.session.state, self.session.agent)}:
            self.session.deactivate_chunks(name)
        self.get_skills_prompt()

    def search(self, query: str, n: int = 5) -> SearchResult:
        """Find the skills that fit a request.

        Args:
            query: What is to be done, in words.
            n: How many skills at most.

        Returns:
            The hits, best first; each names the chunk that fits best, where one does.

        Raises:
            QueryError: When the query is empty or too long, or n cannot be used.
        """
        self._look()
        return self.library.search(query, n)

    def _find(self, skill_name: str, chunk_id: str) -> tuple[str, SkillChunk]:
        """Return the name of a skill in the prompt, and a chunk of it."""
        self._look()
        name = skill_name
        if name not in self._skills:
            document = self.library.find(skill_name)
            name = self._name_of(document)
            if name not in self._skills:  # another of that name comes before it
                raise SkillNotFoundError(skill_name, (document.name,))
        chunks = self._skills[name].chunks
        if chunk_id not in chunks:
            raise ChunkNotFoundError(name, chunk_id, tuple(chunks))
        return name, chunks[chunk_id]

    def _name_of(self, document: Document) -> str:
        """Return the name that the prompt has for a skill."""
        return self.library.handle(document)

    def _look(self) -> None:
        """Bring the skills up to date with the disk; with nothing changed, no file is opened."""
        self.library.refresh()
        self._log()
        documents = self.library.list(include_hidden=True)
        if documents is self._documents:
            return
        before, parsed = self._skills, self._parsed
        self._documents, self._skills, self._parsed = documents, {}, {}
        for document in documents:
            key = (document.doc_id, document.content_hash)
            try:
                skill = parsed.get(key) or take_apart(read_skill(document))
            except ParseError as error:  # it was readable a moment ago
                logger.warning("%s", one_line(f"{document.path}: {error}"))
            else:
                self._parsed[key] = self._skills[self._name_of(document)] = skill
        self._forget_changed(before)

    def _forget_changed(self, before: Mapping[str, Skill]) -> None:
        """Make chunks available again whose text is no longer the one that was handed out."""
        for name, skill in before.items():
            now = self._skills.get(name)
            chunks = now.chunks if now else {}
            gone = [each for each, chunk in skill.chunks.items() if chunks.get(each) != chunk]
            self.session.deactivate_chunks(name, gone)

    def _log(self) -> None:
        """Log what is new of what cannot be read or is wrong with chunks."""
        before, self._diagnostics = self._diagnostics, self.library.diagnostics
        if self._diagnostics is before:
            return
        known = frozenset(before)
        for found in self._diagnostics:
            is_ours = found.code.startswith(("root-", "chunk-")) and found.severity == "warning"
            if found not in known and (is_ours or found.severity == "error"):
                line = f" line {found.line}:" if found.line else ""
                logger.warning("%s", one_line(f"{found.path}:{line} {found.message}"))

    def _as_active(self) -> dict[str, Skill]:
        """Return the skills with those chunks active that the session says are."""
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
