"""Every error that skillsearch raises for the world's faults.

SkillSearchError
├─ SkillError                  something about one skill
│   ├─ ParseError              its SKILL.md cannot be read as a skill
│   ├─ SkillNotFoundError      no skill has that name; carries the nearest names
│   ├─ AmbiguousNameError      several skills have that name; carries their qualified names
│   └─ UnsafePathError         a requested path leaves the skill folder, or is no plain file
├─ RootError                   a root cannot be indexed
├─ IndexNotFoundError          the index folder holds no usable index
├─ StorageError                the index folder cannot be read or written
├─ LockTimeoutError            another process is writing the index
├─ CacheError                  a damaged or foreign part; internal, answered by a rebuild
├─ EmbedderError               an embedder cannot be loaded or gave unusable vectors
├─ ConfigError                 a setting has a value that cannot be used
├─ QueryError                  a query, n or threshold that cannot be searched
├─ EvaluationError             a collection, a run or a system that cannot be measured
└─ MissingDependencyError      an optional library is not installed; says which extra brings it

A caller's wrong argument type stays ``TypeError`` or ``ValueError``.
"""

from __future__ import annotations


class SkillSearchError(Exception):
    """The root of all errors that skillsearch raises on purpose."""


class SkillError(SkillSearchError):
    """Something is wrong with one skill."""


class ParseError(SkillError):
    """A SKILL.md cannot be read as a skill.

    Attributes:
        code: Kebab-case word for the kind of problem, as in `Diagnostic.code`.
        line: Line in the file, counted from 1, where one is known.
    """

    def __init__(self, message: str, *, code: str, line: int | None = None) -> None:
        """Say what is wrong, and where."""
        super().__init__(message)
        self.code = code
        self.line = line


class SkillNotFoundError(SkillError, LookupError):
    """No indexed skill has the requested name.

    Attributes:
        name: The name that was asked for.
        nearest: Up to five names that look like it, nearest first.
    """

    def __init__(self, name: str, nearest: tuple[str, ...] = ()) -> None:
        """Name what was asked for and what looks like it."""
        hint = f" Did you mean: {', '.join(nearest)}?" if nearest else ""
        super().__init__(f"No skill is named {name!r}.{hint}")
        self.name = name
        self.nearest = nearest


class AmbiguousNameError(SkillError, LookupError):
    """Several indexed skills share the requested name.

    Attributes:
        name: The name that was asked for.
        candidates: A qualified name for each of the skills.
    """

    def __init__(self, name: str, candidates: tuple[str, ...]) -> None:
        """Name what was asked for and what it may mean."""
        super().__init__(
            f"{len(candidates)} skills are named {name!r}; ask for one of: {', '.join(candidates)}"
        )
        self.name = name
        self.candidates = candidates


class UnsafePathError(SkillError):
    """A requested path leaves the skill folder, or names something that is no plain file."""


class RootError(SkillSearchError):
    """A root is missing, no folder, or unreadable."""


class IndexNotFoundError(SkillSearchError):
    """The index folder holds no usable index."""


class StorageError(SkillSearchError):
    """The index folder cannot be read or written."""


class LockTimeoutError(StorageError):
    """Another process kept the index locked for longer than we wait."""


class CacheError(SkillSearchError):
    """A part of a saved index is damaged, missing or of another version."""


class EmbedderError(SkillSearchError):
    """An embedder cannot be loaded, or gave vectors that cannot be used."""


class ConfigError(SkillSearchError):
    """A setting has a value that cannot be used."""


class QueryError(SkillSearchError, ValueError):
    """A query, a number of hits or a threshold that cannot be searched."""


class EvaluationError(SkillSearchError):
    """A collection, a run or the description of a system that cannot be measured."""


class MissingDependencyError(SkillSearchError, ImportError):
    """An optional library is not installed.

    Attributes:
        module: The module that could not be imported.
        extra: The extra of skillsearch that brings it.
    """

    def __init__(self, module: str, extra: str, purpose: str) -> None:
        """Say what needs which module, and how to install it."""
        super().__init__(f"{purpose} needs {module}: pip install 'skillsearch[{extra}]'")
        self.module = module
        self.extra = extra
