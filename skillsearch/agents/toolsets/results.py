"""What a tool that can fail by design answers with."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ToolResult(BaseModel):
    """Success and output of a call; of one that failed, why.

    Attributes:
        success: False where the tool could not do what it was asked for.
        output: What it gave; empty where it failed.
        error: What was wrong, for the model; None where nothing was.
    """

    model_config = ConfigDict(frozen=True)

    success: bool
    output: str = ""
    error: str | None = None
