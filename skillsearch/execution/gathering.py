"""What a run left in its workspace: collected, kept as artifacts, and described."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from skillsearch.errors import SkillSearchError
from skillsearch.execution.artifacts import ArtifactStore
from skillsearch.execution.files import bounded
from skillsearch.execution.globs import FOLDERS, matcher
from skillsearch.execution.metadata import OutputRecord
from skillsearch.execution.outputs import Collected, CollectedFile, collect
from skillsearch.execution.request import (
    MAX_PRIMARY_BYTES,
    ArtifactRef,
    OutputFile,
    OutputSpec,
    RunRequest,
)
from skillsearch.execution.results import output_file, primary_output, without_empty
from skillsearch.execution.tracing import span
from skillsearch.execution.workspace import Workspace
from skillsearch.files.paths import shown

MAX_AUTOMATIC = 20
"""Files that are collected where nothing was asked for."""

_AUTOMATIC = OutputSpec(globs=("out/**",), max_files=MAX_AUTOMATIC, only_new=True)
_NOTHING = Collected((), (), limits_hit=False)


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a run left.

    Attributes:
        files: Its files, by name; with contents where these were asked for.
        primary: The first of those whose contents may be told that holds a short text of this run.
        artifacts: What was kept.
        warnings: What there is to tell, a line each.
    """

    files: tuple[OutputFile, ...]
    primary: OutputFile | None
    artifacts: tuple[ArtifactRef, ...]
    warnings: tuple[str, ...]


def output_specs(request: RunRequest) -> tuple[OutputSpec, ...]:
    """Return what a request wants to be collected, the older way as a declaration too.

    Args:
        request: The request.

    Returns:
        Declarations; where there is none, one of what is collected anyway: the first files of
        ``out``, of which only the primary output is told with its content.
    """
    older = OutputSpec(
        globs=request.output_files,
        inline=True,
        save=request.save_as_artifacts,
        name_template=request.artifact_prefix,
    )
    given = (older, request.outputs)
    return tuple(spec for spec in given if spec is not None and spec.globs) or (_AUTOMATIC,)


def check_outputs(request: RunRequest) -> None:
    """Refuse patterns that cannot be used, before anything is run.

    Args:
        request: The request.

    Raises:
        WorkspaceError: When one cannot be.
    """
    for spec in output_specs(request):
        matcher(spec.globs, {**FOLDERS, "RUN_DIR": "runs"})


def gather(
    workspace: Workspace,
    request: RunRequest,
    *,
    artifacts: ArtifactStore | None,
    variables: Mapping[str, str],
    since_ns: int,
    failed: bool,
) -> Gathered:
    """Collect the outputs of a run, and keep those that are to be kept.

    Nothing that goes wrong here is an error: the command ran, and its result is worth having.

    Args:
        workspace: The workspace.
        request: What was asked for.
        artifacts: Where to keep them; None for nowhere.
        variables: What patterns may begin with, and the folder of each.
        since_ns: When the run began, by the clock of the workspace's disk.
        failed: Whether the run failed, so that its empty files mean nothing.

    Returns:
        The files, and what there is to tell.
    """
    gathering = _Gathering(workspace, artifacts, request.omit_inline_content, since_ns)
    for spec in output_specs(request):
        gathering.add(spec, variables, failed=failed)
    files = tuple(file for _, file in sorted(gathering.files.items()))
    warnings = (*gathering.warnings, *_unmet(request))
    return Gathered(files, primary_output(gathering.texts), tuple(gathering.artifacts), warnings)


def _unmet(request: RunRequest) -> list[str]:
    """Return warnings about wishes that have nothing to be about."""
    warnings = []
    if request.save_as_artifacts and not request.output_files:
        warnings.append("save_as_artifacts is about output_files, and there are none; name them.")
    specs = output_specs(request)
    if request.omit_inline_content and not any(spec.save for spec in specs):
        warnings.append("omit_inline_content is about what is saved, and nothing is to be saved.")
    return warnings


class _Gathering:
    """What was gathered so far."""

    def __init__(
        self, workspace: Workspace, store: ArtifactStore | None, omit: bool, since_ns: int
    ) -> None:
        self.files: dict[str, OutputFile] = {}
        self.texts: list[OutputFile] = []
        self.artifacts: list[ArtifactRef] = []
        self.warnings: list[str] = []
        self._workspace = workspace
        self._store = store
        self._omit = omit
        self._since_ns = since_ns

    def add(self, spec: OutputSpec, variables: Mapping[str, str], *, failed: bool) -> None:
        """Collect what one declaration names, and do with it what it says."""
        collected = self._collect(spec, variables)
        files: Sequence[CollectedFile] = collected.files
        if failed:
            files, notes = without_empty(files)
            self.warnings += notes
        saved = self._save(files, spec) if spec.save else {}
        self._describe(files, spec, saved if self._omit else ())
        self.artifacts += saved.values()
        names, versions = [ref.name for ref in saved.values()], [r.version for r in saved.values()]
        record = OutputRecord(spec.globs, tuple(names), tuple(versions), collected.limits_hit)
        try:
            self._workspace.record(record)
        except SkillSearchError as error:
            self.warnings.append(f"The outputs are not noted in metadata.json: {error}")

    def _collect(self, spec: OutputSpec, variables: Mapping[str, str]) -> Collected:
        """Read the files; none where the workspace cannot be read any more."""
        name, patterns = self._workspace.path.name, ", ".join(spec.globs)
        try:
            with span("workspace.collect", exec_id=name, patterns=patterns) as tell:
                collected = collect(self._workspace, spec, variables, self._since_ns)
                tell(count=len(collected.files))
        except SkillSearchError as error:
            self.warnings.append(f"Outputs were not collected: {error}")
            return _NOTHING
        self.warnings += collected.warnings
        return collected

    def _save(self, files: Sequence[CollectedFile], spec: OutputSpec) -> dict[str, ArtifactRef]:
        """Keep files as artifacts; return those that are kept, by the name of the file."""
        if self._store is None:
            self.warnings.append("There is no store of artifacts; the outputs are not kept.")
            return {}
        saved, notes = {}, []
        for file in files:
            name = spec.name_template + file.name
            if file.truncated:
                notes.append(f"{shown(file.name)} is cut, and is not kept; raise its limits.")
                continue
            try:
                saved[file.name] = self._store.save(name, file.data, file.media_type)
            except (SkillSearchError, OSError) as error:
                notes.append(f"{shown(file.name)} is not kept: {error}")
        self.warnings += bounded(notes)
        return saved

    def _describe(
        self, files: Sequence[CollectedFile], spec: OutputSpec, omitted: Collection[str]
    ) -> None:
        """Add the descriptions of files, with their contents where these are wanted."""
        with span("workspace.inline", exec_id=self._workspace.path.name, count=len(files)):
            for file in files:
                inline = spec.inline and file.name not in omitted
                is_candidate = spec is _AUTOMATIC and file.size <= MAX_PRIMARY_BYTES
                told = output_file(file, inline=inline or is_candidate)
                if told.content is not None and file.is_new:
                    self.texts.append(told)
                if inline or file.name not in self.files:
                    self.files[file.name] = told if inline else replace(told, content=None)
