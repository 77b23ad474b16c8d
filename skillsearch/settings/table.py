"""The table of settings: what each says, how it is read, who may decide it, and its default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypedDict, get_type_hints

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.settings import values
from skillsearch.settings.environ import SEED_ROOT
from skillsearch.settings.user_folders import user_file
from skillsearch.types.answers import SELECTING, Selection

IN_PROFILE = ": profiles."
"""Stands between a file and the name of a profile in the source of a setting."""
_OF_PROJECT = 2
"""How close to a command a project's file is: closer than the user's, less so than a variable."""


class Setting(NamedTuple):
    """How a setting is read, and who may decide it.

    A project file decides some settings nowhere: commands that may run, servers that get queries,
    what to trust, and whether to see the skills of other projects. Some it decides for an index
    that it names: over the user's own index they would hide skills of the user, or make it in
    another way.
    """

    parse: values.Parser
    project: Literal["everywhere", "own index", "nowhere"] = "everywhere"
    in_profile: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be configured, how it is read, and its default.

    Files, variables, flags, their help and the page of settings follow this table.

    Attributes:
        roots: Folders and archives of skills, and URLs, in order of precedence.
        trust: Who vouches for the ROOTs, or for one of them: vetted (you), project or fetched
            (nobody). Repeatable; kept until another is given. [default: fetched for archives and
            URLs, project for what is found in a project, else vetted]
        index_dir: Folder of the index. [default: SKILLSEARCH_INDEX_DIR, the settings, user cache]
        model: onnx (default), hashing, onnx:FOLDER, st:NAME.
        fields: metadata: names and descriptions only; full (default): also the bodies, as words
            and as embedded chunks.
        device: Where an st: model runs: cpu, cuda, cuda:1, mps; auto (default): the best available.
        backend: local (default): a folder on this machine; milvus: a server (extra milvus).
        uri: Address of Milvus, such as http://127.0.0.1:19530.
        collection: Name of the index in Milvus. [default: skillsearch]
        n: Maximum number of hits. [default: 5]
        threshold: Minimum score, 0 to 1. [default: 0.65]
        refresh: Whether a query first updates a changed index if that is cheap. [default: true]
        reader: When a second model reads the best hits with the request: auto (default), if the
            answer is in doubt; always; off; or another model, which always reads: st:NAME, a
            folder.
        environments: Folder of the named environments. [default: next to the user's settings]
        environment: The environment in use. [default: default, or else the only one there is]
        daemon: auto (default): a warm process answers; off: each command for itself.
        usage: What is kept of requests and of the skills that they led to, on this machine alone,
            to learn from: off (default): nothing; hashes: no words; text: the words too.
        hook_mode: offer (default): the prompt hook offers skills; shadow: it decides, and keeps
            what it would have offered if usage is on, but offers nothing.
        allowed_commands: The only commands of skills that may be run. [default: all]
        denied_commands: Commands of skills that may not be run. [default: none]
        profile: Add the settings of [profiles.NAME].
        all_projects: Skills of every project, not only of the user and of the project around this
            folder.
        selection: The settings below, those of each source in addition to all others; and as
            `SCOPE` the folder that a query comes from, with `EVERYWHERE` for `all_projects`.
        sources: Where each setting that is not a default came from.

    These have no attribute of their own; they select skills:
        include: Only skills whose name or ROOT:NAME fits; * is any text. Repeatable.
        exclude: No skills whose name or ROOT:NAME fits. Repeatable.
        tags: Only skills with this tag. Repeatable.
        in_roots: Only skills of this root: its alias, path or URL. Repeatable.
        strict: No skills whose metadata are broken, missing or not as specified; they are warned
            of.
    """

    roots: Annotated[tuple[Path | str, ...], Setting(values.parse_roots)] = ()
    trust: Annotated[tuple[str, ...], Setting(values.parse_trust, "nowhere")] = ()
    index_dir: Annotated[Path, Setting(values.parse_path)] = Path()
    model: Annotated[str, Setting(values.text(), "own index")] = "onnx"
    fields: Annotated[str, Setting(values.choice("metadata", "full"), "own index")] = "full"
    device: Annotated[str, Setting(values.device)] = "auto"
    backend: Annotated[str, Setting(values.choice(*values.BACKENDS), "nowhere")] = "local"
    uri: Annotated[str, Setting(values.text(), "nowhere")] = ""
    collection: Annotated[str, Setting(values.text(), "nowhere")] = "skillsearch"
    n: Annotated[int, Setting(values.count, "own index", in_profile=True)] = 5
    threshold: Annotated[float | None, Setting(values.score, "own index", in_profile=True)] = None
    refresh: Annotated[bool, Setting(values.parse_switch, "own index")] = True
    reader: Annotated[str, Setting(values.parse_reader, "own index")] = values.DEFAULT_READER
    environments: Annotated[Path, Setting(values.parse_path)] = Path()
    environment: Annotated[str, Setting(values.environment)] = ""
    daemon: Annotated[str, Setting(values.choice("auto", "off"))] = "auto"
    usage: Annotated[str, Setting(values.choice(*values.USAGE), "nowhere")] = "off"
    hook_mode: Annotated[str, Setting(values.choice(*values.HOOK_MODES), "nowhere")] = "offer"
    allowed_commands: Annotated[tuple[str, ...], Setting(values.parse_words, "nowhere")] = ()
    denied_commands: Annotated[tuple[str, ...], Setting(values.parse_words, "nowhere")] = ()
    profile: Annotated[str, Setting(values.text())] = ""
    all_projects: Annotated[bool, Setting(values.parse_switch, "nowhere")] = False
    selection: Selection = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def index_roots(self) -> tuple[Path | str, ...]:
        """Roots for the index in use: those that were named as close to the command as it."""
        return self.roots if self._closeness("roots") >= self._closeness("index_dir") else ()

    @property
    def own_roots(self) -> tuple[Path | str, ...]:
        """Roots that the user named; none if a project file names them."""
        return () if self.is_of_project("roots") else self.roots

    @property
    def file_roots(self) -> tuple[Path | str, ...]:
        """Roots that a project file names, so that nobody vouches for them."""
        return self.roots if self.is_of_project("roots") else ()

    @property
    def is_remote(self) -> bool:
        """Whether the index lies on a server."""
        return self.backend == "milvus"

    @property
    def is_project_index(self) -> bool:
        """Whether a project file names the index."""
        return self.is_of_project("index_dir")

    def is_of_project(self, key: str) -> bool:
        """Return whether a project file made a setting."""
        return self._closeness(key) == _OF_PROJECT

    def _closeness(self, key: str) -> int:
        """Return how close to the command a setting was made; the default is the farthest."""
        levels = {"": 0, SEED_ROOT: 0, "environment": 3, "flag": 4}
        source = self.sources.get(key, "").partition(IN_PROFILE)[0]
        if source in levels:
            return levels[source]
        return 1 if source == str(user_file()) else _OF_PROJECT


class Flags(TypedDict, total=False):
    """What a command line, or a caller, decides of the settings; None leaves it to the others."""

    all_projects: bool | None
    backend: str | None
    collection: str | None
    daemon: str | None
    device: str | None
    environment: str | None
    environments: Path | None
    exclude: tuple[str, ...] | None
    fields: str | None
    in_roots: tuple[str, ...] | None
    include: tuple[str, ...] | None
    index_dir: str | Path | None
    model: str | None
    n: int | None
    profile: str | None
    reader: str | None
    refresh: bool | None
    strict: bool | None
    tags: tuple[str, ...] | None
    threshold: float | None
    trust: tuple[str, ...] | None
    uri: str | None


_HINTS = get_type_hints(Settings, include_extras=True).items()
SETTINGS: Mapping[str, Setting] = {
    **{key: hint.__metadata__[0] for key, hint in _HINTS if hasattr(hint, "__metadata__")},
    **{key: Setting(values.parse_words, in_profile=True) for key in SELECTING},
    "strict": Setting(values.parse_strict, in_profile=True),
}
"""Every setting that files, variables and flags know, by its name."""
Key = Literal[
    "allowed_commands", "denied_commands", "device", "fields", "model", "reader", "roots",
    "threshold",
]  # fmt: skip
"""The settings that are read one at a time."""
OF_OWN_INDEX = sorted(key for key, row in SETTINGS.items() if row.project == "own index")
"""The settings that a project file decides for an index of its own alone."""
_DESCRIBED = lazy_pattern(r"^( {4}| {8})(\w+): (.*(?:\n\1 {4}.*)*)", re.MULTILINE)
"""Python 3.13 takes the indentation of the class from its docstring."""


def text_of(key: str) -> str:
    """Return what a setting says, for the help of its option and the page of settings."""
    described = _descriptions()
    return " ".join(described[key].split()) if described else ""


@cache
def _descriptions() -> dict[str, str]:
    described = _DESCRIBED.findall(Settings.__doc__ or "")  # python -OO has no docstrings
    return {key: text for _, key, text in described}
