"""An explanation in words, for tables and for plain text."""

from __future__ import annotations

from skillsearch.types import Explanation


def explanation(explain: Explanation) -> list[tuple[str, str]]:
    """Put an explanation into labelled lines.

    Args:
        explain: Why a hit has its score.

    Returns:
        Pairs of a label and a text: the features by what they add to the log-odds, the matched
        terms by field, and the best section of the body.
    """
    lines = [("why", _features(explain))]
    lines += [
        (f"in {field}", ", ".join(terms)) for field, terms in explain.matched_terms.items() if terms
    ]
    if explain.section or explain.snippet:
        lines.append(("section", f"{explain.section or '(top)'}: {explain.snippet}"))
    return lines


def _features(explain: Explanation) -> str:
    """List the features that speak for a hit, the strongest first."""
    added = sorted(explain.contributions.items(), key=lambda item: -item[1])
    return ", ".join(
        f"{name} {explain.features[name]:.2f} adds {value:.2f}" for name, value in added if value
    )
