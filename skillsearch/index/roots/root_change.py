"""A change of what an index holds, resolved against what it holds once nobody else can write it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from pathlib import Path
from typing import Literal, Self

from skillsearch.errors import ConfigError, RootError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.hosts.folders import project_of
from skillsearch.index import next_steps
from skillsearch.index.roots.host_roots import (
    Followed,
    followed_folders,
    followed_in_order,
    labels,
    project_around,
    usual_folders,
    with_projects,
)
from skillsearch.index.roots.request import (
    FOLLOWS,
    Follows,
    IndexRequest,
    OnMissing,
    join_roots,
    key_of,
    replace_command,
    resolve_roots,
    trust_by_root,
    trusting,
)
from skillsearch.roots import sources
from skillsearch.roots.bundles import local_root
from skillsearch.settings.table import Settings
from skillsearch.text.safe_text import listed
from skillsearch.types.skills import Trust

Roots = Sequence[Path | str]
"""Folders, archives or URLs."""
How = Literal["add", "replace", "remove", "keep"]
RootScope = Literal["user", "project"]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SHOWN_ROOTS = 10
_NOTHING = IndexRequest((), model="", with_body=False)
_MADE_WITH = {"model": "model", "fields": "with_body"}


@dataclass(frozen=True, slots=True)
class RootChange:
    """What is to become of the roots of an index; a `Builder` applies it inside the index's lock.

    Attributes:
        roots: The roots that the caller names, and so vouches for.
        how: ``add``: hold them in addition to the present ones. ``replace``: hold nothing else.
            ``remove``: hold them no longer. ``keep``: add them, and look at no archive or URL that
            is held.
        settings: Their roots, trust, model and fields; the last two stay as they are
            held unless the settings name them.
        follows: What the index is to take up by itself from now on, at least; see `FOLLOWS`. One
            that holds exactly the roots that were named stays so.
        folders: Where a question comes from: what hosts look for in the projects there is held.
        without: Keys of roots not to take up now.
        scope: Who sees the skills of the `roots`: ``user``, from everywhere; ``project``, from the
            project around each; None: from its project if hosts look for them there.
        examples: Whether the examples of this package are among the `roots`; they come last.
        otherwise: What to take as held by an index that does not say.
    """

    roots: Roots = ()
    how: How = "add"
    settings: Settings = field(default_factory=Settings)
    follows: Follows | None = None
    folders: Sequence[str | Path] = ()
    without: Collection[str] = ()
    scope: RootScope | None = None
    examples: bool = False
    otherwise: IndexRequest | None = None

    @classmethod
    def adding(cls, request: IndexRequest) -> RootChange:
        """Return the change that adds the roots of a request, in an index made as it says."""
        trust = tuple(f"{root}={level}" for root, level in request.trust.items())
        fields = "full" if request.with_body else "metadata"
        sources = dict.fromkeys(_MADE_WITH, "flag")
        settings = Settings(model=request.model, fields=fields, trust=trust, sources=sources)
        return cls(request.named, "add", settings)

    def applied_to(
        self, held: IndexRequest | None, *, unpack: bool = True, missing: OnMissing = "refuse"
    ) -> IndexRequest:
        """Return what the index is to hold, given what it holds.

        Without `unpack`, archives and URLs are taken as they were last unpacked. A RootError for a
        root that cannot be indexed, unless `missing` allows that, and a ConfigError if nothing
        would be held, say what to do.
        """
        held = held or self.otherwise
        follows = self._follows(held)
        held = with_projects(held) if held and follows else held
        places = self._places(held, follows)
        named = self._named(held, follows, places)
        roots = self._folders(named, held, unpack=unpack, missing=missing)
        origins = tuple(map(sources.source_of, named)) if any(map(sources.is_bundle, named)) else ()
        keys = list(map(key_of, named))
        projects = self._projects(held, follows, places)
        projects = {key: projects[key] for key in keys if projects.get(key)}
        aliases = {key: a for key, a in self._before(held).aliases.items() if key in keys}
        hidden_from = {key: hidden for key, each in places.items() if (hidden := each.seen_by[1])}
        return replace(
            self._made_as(held),
            roots=roots,
            sources=origins,
            trust=self._trust(named, held, projects),
            found=self._found(keys, held),
            follows=follows,
            followed=tuple(key for key in keys if key in places),
            left_out=self._left_out(held),
            projects=projects,
            hidden_from=hidden_from,
            aliases=labels(places, aliases.values()) | aliases,
        )

    @classmethod
    def of_caller(
        cls,
        folder: Path,
        how: How,
        roots: str | Path | Iterable[str | Path] = (),
        trust: str | Sequence[str] = (),
    ) -> Self:
        """Return a change of the index in a folder for a caller in Python; no setting counts."""
        named = tuple([roots] if isinstance(roots, str | Path) else roots)
        levels = (trust,) if isinstance(trust, str) else tuple(trust)
        sources = dict.fromkeys(("index_dir", "trust"), "flag")
        return cls(named, how, Settings(trust=levels, index_dir=folder, sources=sources))

    def named(self, held: IndexRequest | None) -> Roots:
        """Return the roots to hold as they were named, given what is held; none is looked at."""
        follows = self._follows(held)
        held = with_projects(held) if held and follows else held
        return self._named(held, follows, self._places(held, follows))

    def is_news(self, held: IndexRequest | None) -> bool:
        """Return whether an index that holds this would hold more roots, or follow more hosts."""
        roots = held.roots if held and held.follows in ("hosts", "named") else ()
        return not set(map(key_of, roots)).issuperset(map(key_of, self.named(held)))

    def _made_as(self, held: IndexRequest | None) -> IndexRequest:
        """Return how the index is to be made, as a request without roots."""
        settings = self.settings
        made = IndexRequest((), settings.model, settings.fields == "full")
        unsaid = [name for key, name in _MADE_WITH.items() if key not in settings.sources]
        return replace(made, **{name: getattr(held, name) for name in unsaid}) if held else made

    def _before(self, held: IndexRequest | None) -> IndexRequest:
        """Return the held roots that may stay: none if they are to be replaced."""
        return held if held and self.how != "replace" else _NOTHING

    def _follows(self, held: IndexRequest | None) -> Follows | None:
        if self.how == "replace" or held is None:
            return self.follows
        if held.follows == "named":
            return "named"
        return max(held.follows, self.follows, key=(None, *FOLLOWS).index)

    def _places(self, held: IndexRequest | None, follows: Follows | None) -> dict[str, Followed]:
        """Return the folders of hosts that the index takes up without being told to, by key."""
        named = {key_of(root) for root in (*self.roots, *self.settings.index_roots)}
        before = self._before(held)
        named |= set(map(key_of, before.named)) - set(before.followed)
        followed = followed_folders(held, follows, self.folders)
        gone = {*named, *self._left_out(held), *self.without}
        return {key: folder for key, folder in followed.items() if key not in gone}

    def _left_out(self, held: IndexRequest | None) -> tuple[str, ...]:
        """Return the keys of the folders that the user took out, whatever they were held for."""
        named, before = set(map(key_of, self.roots)), set(held.left_out if held else ())
        return tuple(sorted(before | named if self.how == "remove" else before - named))

    def _projects(
        self, held: IndexRequest | None, follows: Follows | None, places: Mapping[str, Followed]
    ) -> dict[str, tuple[str, ...]]:
        """Return the folders from which roots are seen, by key; none for what everybody sees."""
        projects = dict(self._before(held).projects)
        if self.settings.file_roots and not self.settings.is_project_index:
            file = Path(self.settings.sources["roots"])
            projects |= dict.fromkeys(map(key_of, self.settings.file_roots), (key_of(file.parent),))
        projects |= {key: folder.projects for key, folder in places.items()}
        if follows is None and self.scope is None:
            return projects
        for root in self.roots if self.how in ("add", "replace") else ():
            project = "" if sources.is_bundle(root) else project_around(root)
            if self.scope:
                project = _project_of(root) if self.scope == "project" else ""
            projects[key_of(root)] = (project,) if project else ()
        return projects

    def _named(
        self, held: IndexRequest | None, follows: Follows | None, places: Mapping[str, Followed]
    ) -> Roots:
        before = self._before(held)
        own = [root for root in before.named if str(root) != str(EXAMPLES)]
        last = [EXAMPLES] * (self.examples or len(own) < len(before.named))
        if self.how == "remove":
            return self._without([*own, *last])
        own = [root for root in own if key_of(root) not in before.followed]
        first, usual = self._of_settings(held, is_empty=not (self.roots or places or own))
        taken_up = [folder.path for folder in followed_in_order(places)]
        named = join_roots(first, own, usual, self.roots, taken_up, last)
        if not named and (before is _NOTHING or follows not in ("projects", "hosts")):
            raise ConfigError(
                "There is nothing to index. Name a folder (skillsearch index FOLDER), set roots in "
                "skillsearch.toml or SKILLSEARCH_ROOTS, or try the examples: skillsearch index "
                "--examples"
            )
        return named

    def _of_settings(self, held: IndexRequest | None, *, is_empty: bool) -> tuple[Roots, Roots]:
        """Return the roots of the settings that come first, and those to hold if nothing else is.

        The latter are the folders of hosts that the user left in if the settings have none.
        """
        if self.how == "keep" and held is not None:
            return (), ()
        first = self.settings.index_roots if self.how != "replace" else ()
        usual = self.settings.roots
        if is_empty and not usual:
            left_out = self._left_out(held) if self.how != "replace" else ()
            folders = usual_folders().items()
            return first, [folder.path for key, folder in folders if key not in left_out]
        return first, usual if is_empty else ()

    def _without(self, held: Roots) -> Roots:
        """Return the roots that are left; an error for one that is not held, or stays by itself."""
        gone = {key_of(root): root for root in self.roots}
        gone |= {key_of(EXAMPLES): EXAMPLES} if self.examples else {}
        keys = list(map(key_of, held))
        if strange := [root for key, root in gone.items() if key not in keys]:
            there_are = _shown(held) or "none"
            raise RootError(
                f"{_shown(strange)} is not a root of this index. Its roots: {there_are}"
            )
        if lasting := [root for root in self.settings.index_roots if key_of(root) in gone]:
            raise RootError(
                f"{_shown(lasting[:1])} is a root of the settings ({self._source}), so the next "
                "indexing would add it again; take it out there."
            )
        if not (kept := [root for root, key in zip(held, keys, strict=True) if key not in gone]):
            raise RootError(
                "Nothing would be left in this index; say what it is to hold instead: "
                + replace_command((), self._option)
            )
        return kept

    def _trust(
        self, named: Roots, held: IndexRequest | None, projects: Mapping[str, tuple[str, ...]]
    ) -> dict[str, Trust]:
        """Return what the user says of roots and projects, or said before.

        A project is vouched for as a whole, so what hosts look for there later is too; what was
        said of its parts before counts no longer.
        """
        settings = self.settings
        keys = list(map(key_of, named))
        levels = trust_by_root(settings.trust, self.roots or named)
        keys_in_use = {*keys, *chain(*map(trusting, set(chain(*projects.values()))))}
        strange = [key for key in levels if key not in keys_in_use]
        if strange and settings.sources.get("trust") == "flag":
            raise ConfigError(
                f"trust names {listed(strange, 1)}, which is not a root of this index. "
                f"Its roots: {_shown(named)}"
            )
        before = held.trust if held else {}
        unsaid = (key for key in before if not levels.keys() & set(trusting(key)))
        levels = {key: before[key] for key in unsaid} | levels
        # A project whose folders of skills are gone for now, as on another branch, is vouched for.
        keys_in_use |= set(filter(os.path.isdir, before))
        return {key: level for key, level in levels.items() if key in keys_in_use}

    def _found(self, keys: Sequence[str], held: IndexRequest | None) -> tuple[str, ...]:
        """Return which of the roots lie in a project and were not named by the user."""
        held = held or _NOTHING
        chosen = set(map(key_of, (*self.roots, *self.settings.own_roots)))
        unnamed = set(held.found) - chosen
        if new := set(keys) - set(map(key_of, held.named)) - chosen:
            unnamed |= new & set(map(key_of, self.settings.file_roots))
            unnamed |= new & {key for key, folder in usual_folders().items() if folder.projects}
        return tuple(key for key in keys if key in unnamed)

    def _folders(
        self, named: Roots, held: IndexRequest | None, *, unpack: bool, missing: OnMissing
    ) -> tuple[Path, ...]:
        folders: list[Path] = []
        earlier = held.named if held else ()
        problems: dict[Path | str, RootError] = {}
        for root in named:
            is_seen = held is None or self.how in ("add", "replace") or root in self.roots
            try:
                folders.append((local_root if unpack and is_seen else sources.folder_of)(root))
                if missing == "refuse" or (missing == "keep" and root not in earlier):
                    resolve_roots(folders[-1:])
            except RootError as exc:
                problems[root] = exc
        if problems:
            root = min(problems, key=lambda root: root not in self.roots)
            usable = [other for other in named if other not in problems]
            hint = self._hint(root, usable, earlier)
            raise RootError(f"{problems[root]} {hint}".rstrip()) from problems[root]
        return tuple(folders)

    def _hint(self, root: Path | str, usable: Roots, earlier: Roots) -> str:
        """Return the next step for a root that cannot be indexed."""
        if self.how == "keep" and sources.is_bundle(root):  # It was unpacked, and can be again.
            return f"To fix: run `skillsearch index{self._option}`"
        if root in earlier and self.how != "replace":
            command = replace_command(usable, self._option)
            return f"It was indexed before: bring it back, or leave its skills out: {command}"
        if root not in self.roots:
            return f"It is a root of the settings ({self._source})."
        url = sources.archive_url(str(root).removeprefix(f"{Path.cwd()}/"))
        if url and not Path(root).exists():
            return f"For a repository, name its archive: {url}"
        others = " ".join(shlex.quote(str(other)) for other in self.roots if other in usable)
        return f"Without it: skillsearch index {others}" if others else ""

    @property
    def _source(self) -> str:
        return self.settings.sources.get("roots", "default")

    @property
    def _option(self) -> str:
        """The options by which a command names this index."""
        if not (settings := self.settings).is_remote:
            return next_steps.index_option(settings.index_dir.absolute(), settings)
        values = {"backend": "milvus", "uri": "URI", "collection": settings.collection}
        flags = [key for key in values if settings.sources.get(key) == "flag"]
        return "".join(f" --{key} {values[key]}" for key in flags)


def default_follows(
    settings: Settings, how: How, held: IndexRequest | None, *, is_named: bool
) -> Follows | None:
    """Return which folders an index is to take up by itself: none if it is not the user's.

    Args:
        settings: The settings that name the index.
        how: What becomes of its roots.
        held: What it holds.
        is_named: Whether the user names some roots.
    """
    if settings.is_remote or settings.is_project_index or how in ("keep", "remove"):
        return None
    has_roots = is_named or settings.roots
    if how == "replace" and has_roots:
        return "named"
    is_filled = has_roots or (how == "add" and held and held.roots)
    if is_filled and settings.sources.get("index_dir") == "flag":
        return None
    return "projects" if is_named or _has_own_roots(settings) else "hosts"


def _has_own_roots(settings: Settings) -> bool:
    """Return whether roots are the user's; those a project file merely adds to others are not."""
    return bool(settings.roots and (settings.own_roots or not settings.index_roots))


def _project_of(root: Path | str) -> str:
    """Return the key of the project around a root; a RootError if there is none."""
    if (project := None if sources.is_bundle(root) else project_of(Path(root))) is None:
        raise RootError(
            f"There is no project around {_shown([root])}, so --scope project says nothing of it: "
            "no folder above has a .git or a folder of skills of a host. Leave --scope out."
        )
    return key_of(project)


def _shown(roots: Roots) -> str:
    return listed(map(sources.shown, map(sources.source_of, roots)), SHOWN_ROOTS)
