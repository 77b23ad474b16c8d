"""The request that an index was built for, kept apart so that it survives damage, and its roots."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field
from itertools import chain
from pathlib import Path
from typing import Literal, TypedDict, cast, get_args

from skillsearch.errors import CacheError, ConfigError, RootError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.files.atomic_files import read_record, write_record
from skillsearch.hosts.folders import up_to_project
from skillsearch.index.storage.cache import current_generation
from skillsearch.roots.sources import folder_of, is_bundle, shown, source_behind, source_of
from skillsearch.settings.config import load_only
from skillsearch.settings.table import Key, Settings
from skillsearch.settings.user_folders import cache_dir
from skillsearch.settings.values import parse_trust
from skillsearch.skills.discovery import make_roots
from skillsearch.types.json_values import Json, JsonObject, choice_of, object_of, text_of, texts_of
from skillsearch.types.skills import TRUSTS, Diagnostic, Root, Trust

logger = logging.getLogger(__name__)

REQUEST_FILE = "request.json"
_OTHER_FORM = (ConfigError, ValueError, KeyError, TypeError)
OnMissing = Literal["refuse", "keep", "leave"]
"""What becomes of a root that cannot be read: an error; its skills stay as they were indexed, if
the root was; its skills are left out until it is there."""


SeenBy = tuple[tuple[str, ...], tuple[str, ...]]
Follows = Literal["named", "projects", "hosts"]
FOLLOWS: tuple[Follows, ...] = get_args(Follows)
"""Which folders an index takes up by itself. named: none, exactly the roots that were named;
projects: those where hosts look for the skills of the project that a question comes from; hosts:
also those where they look for the skills of the user."""


class IndexConfig(TypedDict, total=False):
    """How an index of folders is made, as `SkillIndex.from_roots` explains.

    What is missing or None is asked of the settings, but for the trust.
    """

    index_dir: str | Path | None
    model: str | None
    with_body: bool | None
    trust: str | Sequence[str]


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """The arguments of the last indexing, a ConfigError for bad ones; roots by precedence.

    Attributes:
        sources: The roots as they were named, if any is an archive or a URL, which is looked at
            again.
        with_body: False for an index of metadata alone.
        trust: What the user said of a root or of a project, by its `key_of`.
        found: The keys of roots in a project that the user did not name.
        follows: One of `FOLLOWS`; None if nobody has decided that.
        followed: The keys of roots that it took up by itself; they go as hosts leave them.
        left_out: The keys of folders not to take up, since the user took them out.
        projects: By the key of a root the folders from which its skills are seen, which are keys
            of its projects; a root without one is the user's.
        hidden_from: By the key of a root of the user the projects that do not see it.
        aliases: The aliases of the roots, by key, so that no root that comes changes them.
    """

    roots: tuple[Path, ...]
    model: str
    with_body: bool
    sources: tuple[str, ...] = ()
    trust: Mapping[str, Trust] = field(default_factory=dict)
    found: tuple[str, ...] = ()
    follows: Follows | None = None
    followed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    projects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hidden_from: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, roots: str | Path | Iterable[str | Path], config: IndexConfig) -> IndexRequest:
        """Return a request for roots, which are unpacked, in an index in a folder or the cache."""
        # A search does not need it.
        from skillsearch.roots.bundles import local_roots

        named = [roots] if isinstance(roots, str | Path) else list(roots)
        paths, sources = local_roots(named)
        folder = config.get("index_dir") or cache_dir()
        model, with_body = config.get("model"), config.get("with_body")
        values: dict[Key, object] = {"model": model, "fields": with_body}
        unsaid = [key for key, value in values.items() if value is None]
        settings = load_only(*unsaid, index_dir=folder) if unsaid else Settings()
        model = settings.model if model is None else model
        with_body = settings.fields == "full" if with_body is None else with_body
        trust = trust_by_root(config.get("trust", ()), named)
        return cls(paths, model, with_body, sources, trust)

    @property
    def named(self) -> tuple[Path | str, ...]:
        """The roots as they were named."""
        return self.sources or self.roots

    def seen_by(self, key: str) -> SeenBy:
        """Return the projects that a root is seen from, if any, and those it is hidden from."""
        return self.projects.get(key, ()), self.hidden_from.get(key, ())

    def applied_to(
        self, held: IndexRequest | None, *, unpack: bool = True, missing: OnMissing = "refuse"
    ) -> IndexRequest:
        """Return itself, whatever is held; see `RootChange.applied_to`."""
        return self

    def save(self, folder: Path, generation: str = "", before: IndexRequest | None = None) -> None:
        """Write the request into an index folder; if that fails, the one before stays.

        If a generation is named that is not in use yet, the request `before` holds until it is.
        """
        held = None if before is None else before._to_dict()
        record: JsonObject = {**self._to_dict(), "generation": generation, "before": held}
        write_record(folder / REQUEST_FILE, record)

    def _to_dict(self) -> JsonObject:
        return asdict(self) | {"roots": list(map(str, self.roots))}

    @classmethod
    def load(cls, folder: Path) -> IndexRequest | None:
        """Read the request of the generation in use in a folder; None if none can be read."""
        while True:
            generation = current_generation(folder)
            request = cls._read(folder, generation)
            if current_generation(folder) == generation:
                return request

    @classmethod
    def _read(cls, folder: Path, generation: str | None) -> IndexRequest | None:
        try:
            record = object_of(read_record(folder / REQUEST_FILE))
            if generation and record.get("generation", "") not in ("", generation):
                record = object_of(record["before"])
            return cls.from_dict(record)
        except (CacheError, *_OTHER_FORM) as exc:
            logger.info("no request in %s: %s", folder, exc)
            return None

    @classmethod
    def from_dict(cls, record: JsonObject) -> IndexRequest:
        """Read the JSON form; one of `_OTHER_FORM` is raised if it is another."""
        trust = object_of(record.get("trust", {}))
        aliases = object_of(record.get("aliases", {}))
        return cls(
            tuple(map(Path, texts_of(record["roots"]))),
            text_of(record["model"]),
            bool(record["with_body"]),
            sources=texts_of(record.get("sources", [])),
            trust={key: choice_of(level, TRUSTS) for key, level in trust.items()},
            found=texts_of(record.get("found", [])),
            follows=choice_of(record.get("follows"), (None, *FOLLOWS)),
            followed=texts_of(record.get("followed", [])),
            left_out=texts_of(record.get("left_out", [])),
            projects=_lists(object_of(record.get("projects", {}))),
            hidden_from=_lists(object_of(record.get("hidden_from", {}))),
            aliases={key: text_of(alias) for key, alias in aliases.items()},
        )

    def _trust_around(self, project: str) -> Trust | None:
        """Return what was said of a project, or of what it is a part of."""
        return next((self.trust[key] for key in trusting(project) if key in self.trust), None)

    def with_trust(self, roots: Iterable[Root]) -> tuple[Root, ...]:
        """Return roots with all that is known, the vetted ones first: no other may shadow them."""
        pairs = zip(self.sources, self.roots, strict=False)  # there may be no sources
        named = {key_of(root): source for source, root in pairs}
        full = []
        for root in roots:
            key = str(root.path)
            if not (source := named.get(key, "")) or not is_bundle(source):
                source = source_behind(root.path)
            projects, hidden_from = self.seen_by(key)
            is_doubted = key in self.found or (projects and key in self.followed)
            usual: Trust = "fetched" if source else "project" if is_doubted else "vetted"
            levels = [level for project in projects if (level := self._trust_around(project))]
            trust = self.trust.get(key, min(levels, key=TRUSTS.index, default=usual))
            full.append(Root(root.path, root.alias, trust, shown(source), projects, hidden_from))
        return tuple(sorted(full, key=lambda root: root.trust != "vetted"))


def require_readable(folder: Path) -> None:
    """Raise a ConfigError for a request of another version, whose roots a new one would lose."""
    with suppress(CacheError):
        record = read_record(folder / REQUEST_FILE)
        try:
            IndexRequest.from_dict(object_of(record))
        except _OTHER_FORM as exc:
            raise ConfigError(
                f"Another version of skillsearch decided what the index in {folder} holds, in a "
                f"form that this one cannot read ({exc}). Use that version, choose another "
                f"--index-dir, or remove it: rm -r {shlex.quote(str(folder))}"
            ) from exc


def trusting(project: str) -> list[str]:
    """Return the keys of the folders of which a trust holds for a project, the nearest first.

    They are those up to the top of its repository, so a repository within another is not meant.
    """
    return list(dict.fromkeys([project, *map(str, up_to_project(Path(project)))]))


def _lists(values: Mapping[str, Json]) -> dict[str, tuple[str, ...]]:
    return {
        key: (some,) if isinstance(some, str) else texts_of(some) for key, some in values.items()
    }


def key_of(root: Path | str) -> str:
    """Return the real path of the folder of a root, the same for all its spellings."""
    folder = folder_of(root)
    with suppress(ValueError):  # No system can name it.
        return os.path.realpath(folder)
    return str(folder)


def trust_by_root(setting: str | Sequence[str], roots: Iterable[Path | str]) -> dict[str, Trust]:
    """Return what a `trust` setting says, by the `key_of` a root; a bare level is for `roots`.

    A ConfigError if the setting cannot be read.
    """
    try:
        items = [item.rpartition("=") for item in parse_trust(setting, Path())]
    except ValueError as exc:
        raise ConfigError(f"trust = {setting!r} {exc}") from exc
    levels: dict[str, Trust] = {}
    for root, _, level in sorted(items, key=lambda item: item[0] != ""):
        levels |= dict.fromkeys(map(key_of, [root] if root else roots), cast(Trust, level))
    return levels


def resolve_roots(paths: Sequence[Path]) -> tuple[tuple[Root, ...], tuple[Diagnostic, ...]]:
    """Check the folders to index, and return the roots and the diagnostics about them.

    A RootError for one that cannot be read: an index that silently lacks skills is worse than none.
    """
    roots, diagnostics = make_roots(paths)
    for diagnostic in diagnostics:
        if diagnostic.severity == "error":
            raise RootError(f"{diagnostic.path}: {diagnostic.message} Nothing was changed.")
    return tuple(roots), tuple(diagnostics)


def join_roots(*groups: Iterable[Path | str]) -> tuple[Path | str, ...]:
    """Join lists of roots; a root that is named twice, in any spelling, keeps its first place."""
    distinct: dict[str, Path | str] = {}
    for root in chain.from_iterable(groups):
        distinct.setdefault(key_of(root), root)
    return tuple(distinct.values())


def usable_roots(roots: Iterable[Path | str]) -> list[Path | str]:
    """Return the roots that can be indexed; archives and URLs are not looked at."""
    return [root for root in roots if is_bundle(root) or make_roots([folder_of(root)])[0]]


def replace_command(roots: Iterable[Path | str], option: str = "") -> str:
    """Return the command that makes an index hold exactly these roots, without secrets in URLs."""
    names = " ".join(shlex.quote(shown(source_of(root))) for root in roots)
    return f"skillsearch index --replace {names or 'FOLDER'}{option}"
