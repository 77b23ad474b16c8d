"""Every error that skillsearch raises for the world's faults.

SkillSearchError
├─ SkillError
│   ├─ ParseError, AmbiguousNameError, VersionConstraintError, ChunkNotFoundError, UnsafePathError
│   └─ SkillNotFoundError: VersionNotFoundError
├─ StorageError: LockTimeoutError, UnreadableError
├─ ConfigError: EnvironmentNotFoundError, EditError
├─ ExecutionError
│   ├─ ExecutorError: IsolationError
│   └─ CommandRefusedError, SkillNotLoadedError, WorkspaceError, ArtifactNotFoundError
├─ QueryError: SelectionError
├─ RootError: UnreachableError
├─ RemoteError: CollectionMissingError
├─ IndexNotFoundError, IndexingError, DaemonError
├─ CacheError: OtherVersionError
├─ EmbedderError: ModelNotFoundError
└─ EvaluationError, TrainingError, MissingDependencyError

A caller's wrong argument stays ``TypeError`` or ``ValueError``. An `UnusableError` becomes one of
the errors above where it is known which file it is about.
"""

from __future__ import annotations

from contextlib import contextmanager

from skillsearch.settings.environ import install_extra
from skillsearch.system_errors import machine_problem, reason_of, remedy

TYPE_CHECKING = False  # `typing` would cost the hook of a host some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import TypeVar

    from skillsearch.types.indexing import IndexProgress
    from skillsearch.types.skills import Severity

    Answer = TypeVar("Answer")
    Explanation = TypeVar("Explanation")

_MOST_NAMED = 10
_MOST_CHARS = 4_000


class SkillSearchError(Exception):
    """The root of all errors that skillsearch raises on purpose.

    The text of a very long one, such as one that shows a wrong value whole, loses its middle: what
    was wrong stands at the begin, and what to do at the end.
    """

    def __str__(self) -> str:
        """Return what was wrong and what to do, in at most some thousand characters."""
        text = super().__str__()
        half = _MOST_CHARS // 2
        return text if len(text) <= _MOST_CHARS else f"{text[:half]} … {text[-half:]}"


class UnusableError(ValueError):
    """A text or file is not what it must be; whoever knows its path says so."""


class SkillError(SkillSearchError):
    """Something is wrong with one skill."""


class ParseError(SkillError):
    """A SKILL.md is not read as a skill; `code`, `line` and `severity` are as in `Diagnostic`."""

    def __init__(
        self, message: str, *, code: str, line: int | None = None, severity: Severity = "error"
    ) -> None:
        super().__init__(message)
        self.code, self.line, self.severity = code, line, severity


class SkillNotFoundError(SkillError, LookupError):
    """No indexed skill has the requested name; `nearest` are up to five similar ones.

    If a skill had the name before, the `reason` says what has become of it.
    """

    def __init__(self, name: str, nearest: tuple[str, ...] = (), reason: str = "") -> None:
        near = f"Did you mean: {', '.join(nearest)}?"
        hint = near if nearest else "List all skills, or search for the task."
        what = f"The skill {name!r} {reason}" if reason else f"No skill is named {name!r}"
        super().__init__(f"{what}. {hint}")
        self.name, self.nearest = name, nearest


class VersionNotFoundError(SkillNotFoundError):
    """Skills have the requested name, but no version that fits; `versions` are those there are."""

    def __init__(self, name: str, versions: tuple[str, ...]) -> None:
        super().__init__(name)
        there_are = ", ".join(version or "one without a version" for version in versions)
        self.args = (
            f"No version fits {name!r}; there are: {there_are}. Ask for one of them, or leave out "
            "what follows the last '@'.",
        )
        self.versions = versions


class AmbiguousNameError(SkillError, LookupError):
    """Several indexed skills share the requested name; `candidates` are their qualified names."""

    def __init__(self, name: str, candidates: tuple[str, ...]) -> None:
        names = ", ".join(candidates[:_MOST_NAMED])
        super().__init__(f"{len(candidates)} skills are named {name!r}; ask for one of: {names}")
        self.name, self.candidates = name, candidates


class VersionConstraintError(SkillError, ValueError):
    """A constraint on versions cannot be parsed."""

    def __init__(self, constraint: str) -> None:
        super().__init__(
            f"The version constraint {constraint[:200]!r} cannot be read; "
            "write it as '>=1.2,<2', '^1.2' or '1.2'."
        )
        self.constraint = constraint


class ChunkNotFoundError(SkillError, LookupError):
    """A skill has no chunk of the requested id; `available` are those it has, in order."""

    def __init__(self, skill: str, chunk_id: str, available: tuple[str, ...]) -> None:
        ids = ", ".join(available[:_MOST_NAMED])
        hint = f"ask for one of: {ids}." if ids else "it has no chunks at all; load its body."
        if len(available) > _MOST_NAMED:
            hint = f"ask for one of its {len(available):,}, such as: {ids}."
        super().__init__(f"The skill {skill!r} has no chunk {chunk_id[:200]!r}; {hint}")
        self.skill, self.chunk_id, self.available = skill, chunk_id, available


class UnsafePathError(SkillError):
    """A requested path leaves the skill folder, or is not a plain file."""


class RootError(SkillSearchError):
    """A root is missing, unreadable, or not a folder."""


class UnreachableError(RootError):
    """A server cannot be reached or is failing; a later attempt may succeed."""


class IndexNotFoundError(SkillSearchError):
    """The index folder holds no usable index."""


class IndexingError(SkillSearchError):
    """The first index of a library is still being built, and not even words can be searched."""

    def __init__(self, progress: IndexProgress) -> None:
        reached = f"{progress.share:.0%} is done" if progress.texts else "they are being read"
        super().__init__(f"The skills are being indexed: {reached}; search again {progress.when}.")
        self.progress = progress


class StorageError(SkillSearchError):
    """The index folder cannot be read or written."""


class UnreadableError(StorageError):
    """A file of an index is there, and the machine does not let us read it; it stays as it is."""

    def __init__(self, path: object, error: OSError | MemoryError) -> None:
        super().__init__(
            f"{path} cannot be read: {reason_of(error)}. The index is unchanged; {remedy(error)}."
        )


class LockTimeoutError(StorageError):
    """Another process held the lock of the index for too long."""


class RemoteError(SkillSearchError):
    """Milvus cannot be reached, or refused a request."""


class CollectionMissingError(RemoteError):
    """A collection or alias does not exist, or no longer does."""


class CacheError(SkillSearchError):
    """A part of a saved index is damaged, missing or of another version."""


class OtherVersionError(CacheError):
    """Another version of skillsearch wrote an index."""


class EmbedderError(SkillSearchError):
    """An embedder cannot be loaded, or returned unusable vectors."""


class ConfigError(SkillSearchError):
    """A setting has an unusable value."""


class ModelNotFoundError(EmbedderError, ConfigError):
    """Nothing has the name of a model, or its folder is missing."""


class EditError(ConfigError):
    """A host's file cannot be edited without risk; the message is the reason."""


_NO_ENVIRONMENT = "none; `skillsearch env list` says where to make one"


class EnvironmentNotFoundError(ConfigError, LookupError):
    """No environment has the requested name; `nearest` are up to five similar ones."""

    def __init__(self, name: str, nearest: tuple[str, ...], available: tuple[str, ...]) -> None:
        hint = f" Did you mean: {', '.join(nearest)}?" if nearest else ""
        more = f" and {len(available) - 50} others" if len(available) > 50 else ""
        there_are = ", ".join(available[:50]) + more or _NO_ENVIRONMENT
        super().__init__(f"No environment is named {name[:200]!r}.{hint} There are: {there_are}.")
        self.name, self.nearest, self.available = name, nearest, available


class QueryError(SkillSearchError, ValueError):
    """A query, number of hits or threshold that cannot be searched."""


class SelectionError(QueryError):
    """A selection leaves out what was asked for, or names a root that is not there."""


class DaemonError(SkillSearchError):
    """The daemon cannot be used or cannot answer; final if the same would fail without it."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class ExecutionError(SkillSearchError):
    """A command of a skill cannot be run as requested."""


class ExecutorError(ExecutionError):
    """An executor cannot be used on this machine, or with these settings."""


class IsolationError(ExecutorError):
    """Isolation is required, and no executor on this machine provides it."""


class CommandRefusedError(ExecutionError):
    """The allow and deny lists reject a command."""


class SkillNotLoadedError(ExecutionError):
    """A session is to run a command of a skill that it has not loaded; as trpc-agent-go says it."""

    def __init__(self, skill: str) -> None:
        super().__init__(f'skill_run requires skill_load first for "{skill}"')
        self.skill = skill


class WorkspaceError(ExecutionError):
    """A workspace, or one of its inputs or outputs, cannot be used."""


class ArtifactNotFoundError(ExecutionError, LookupError):
    """No artifact has the requested name and version."""


class EvaluationError(SkillSearchError):
    """A collection, a run or a system that cannot be measured."""


class TrainingError(SkillSearchError):
    """A model that cannot be tuned, read or written, or too few skills to tune it."""


class MissingDependencyError(SkillSearchError, ImportError):
    """An optional library is not installed; names the `module` and the `extra` that brings it."""

    def __init__(self, module: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {module}: {install_extra(extra)}")
        self.module, self.extra = module, extra


@contextmanager
def explained(
    error_class: type[SkillSearchError],
    message: str,
    why: Callable[[OSError], object] = lambda exc: exc.strerror or exc,
) -> Iterator[None]:
    """Turn an `OSError` within into another kind, with the reason for the last ``%s``."""
    try:
        yield
    except OSError as exc:
        before, _, after = message.rpartition("%s")
        raise error_class(f"{before}{why(exc)}{after}") from exc


def writing_index(folder: object) -> AbstractContextManager[None]:
    """Raise StorageError if an index cannot be written to a folder."""
    return explained(
        StorageError,
        f"The index cannot be written to {folder}: %s, or choose another --index-dir.",
        lambda exc: f"{exc.strerror or exc}. The index before is unchanged; {remedy(exc)}",
    )


@contextmanager
def translated(translate: Callable[[Exception], SkillSearchError]) -> Iterator[None]:
    """Turn whatever a library raises within into an error of ours."""
    try:
        yield
    except Exception as exc:  # the errors of such a library share no other base class
        raise translate(exc) from exc


def answered(
    call: Callable[[], Answer], explain: Callable[[Exception], Explanation]
) -> Answer | Explanation:
    """Return what a call returns, or the answer that explains what it raised."""
    try:
        return call()
    except Exception as exc:  # noqa: BLE001 - the last line of defence of an interface: it goes on
        return explain(exc)


@contextmanager
def importing(module: str, extra: str, purpose: str) -> Iterator[None]:
    """Import an optional library within; MissingDependencyError if it cannot be imported."""
    try:
        yield
    except ImportError as exc:
        if machine_problem(exc):
            raise
        raise MissingDependencyError(module, extra, purpose) from exc


def require_installed(extra: str, purpose: str, *packages: str) -> None:
    """Raise MissingDependencyError for the first package that is not installed; import none."""
    from importlib import util

    for package in packages:
        if util.find_spec(package.replace("-", "_")) is None:
            raise MissingDependencyError(package, extra, purpose)
