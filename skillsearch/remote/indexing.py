"""Bring an index in Milvus up to date with the disk; only what changed is embedded and sent.

The rows of the current version stay as they are until the next one is complete: readers see one of
the two, never a mixture. An interrupted run is resumed by the next, except for its last batch.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain

from skillsearch.embedders.embedding import Embedder
from skillsearch.environ import speaks_english
from skillsearch.errors import (
    EmbedderError,
    LockTimeoutError,
    MissingDependencyError,
    ParseError,
)
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.dense.channels import ChannelSettings, count_needed, possible_models
from skillsearch.index.documents import Document
from skillsearch.index.fields import ANALYSIS, FieldTexts, field_texts
from skillsearch.index.names import find_shadowed
from skillsearch.index.request import IndexRequest, resolve_roots
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.remote.client import MilvusServer
from skillsearch.remote.generations import (
    Claim,
    Head,
    Opened,
    are_compatible,
    drop_before,
    find_current,
    prepare_next,
)
from skillsearch.remote.row_writer import BATCH_SKILLS, Addition, RowStates, RowWriter
from skillsearch.remote.rows import key_of, name_key, state_of
from skillsearch.remote.schema import Generation
from skillsearch.skills.discovery import Discovery, discover
from skillsearch.skills.parser import parse_skill
from skillsearch.skills.resources import content_hash, read_skill_md
from skillsearch.types import Diagnostic, IndexReport, Progress, Root, Skill, SkillFile

_SAMPLE = 2_000
"""Skills that are read to find out which languages they are in."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Work:
    """What a run found, skill by skill."""

    kept: int = 0
    skipped: int = 0
    resumed: list[str] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


class Indexing:
    """One indexing run.

    Attributes:
        embedders: The embedders that were loaded, by model spec.
    """

    def __init__(
        self,
        server: MilvusServer,
        alias: str,
        request: IndexRequest,
        load: Callable[[str], Embedder],
        *,
        progress: Progress | None = None,
        batch_skills: int = BATCH_SKILLS,
    ) -> None:
        """Prepare to index.

        Args:
            server: The server.
            alias: The name of the index.
            request: What to index, and how.
            load: Loads an embedder by its model spec.
            progress: Called as the run proceeds.
            batch_skills: Skills to embed and send at a time.

        Raises:
            RootError: When a root is missing, not a folder, or unreadable.
        """
        self._started = time.monotonic()
        self._server = server
        self._alias = alias
        self._request = request
        self._load_embedder = load
        self._progress = progress
        self._batch_skills = batch_skills
        self._roots, self._root_diagnostics = resolve_roots(request.roots)
        self.embedders: dict[str, Embedder] = {}

    def run(self) -> IndexReport:
        """Bring the index up to date; if nothing changed, its version stays.

        Raises:
            ConfigError: When something else has the name of the index.
            EmbedderError: When the embedder cannot be loaded or gives bad vectors.
            LockTimeoutError: When another process is writing.
            RemoteError: When the server does not answer or refuses.
        """
        discovery = discover(self._roots)
        current = find_current(self._server, self._alias)
        settings = self._settings(discovery, current)
        with ExitStack() as stack:
            if current is not None:
                claim = stack.enter_context(Claim(self._server, current.generation))
                self._check_unchanged(current)
            if current and current.head and are_compatible(current.head.settings, settings):
                target = current
            else:
                number = current.generation.number if current else 0
                target = prepare_next(self._server, self._alias, number, settings)
            if current is None:
                claim = stack.enter_context(Claim(self._server, target.generation))
                self._check_unchanged(None)
            return self._update(discovery, current, target, settings, claim)

    def _check_unchanged(self, known: Opened | None) -> None:
        """Make sure that nobody wrote the index before we claimed it."""
        if find_current(self._server, self._alias) != known:
            raise LockTimeoutError(
                f"Another process has just written {self._alias!r}; run the command again."
            )

    def _settings(self, discovery: Discovery, current: Opened | None) -> IndexSettings:
        """Choose the channels of the index and load their embedders."""
        before = current.head.settings if current and current.head else None
        first = self._load(self._request.model)
        languages = self._request.languages
        models = possible_models(self._request.model, first.scripts, languages)
        if len(models) > 1 and languages == "auto" and not (before and len(before.channels) > 1):
            sample = self._sample(discovery, first)
            count = count_needed(models, languages, sample, expected=not speaks_english())
            models = models[:count]
        try:
            channels = tuple(ChannelSettings.of(one, self._load(one)) for one in models)
        except (EmbedderError, MissingDependencyError) as exc:
            if languages == "all":
                raise
            logger.warning("indexed without the multilingual channel: %s", exc)
            channels = (ChannelSettings.of(models[0], first),)
        return IndexSettings(
            roots=self._roots,
            channels=channels,
            languages=languages,
            could_add=False,
            with_body=self._request.with_body,
            analysis=ANALYSIS,
        )

    def _load(self, model: str) -> Embedder:
        if model not in self.embedders:
            self.embedders[model] = self._load_embedder(model)
        return self.embedders[model]

    def _sample(self, discovery: Discovery, first: Embedder) -> list[Document]:
        """Read some of the skills, evenly spread, to see which languages they are in."""
        step = max(1, len(discovery.files) // _SAMPLE)
        documents = []
        for file in discovery.files[::step]:
            with suppress(ParseError):
                data, _ = read_skill_md(file.path)
                texts, _ = self._texts(file, data, [first])
                documents.append(texts.document)
        return documents

    def _update(
        self,
        discovery: Discovery,
        current: Opened | None,
        target: Opened,
        settings: IndexSettings,
        claim: Claim,
    ) -> IndexReport:
        """Write what changed, and publish it."""
        assert target.head is not None
        head, generation = target.head, target.generation
        states = RowStates.read(self._server, generation, head.version)
        embedders = [self.embedders[channel.model] for channel in settings.channels]
        writer = RowWriter(
            self._server, generation, head, embedders, claim, batch_skills=self._batch_skills
        )
        work = _Work(diagnostics=[*self._root_diagnostics, *discovery.diagnostics])
        if not discovery.files:
            message = "No SKILL.md below this root; check the path."
            work.diagnostics += [
                Diagnostic("root-empty", "warning", message, str(root.path)) for root in self._roots
            ]
        shadowed = _find_shadowed(discovery.files, self._roots, states)
        total = len(discovery.files)
        for done, file in enumerate(discovery.files, start=1):
            self._take(file, file.doc_id in shadowed, states, writer, work)
            if self._progress:
                self._progress("read", done, total)
        writer.send()
        writer.keep(work.resumed)
        unseen, removed = states.left()
        writer.discard(unseen)
        writer.retire([*states.replaced, *removed])
        writer.restore(states.restored)
        found = (self._roots, work.skipped)
        if writer.changed or head.version == 0 or (head.settings.roots, head.skipped) != found:
            head = writer.finish(settings, work.skipped)
        if current is None or generation != current.generation:
            self._server.point(self._alias, generation.terms, is_new=current is None)
            oldest = current.generation.number if current else generation.number
            drop_before(self._server, self._alias, oldest)
        return self._report(head, generation, writer, work, len(removed))

    def _take(
        self, file: SkillFile, shadowed: bool, states: RowStates, writer: RowWriter, work: _Work
    ) -> None:
        """Read one file, and queue its skill if it is new."""
        try:
            data, _ = read_skill_md(file.path)
            key = key_of(file.doc_id)
            state = state_of(content_hash(data), file.path, file.root.path)
            if states.keeps(key, state, shadowed=shadowed):
                work.kept += 1
                return
            if (resumed := states.resumes(key, state, shadowed=shadowed)) is not None:
                work.resumed.append(resumed)
                return
            texts, found = self._texts(file, data, list(self.embedders.values()))
        except ParseError as exc:
            work.skipped += 1
            problem = Diagnostic(exc.code, "error", str(exc), str(file.path), exc.line)
            work.diagnostics.append(problem)
            return
        work.diagnostics.extend(found)
        unseen, replaced = states.replace(key)
        writer.discard(unseen)
        writer.add(Addition(texts, data, shadowed, replaced))

    def _texts(
        self, file: SkillFile, data: bytes, embedders: Sequence[Embedder]
    ) -> tuple[FieldTexts, tuple[Diagnostic, ...]]:
        """Parse a skill and split it into its texts."""
        skill, found = _parse(file, data)
        scripts = [one.scripts for one in embedders]
        return field_texts(skill, scripts, with_body=self._request.with_body), found

    def _report(
        self, head: Head, generation: Generation, writer: RowWriter, work: _Work, removed: int
    ) -> IndexReport:
        diagnostics = sorted(
            set(work.diagnostics),
            key=lambda item: (item.path, item.line or 0, item.code, item.message),
        )
        return IndexReport(
            indexed=head.documents,
            embedded=writer.embedded,
            reused=work.kept + len(work.resumed),
            removed=removed,
            skipped=work.skipped,
            truncated=writer.truncated,
            diagnostics=tuple(diagnostics),
            generation=f"{generation.documents}@{head.version}",
            seconds=time.monotonic() - self._started,
        )


def _find_shadowed(
    files: Sequence[SkillFile], roots: Sequence[Root], states: RowStates
) -> frozenset[str]:
    """Return the ids of the skills whose names mean another skill.

    This must be known before the first skill is sent. Only new files are parsed, and those that
    share a name.
    """
    named: defaultdict[int, list[SkillFile]] = defaultdict(list)
    for file in files:
        with suppress(ParseError):
            data, _ = read_skill_md(file.path)
            state = state_of(content_hash(data), file.path, file.root.path)
            known = states.name_key(key_of(file.doc_id), state)
            named[name_key(_parse(file, data)[0].name) if known is None else known].append(file)
    documents = []
    for file in chain.from_iterable(same for same in named.values() if len(same) > 1):
        with suppress(ParseError):
            documents.append(Document.listed(_parse(file, read_skill_md(file.path)[0])[0]))
    store = DocumentStore.build(sorted(documents, key=lambda document: document.doc_id))
    found = find_shadowed(store, [str(root.path) for root in roots])
    return frozenset(one.document.doc_id for one in found)


def _parse(file: SkillFile, data: bytes) -> tuple[Skill, tuple[Diagnostic, ...]]:
    return parse_skill(data, doc_id=file.doc_id, path=file.path, root=file.root.path)
