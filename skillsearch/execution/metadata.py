"""metadata.json: what was put into a workspace and taken out of it, for people and other tools.

Programs can write to the file, so nothing reads it back: what counts is in memory, and each save
replaces whatever lies there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from skillsearch.execution.files import replace_file
from skillsearch.execution.removal import remove_tree
from skillsearch.types import JsonValue

METADATA = "metadata.json"
VERSION = 1
MAX_RECORDS = 100
"""Skills, inputs and outputs of which a record is kept: the last ones of each."""


def now() -> str:
    """Return the time as records hold it: ISO 8601, UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class SkillRecord:
    """A skill that was staged.

    Attributes:
        name: Its name.
        rel_path: Its folder below the workspace.
        digest: Hash of what was staged.
        staged_at: When.
    """

    name: str
    rel_path: str
    digest: str
    staged_at: str = field(default_factory=now)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form; a skill is always copied, never mounted."""
        return {
            "name": self.name,
            "rel_path": self.rel_path,
            "digest": self.digest,
            "mounted": False,
            "staged_at": self.staged_at,
        }


@dataclass(frozen=True, slots=True)
class InputRecord:
    """An input that was put into the workspace.

    Attributes:
        source: Where it came from, as asked for; ``from`` in JSON.
        to: Path below the workspace.
        resolved: What the source turned out to be.
        version: Version of an artifact; None for all else.
        mode: ``copy`` or ``link``.
        ts: When.
    """

    source: str
    to: str
    resolved: str
    version: int | None
    mode: str
    ts: str = field(default_factory=now)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            "from": self.source,
            "to": self.to,
            "resolved": self.resolved,
            "version": self.version,
            "mode": self.mode,
            "ts": self.ts,
        }


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """A collection of outputs.

    Attributes:
        globs: The patterns.
        saved_as: Names of the artifacts that were made.
        versions: The version of each.
        limits_hit: Whether a limit kept something back.
        ts: When.
    """

    globs: tuple[str, ...]
    saved_as: tuple[str, ...] = ()
    versions: tuple[int, ...] = ()
    limits_hit: bool = False
    ts: str = field(default_factory=now)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {
            "globs": list(self.globs),
            "saved_as": list(self.saved_as),
            "versions": list(self.versions),
            "limits_hit": self.limits_hit,
            "ts": self.ts,
        }


Record = SkillRecord | InputRecord | OutputRecord


@dataclass(frozen=True, slots=True)
class WorkspaceMetadata:
    """What happened in a workspace.

    Attributes:
        created_at: When it was made.
        updated_at: When a record was last added.
        last_access: When it was last used.
        skills: The staged skills, one of each name, the latest last.
        inputs: What was put in, in that order.
        outputs: What was collected, in that order.
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
        """Return it with the time of this use."""
        return replace(self, last_access=now())

    def with_records(self, *records: Record) -> WorkspaceMetadata:
        """Return it with more records; of too many, the oldest are left out.

        Args:
            *records: Records; that of a skill takes the place of the one before.

        Returns:
            The metadata, with the time of this change.
        """
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
        return {
            "version": VERSION,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "last_access": self.last_access,
            "skills": {skill.name: skill.to_dict() for skill in self.skills},
            "inputs": [record.to_dict() for record in self.inputs],
            "outputs": [record.to_dict() for record in self.outputs],
        }


def save_metadata(folder: int, metadata: WorkspaceMetadata) -> None:
    """Write metadata.json in place of whatever has that name, a folder included.

    Args:
        folder: The open folder of the workspace.
        metadata: What to write.

    Raises:
        OSError: When it cannot be written; the old file, if any, is as it was.
    """
    data = (json.dumps(metadata.to_dict()).encode(),)
    try:
        replace_file(folder, METADATA, data, 0o600)
    except IsADirectoryError:
        remove_tree(folder, METADATA)
        replace_file(folder, METADATA, data, 0o600)
