"""metadata.json: what was put into a workspace and taken out of it, for people and other tools."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime

from skillsearch.execution.files import remove_tree, replace_file
from skillsearch.types import JsonValue

METADATA = "metadata.json"
METADATA_VERSION = 1
MAX_RECORDS = 100
"""How many records of each kind are kept: the latest ones."""


def now() -> str:
    """Return the time as records hold it: ISO 8601, UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class SkillRecord:
    """A skill that was staged; it is always copied, never mounted."""

    name: str
    rel_path: str
    digest: str
    mounted: bool = field(default=False, init=False)
    staged_at: str = field(default_factory=now)


@dataclass(frozen=True, slots=True)
class InputRecord:
    """An input that was put into the workspace.

    Attributes:
        source: Where it came from, as asked for; ``from`` in JSON.
        resolved: The exact source, with the version of an artifact.
        version: Version of an artifact, if it is one.
    """

    source: str
    to: str
    resolved: str
    version: int | None
    mode: str
    ts: str = field(default_factory=now)


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A collection of outputs, with the names and versions of the artifacts that were made."""

    globs: tuple[str, ...]
    saved_as: tuple[str, ...] = ()
    versions: tuple[int, ...] = ()
    limits_hit: bool = False
    ts: str = field(default_factory=now)


Record = SkillRecord | InputRecord | OutputRecord


@dataclass(frozen=True, slots=True)
class WorkspaceMetadata:
    """The history of a workspace, for people and other tools; records are oldest first.

    Programs can write to metadata.json, so it is never read back: each save replaces it.
    """

    created_at: str
    updated_at: str
    last_access: str
    skills: tuple[SkillRecord, ...] = ()
    inputs: tuple[InputRecord, ...] = ()
    outputs: tuple[OutputRecord, ...] = ()

    @classmethod
    def new(cls) -> WorkspaceMetadata:
        """Return the metadata of a workspace that is being made."""
        at = now()
        return cls(at, at, at)

    def used(self) -> WorkspaceMetadata:
        """Return a copy with this time of use."""
        return replace(self, last_access=now())

    def with_records(self, *records: Record) -> WorkspaceMetadata:
        """Return a copy with more records; a skill's record replaces its previous one."""
        skills = {skill.name: skill for skill in self.skills}
        for record in records:
            if isinstance(record, SkillRecord):
                skills.pop(record.name, None)
                skills[record.name] = record
        inputs = [*self.inputs, *(item for item in records if isinstance(item, InputRecord))]
        outputs = [*self.outputs, *(item for item in records if isinstance(item, OutputRecord))]
        at = now()
        return WorkspaceMetadata(
            self.created_at,
            at,
            at,
            tuple(skills.values())[-MAX_RECORDS:],
            tuple(inputs[-MAX_RECORDS:]),
            tuple(outputs[-MAX_RECORDS:]),
        )

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        inputs = [asdict(record) for record in self.inputs]
        return {
            "version": METADATA_VERSION,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "last_access": self.last_access,
            "skills": {skill.name: asdict(skill) for skill in self.skills},
            "inputs": [{"from": record.pop("source"), **record} for record in inputs],
            "outputs": [asdict(record) for record in self.outputs],
        }


def save_metadata(folder: int, metadata: WorkspaceMetadata) -> None:
    """Write metadata.json into an open folder, in place of anything that has its name.

    Raises an `OSError` if it cannot be written; the old file, if any, stays as it was.
    """
    data = (json.dumps(metadata.to_dict()).encode(),)
    try:
        replace_file(folder, METADATA, data, 0o600)
    except IsADirectoryError:
        remove_tree(folder, METADATA)
        replace_file(folder, METADATA, data, 0o600)
