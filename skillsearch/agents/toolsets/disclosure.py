"""What a workspace's system message shows: which skills there are, and what is loaded of them.

All is bounded. If something cannot be shown, a line in brackets says so in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from skillsearch.agents.prompt import LoadedPrompt, PromptSkill, render_available
from skillsearch.agents.session_state import LoadedEntry
from skillsearch.agents.tools.failures import message_of
from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.errors import SkillError, SkillNotFoundError
from skillsearch.index.documents import Document
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.text.safe_text import one_line
from skillsearch.types import Hit

MAX_NAMED = 256
"""Up to this many, the definitions of the tools name all skills, as in trpc-agent-go."""
MAX_NAMED_CHARS = 16_384
"""As many of the longest names that the specification allows, 64 characters."""
DESCRIBED = 100
FOUND = 5
MAX_DOC_BYTES = 1 << 18
MAX_DOCS_BYTES = 1 << 20
"""For all documents of one skill together, with their paths."""

_NONE_FITS = "Available skills: none seems to fit this request."
_BY_NAME = "skill_load takes any other by its name"
_BY_SEARCH = "find the others with search_skills"


def all_names(library: SkillLibrary, *, max_chars: int = MAX_NAMED_CHARS) -> tuple[str, ...] | None:
    """Return the names that skills are loaded by; None if they are too many or too long."""
    listed = library.list()
    if len(listed) > MAX_NAMED:
        return None
    names = tuple(dict.fromkeys(library.handle(document) for document in listed))
    return names if sum(map(len, names)) <= max_chars else None


def describe_skills(
    library: SkillLibrary, query: str | None = None, most: int | None = None
) -> str:
    """Render names and descriptions of the skills that an agent may load, with what is left out.

    Given a request, the best skills for it are described, by default `FOUND`, else the first, by
    default `DESCRIBED`. `SkillSearchError` if the skills cannot be searched.
    """
    listed = library.list()
    if not listed:
        return ""
    names = all_names(library)
    request = (query or "").strip()[:MAX_QUERY_CHARS]
    is_complete = names is not None and not request
    shown: Sequence[Document | Hit] = listed if is_complete else listed[: most or DESCRIBED]
    if request:
        shown = library.search(request, most or FOUND)
    skills = [PromptSkill(library.handle(skill), skill.description) for skill in shown]
    if is_complete:
        return render_available(skills, most or DESCRIBED)
    text = render_available(skills) or _NONE_FITS
    if len(shown) == len(listed):
        return text
    others = _BY_SEARCH if names is None else _BY_NAME
    return f"{text}\n(showing {len(shown):,} of {len(listed):,} skills; {others})"


def doc_paths(library: SkillLibrary, name: str) -> dict[str, str]:
    """Return the documents of a skill: for each path as a model sees it, the path to read."""
    return {one_line(path): path for path in library.doc_files(name)}


def read_loaded(
    library: SkillLibrary, entry: LoadedEntry, *, room: int = MAX_DOCS_BYTES
) -> LoadedPrompt:
    """Read the body and the selected documents of a loaded skill that still exist.

    Each document has at most `MAX_DOC_BYTES`, all of them `room`. `SkillNotFoundError` if the
    library no longer has the skill.
    """
    try:
        body = library.get(entry.name).body
        there = doc_paths(library, entry.name)
    except SkillNotFoundError:
        raise
    except SkillError as exc:
        return LoadedPrompt(entry.name, f"[not shown: {message_of(exc)}]")
    shown = list(there) if entry.include_all_docs else [doc for doc in entry.docs if doc in there]
    docs = []
    for number, path in enumerate(shown):
        room -= len(path)
        if room < 1:
            left = len(shown) - number - 1
            docs.append((path, f"[not shown: no room for this and {left:,} more]"))
            break
        content, used = _content(library, entry.name, there[path], min(room, MAX_DOC_BYTES))
        room -= used
        docs.append((path, content))
    return LoadedPrompt(entry.name, body, docs)


def _content(library: SkillLibrary, name: str, path: str, limit: int) -> tuple[str, int]:
    """Return a document or its beginning, and the room it takes, which even binary data does."""
    try:
        page = library.read(name, path, limit=limit)
    except SkillError as exc:
        note = f"[not shown: {message_of(exc)}]"
        return note, len(note)
    content = page.content
    if page.encoding == "base64":
        content = f"[not shown: {page.size:,} bytes that are not UTF-8 text]"
    elif page.next_offset is not None:
        content += f"\n[truncated: only the first {page.next_offset:,} of {page.size:,} bytes]"
    return content, min(page.size, limit)
