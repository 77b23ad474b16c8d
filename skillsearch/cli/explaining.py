"""An explanation in words, for tables and for plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skillsearch.types import ChannelVote, Explanation


def channel_lines(votes: Sequence[ChannelVote]) -> list[tuple[str, str]]:
    """Put the votes of all channels into labelled lines: how far each is trusted, and why."""
    return [("channel", f"{vote.channel} {vote.trust:.2f}: {vote.reason}") for vote in votes]


def explanation(explain: Explanation) -> list[tuple[str, str]]:
    """Put an explanation into labelled lines.

    Args:
        explain: Why a hit has its score.

    Returns:
        Pairs of a label and a text: the features by what they add to the ranking sum, the evidence
        for the best hit by what it adds to the log-odds, how far behind the best this hit is, the
        matched terms by field, and the best section of the body.
    """
    lines = [("why", _added(explain.contributions, explain.features))]
    lines.append(("confidence", _confidence(explain)))
    lines += [
        (f"in {field}", ", ".join(terms)) for field, terms in explain.matched_terms.items() if terms
    ]
    if explain.section or explain.snippet:
        lines.append(("section", f"{explain.section or '(top)'}: {explain.snippet}"))
    return lines


def _added(parts: Mapping[str, float], values: Mapping[str, float]) -> str:
    """List what adds to the ranking sum, the most first."""
    added = sorted(parts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {values[name]:.2f} adds {part:.2f}" for name, part in added if part)


def _confidence(explain: Explanation) -> str:
    """List what adds to the log-odds of the best hit, the most first, and this hit's lag."""
    added = sorted(explain.confidence.items(), key=lambda item: -item[1])
    parts = [f"{name} {part:+.2f}" for name, part in added if round(part, 2)]
    behind = [f"behind the best {-explain.behind:+.2f}"] if round(explain.behind, 2) else []
    return ", ".join([*parts, *behind])
