"""The arguments of the tools of a workspace, and the names of skills in their definitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, StringConstraints, create_model

from skillsearch.agents.tools.tool import ToolArguments

MAX_DOCS = 200
"""Documents that one call may name."""

_MAX_NAME_CHARS = 1024
_SKILL = "Name of the skill, in any case."

Name = Annotated[str, StringConstraints(max_length=_MAX_NAME_CHARS)]
"""A name or a path."""


class OfSkillArgs(ToolArguments):
    """Arguments of ``skill_list_docs``; the others begin with them."""

    skill: Name = Field(description=_SKILL)


class LoadArgs(OfSkillArgs):
    """Arguments of ``skill_load``."""

    docs: list[Name] | None = Field(
        default=None,
        max_length=MAX_DOCS,
        description="Paths of documents, as skill_list_docs gives them.",
    )
    include_all_docs: bool = Field(default=False, description="True for all documents instead.")


class SelectDocsArgs(LoadArgs):
    """Arguments of ``skill_select_docs``."""

    # Shown but not enforced, as in trpc-agent-go: any other word is replace.
    mode: str = Field(
        default="replace",
        description="What the named documents do to the selection.",
        json_schema_extra={"enum": ["add", "replace", "clear"]},
    )


def naming(arguments: type[OfSkillArgs], names: Sequence[str] | None) -> type[OfSkillArgs]:
    """Give arguments an enum of the skills.

    Args:
        arguments: The arguments.
        names: The names of all skills; None where they are too many.

    Returns:
        The same arguments, their ``skill`` with the enum where there are names for it.
    """
    if not names:
        return arguments
    # Shown but not enforced: the tool knows names in any case, and says which come near.
    skill = Field(description=_SKILL, json_schema_extra={"enum": list(names)})
    return create_model(arguments.__name__, __base__=arguments, skill=(Name, skill))
