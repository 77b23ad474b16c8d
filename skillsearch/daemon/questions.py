"""What the daemon is asked and answers, as JSON has it; its clients need this for types alone."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

Method: TypeAlias = Literal["search", "overview", "status", "stop"]


class SearchQuestion(TypedDict):
    """A query, the absolute folder of the index to search, and how.

    With `refresh` changed files are indexed first. `usage` is the log to keep, as `UsageLog` writes
    it; `options` are the fields of `SearchOptions`.
    """

    query: str
    index_dir: str
    refresh: bool
    usage: str
    options: dict[str, object]


class OverviewQuestion(TypedDict):
    """A prompt, how many skills to offer at most, and where the settings come from.

    They are read from `folder` and `variables`; without an `index_dir` they name it. Answers
    of these `states` are kept as usage, if the settings keep any.
    """

    prompt: str
    n: int
    include_unvetted: bool
    index_dir: str | None
    folder: str
    states: list[str]
    variables: dict[str, str]


class Overview(TypedDict):
    """The offered skills by key, those that fit first; how many fit, or are unvetted and left out.

    `notes` are for the user.
    """

    offers: dict[str, str]
    fits: int
    unvetted: int
    notes: list[str]
