"""Roots on disk → the next version of an index in Milvus; only what changed is embedded and sent.

Rows of the version before stay as they are until the new one is complete: readers see one of the
two, never a mixture. A run that was cut off is taken up where it was, up to the batch at work.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain

from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import Embedder
from skillsearch.environ import speaks_english
from skillsearch.errors import (
    EmbedderError,
    LockTimeoutError,
    MissingDependencyError,
    ParseError,
    RootError,
)
from skillsearch.index import fields as field_rules
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.dense.channels import ChannelSettings, count_needed, possible_models
from skillsearch.index.documents import Document
from skillsearch.index.fields import FieldTexts, field_texts
from skillsearch.index.names import find_shadowed
from skillsearch.index.request import IndexRequest
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.remote.claims import Claim
from skillsearch.remote.client import MilvusServer
from skillsearch.remote.generations import (
    Opened,
    are_alike,
    drop_before,
    find_current,
    prepare_next,
)
from skillsearch.remote.head import Head
from skillsearch.remote.row_states import RowStates
from skillsearch.remote.row_writer import Addition, RowWriter
from skillsearch.remote.rows import key_of, name_key, state_of
from skillsearch.skills.discovery import Discovery, discover, make_roots
from skillsearch.skills.parser import parse_skill
from skillsearch.skills.resources import content_hash, read_skill_md
from skillsearch.text import tokenizer
from skillsearch.types import Diagnostic, IndexReport, Progress, Root, Skill, SkillFile

logger = logging.getLogger(__name__)

_SAMPLE = 2_000
"""Skills that are read to find out what languages they are in."""
_ANALYSIS = (tokenizer.VERSION, field_rules.VERSION)


@dataclass(slots=True)
class _Work:
    """What a run found, skill by skill."""

    kept: int = 0
    skipped: int = 0
    resumed: list[str] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


class Indexing:
    """One run of indexing.

    Attributes:
        embedders: The embedders that it loaded, by what they are loaded by.
    """

    def __init__(
        self,
        server: MilvusServer,
        alias: str,
        request: IndexRequest,
        *,
        progress: Progress | None = None,
        device: str | None = None,
    ) -> None:
        """Prepare to index.

        Args:
            server: The server.
            alias: The name of the index.
            request: What to index, and how.
            progress: Told how far the run is.
            device: Where a model of sentence-transformers runs; None for what the settings say.

        Raises:
            RootError: When a root is missing, no folder, or unreadable.
        """
        self._started = time.monotonic()
        self._server = server
        self._alias = alias
        self._request = request
        self._progress = progress
        self._device = device
        self._roots, self._oddities = _check_roots(request)
        self.embedders: dict[str, Embedder] = {}

    def run(self) -> IndexReport:
        """Bring the index up to date.

        Returns:
            What was done; where nothing changed, the version stays as it is.

        Raises:
            ConfigError: When the name of the index is taken by something else.
            EmbedderError: When the embedder cannot be loaded or gives unusable vectors.
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
            if current and current.head and are_alike(current.head.settings, settings):
                target = current
            else:
                number = current.generation.number if current else 0
                target = prepare_next(self._server, self._alias, number, settings)
            if current is None:
                claim = stack.enter_context(Claim(self._server, target.generation))
                self._check_unchanged(None)
            return self._bring_up_to_date(discovery, current, target, settings, claim)

    def _check_unchanged(self, known: Opened | None) -> None:
        """Make sure that nobody wrote between the look at the index and the claim on it."""
        if find_current(self._server, self._alias) != known:
            raise LockTimeoutError(
                f"Another process has just written {self._alias!r}; run the command again."
            )

    def _settings(self, discovery: Discovery, current: Opened | None) -> IndexSettings:
        """Return the settings of the index, for which its embedders are loaded."""
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
            models = models[:1]
            channels = (ChannelSettings.of(models[0], first),)
        return IndexSettings(
            roots=self._roots,
            channels=channels,
            languages=languages,
            could_add=False,
            with_body=self._request.with_body,
            analysis=_ANALYSIS,
        )

    def _load(self, model: str) -> Embedder:
        """Load an embedder once."""
        if model not in self.embedders:
            self.embedders[model] = load_embedder(model, device=self._device)
        return self.embedders[model]

    def _sample(self, discovery: Discovery, first: Embedder) -> list[Document]:
        """Read some of the skills, from everywhere, to see what languages they are in."""
        step = max(1, len(discovery.files) // _SAMPLE)
        documents = []
        for file in discovery.files[::step]:
            try:
                data, _ = read_skill_md(file.path)
                texts, _ = _parse(file, data, [first.scripts], with_body=self._request.with_body)
            except ParseError:
                continue
            documents.append(texts.document)
        return documents

    def _bring_up_to_date(
        self,
        discovery: Discovery,
        current: Opened | None,
        target: Opened,
        settings: IndexSettings,
        claim: Claim,
    ) -> IndexReport:
        """Write what changed, and have readers see it."""
        assert target.head is not None
        states = RowStates.read(self._server, target.generation, target.head.version)
        states.purge(self._server, target.generation)
        embedders = [self.embedders[channel.model] for channel in settings.channels]
        writer = RowWriter(self._server, target.generation, target.head, embedders, claim)
        work = _Work(diagnostics=[*self._oddities, *discovery.diagnostics])
        if not discovery.files:
            message = "No SKILL.md lies below this root; check the path."
            work.diagnostics += [
                Diagnostic("root-empty", "warning", message, str(root.path)) for root in self._roots
            ]
        shadowed = self._find_shadowed(discovery.files, states)
        total = len(discovery.files)
        for done, file in enumerate(discovery.files, start=1):
            self._take(file, file.doc_id in shadowed, states, writer, work)
            if self._progress:
                self._progress("read", done, total)
        writer.send()
        writer.keep(work.resumed)
        unseen, gone = states.left()
        writer.discard(unseen)
        writer.retire([*states.replaced, *gone])
        writer.restore(states.restored)
        head = target.head
        found = (self._roots, work.skipped)
        if writer.changed or head.version == 0 or (head.settings.roots, head.skipped) != found:
            head = writer.finish(settings, work.skipped)
        if current is None or target.generation != current.generation:
            self._server.point(self._alias, target.generation.terms, is_new=current is None)
            oldest = current.generation.number if current else target.generation.number
            drop_before(self._server, self._alias, oldest)
        return self._report(head, target, writer, work, len(gone))

    def _find_shadowed(self, files: Sequence[SkillFile], states: RowStates) -> frozenset[str]:
        """Return the ids of the skills that their names do not mean.

        This has to be known before the first is sent. Only new files are parsed, and those of a
        name that several have.
        """
        named: defaultdict[int, list[SkillFile]] = defaultdict(list)
        for file in files:
            with suppress(ParseError):
                data, _ = read_skill_md(file.path)
                state = state_of(content_hash(data), file.path, file.root.path)
                known = states.name_key(key_of(file.doc_id), state)
                named[name_key(_skill(file, data).name) if known is None else known].append(file)
        documents = []
        for file in chain.from_iterable(same for same in named.values() if len(same) > 1):
            with suppress(ParseError):
                documents.append(Document.listed(_skill(file, read_skill_md(file.path)[0])))
        store = DocumentStore.build(sorted(documents, key=lambda document: document.doc_id))
        found = find_shadowed(store, [str(root.path) for root in self._roots])
        return frozenset(one.document.doc_id for one in found)

    def _take(
        self,
        file: SkillFile,
        shadowed: bool,
        states: RowStates,
        writer: RowWriter,
        work: _Work,
    ) -> None:
        """Look at one file, and send its skill if it is new."""
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
            scripts = [one.scripts for one in self.embedders.values()]
            texts, found = _parse(file, data, scripts, with_body=self._request.with_body)
        except ParseError as exc:
            work.skipped += 1
            work.diagnostics.append(
                Diagnostic(exc.code, "error", str(exc), str(file.path), exc.line)
            )
            return
        work.diagnostics.extend(found)
        unseen, replaced = states.replace(key)
        writer.discard(unseen)
        writer.add(Addition(texts, data, shadowed, replaced))

    def _report(
        self, head: Head, target: Opened, writer: RowWriter, work: _Work, removed: int
    ) -> IndexReport:
        """Say what was done."""
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
            generation=f"{target.generation.documents}@{head.version}",
            seconds=time.monotonic() - self._started,
        )


def _skill(file: SkillFile, data: bytes) -> Skill:
    """Parse a skill."""
    return parse_skill(data, doc_id=file.doc_id, path=file.path, root=file.root.path)[0]


def _parse(
    file: SkillFile,
    data: bytes,
    scripts: Sequence[frozenset[str] | None],
    *,
    with_body: bool,
) -> tuple[FieldTexts, tuple[Diagnostic, ...]]:
    """Read a skill and split it into its texts."""
    skill, found = parse_skill(data, doc_id=file.doc_id, path=file.path, root=file.root.path)
    return field_texts(skill, scripts, with_body=with_body), found


def _check_roots(request: IndexRequest) -> tuple[tuple[Root, ...], tuple[Diagnostic, ...]]:
    """Check the folders to be indexed; an index that lacks one would be worse than none."""
    roots, diagnostics = make_roots(request.roots)
    for diagnostic in diagnostics:
        if diagnostic.severity == "error":
            raise RootError(f"{diagnostic.path}: {diagnostic.message} Nothing was changed.")
    return tuple(roots), tuple(diagnostics)
