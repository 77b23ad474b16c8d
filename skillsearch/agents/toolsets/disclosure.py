"""What the system message of a workspace shows: which skills there are, and what is loaded of them.

Everything is read from disk when it is asked for, and bounded. What cannot be shown is told of in
its place, on one line in brackets.
"""

from __future__ import annotations

from collections.abc import Sequence

from skillsearch.agents.prompt import LoadedPrompt, PromptSkill, render_available
from skillsearch.agents.session.types import LoadedEntry
from skillsearch.agents.tools.failures import failure_of
from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.errors import SkillError, SkillNotFoundError
from skillsearch.index.documents import Document
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.text.safe_text import one_line
from skillsearch.types import Hit

MAX_NAMED = 256
"""Skills whose names all stand in the definitions of the tools, as in trpc-agent-go."""
MAX_NAMED_CHARS = 16_384
"""As many names of the specification's longest, 64 characters."""
DESCRIBED = 100
FOUND = 5
MAX_DOC_BYTES = 1 << 18
MAX_DOCS_BYTES = 1 << 20
"""Of all documents of one skill together, with their paths."""

_NONE_FITS = "Available skills: none seems to fit this request."
_BY_NAME = "skill_load takes any other by its name"
_BY_SEARCH = "find the others with search_skills"


def all_names(library: SkillLibrary) -> tuple[str, ...] | None:
    """Return what the listed skills are loaded by; None where they are too many to name."""
    listed = library.list()
    if len(listed) > MAX_NAMED:
        return None
    shown = (library.handle(document) for document in listed)
    names = tuple(dict.fromkeys(shown))
    return names if sum(map(len, names)) <= MAX_NAMED_CHARS else None


def describe_skills(
    library: SkillLibrary, query: str | None = None, most: int | None = None
) -> str:
    """Render names and descriptions of the skills that an agent may load.

    Args:
        library: The skills.
        query: A request: those that fit it are described, best first. Only its beginning counts
            where it is too long to search; a blank one is none.
        most: How many to describe at most; by default `DESCRIBED`, with a request `FOUND`.

    Returns:
        The overview, in which a line says what is left out; empty where there is no skill.

    Raises:
        SkillSearchError: When there is a request and the skills cannot be searched.
    """
    listed = library.list()
    if not listed:
        return ""
    names = all_names(library)
    request = (query or "").strip()[:MAX_QUERY_CHARS]
    if names is not None and not request:
        return render_available(_skills(library, listed), most or DESCRIBED)
    shown: Sequence[Document | Hit] = listed[: most or DESCRIBED]
    if request:
        shown = library.search(request, most or FOUND)
    text = render_available(_skills(library, shown)) or _NONE_FITS
    if len(shown) == len(listed):
        return text
    others = _BY_SEARCH if names is None else _BY_NAME
    return f"{text}\n(showing {len(shown):,} of {len(listed):,} skills; {others})"


def doc_paths(library: SkillLibrary, name: str) -> dict[str, str]:
    """Return the documents of a skill, by path.

    Args:
        library: Where the skill is found.
        name: The skill, as in `SkillLibrary.find`.

    Returns:
        For each path as a model is shown it, on one safe line, the path as the library reads it.

    Raises:
        SkillError: When there is no such skill, or its folder cannot be read.
    """
    return {one_line(path): path for path in library.doc_files(name)}


def read_loaded(library: SkillLibrary, entry: LoadedEntry) -> LoadedPrompt:
    """Read the body and the selected documents of a loaded skill.

    Args:
        library: Where the skill is found.
        entry: What a session has loaded of it.

    Returns:
        What there is to show, each document of at most `MAX_DOC_BYTES`, all of at most
        `MAX_DOCS_BYTES`. Selected documents that do not exist are left out.

    Raises:
        SkillNotFoundError: When the library no longer has the skill.
    """
    try:
        body = library.get(entry.name).body
        there = doc_paths(library, entry.name)
    except SkillNotFoundError:
        raise
    except SkillError as exc:
        return LoadedPrompt(entry.name, _not_shown(exc))
    shown = list(there) if entry.include_all_docs else [doc for doc in entry.docs if doc in there]
    docs = []
    room = MAX_DOCS_BYTES
    for number, path in enumerate(shown):
        room -= len(path)
        if room < 1:
            note = f"[not shown: no room for this and {len(shown) - number - 1:,} more]"
            docs.append((path, note))
            break
        content, used = _content(library, entry.name, there[path], min(room, MAX_DOC_BYTES))
        room -= used
        docs.append((path, content))
    return LoadedPrompt(entry.name, body, docs)


def _content(library: SkillLibrary, name: str, path: str, limit: int) -> tuple[str, int]:
    """Return a document, or its beginning, and how much room that took.

    What is no text takes room too: it had to be read to find out.
    """
    try:
        page = library.read(name, path, limit=limit)
    except SkillError as exc:
        note = _not_shown(exc)
        return note, len(note)
    used = min(page.size, limit)
    if page.encoding == "base64":
        return f"[not shown: {page.size:,} bytes that are no UTF-8 text]", used
    if page.next_offset is None:
        return page.content, used
    cut = f"[truncated: only the first {page.next_offset:,} of {page.size:,} bytes]"
    return f"{page.content}\n{cut}", used


def _not_shown(error: SkillError) -> str:
    """Return what stands in the place of a text, without where on the host something lies."""
    return f"[not shown: {failure_of(error)['error']['message']}]"


def _skills(library: SkillLibrary, found: Sequence[Document | Hit]) -> list[PromptSkill]:
    """Return skills as the overview shows them: each by what it is loaded by."""
    return [PromptSkill(library.handle(skill), skill.description) for skill in found]
