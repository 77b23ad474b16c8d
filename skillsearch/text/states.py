"""What an answer shows: skills that fit, skills that may fit by the bound of the face, or none.

One rule for every face, which has only its bound; below a threshold that somebody gave, nothing is
shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skillsearch.types.answers import Face

BOUNDS: Mapping[Face, float] = {"list": 0.3, "prompt": 0.3, "terminal": 0.2, "page": 0.1}
"""Lowest score of a skill that may fit, by face.

list: what the documents say that first described such a search. prompt: 84 % of foreign requests
are told that nothing fits, and 82 % of the right skills are shown. terminal and page show 84 and
89 % of the right ones, and tell 78 and 56 % so (`fit_fusion.py`, left out of the fit).
"""
NEAR = 0.5
"""If other skills fit, one that may fit has at least this share of the best score.

It takes half a point from the right ones shown, and a quarter of all that a terminal shows.
"""

MAY_FIT = "May fit: read before use"
ONLY_MAY_FIT = "Nothing surely fits; these may: read before use"
"""For people; below the hits, and instead of them."""

NO_HIT = "No skill fits; go on without one."
PERHAPS = (
    "None surely fits. These may: judge by the descriptions, read one before use, and load none if"
    " none fits."
)
PERHAPS_TOO = "These may fit too: judge by the descriptions, and read one before use."


def count_shown(scores: Sequence[float], threshold: float, bound: float) -> tuple[int, int]:
    """Return how many hits of an answer fit, and how many it shows: these, and those that may.

    The scores descend. What fits is always shown.
    """
    fitting = sum(score >= threshold for score in scores)
    least = max(bound, NEAR * scores[0]) if fitting else bound
    return fitting, max(fitting, sum(score >= least for score in scores))


def note_for_model(*, fits: bool, perhaps: bool) -> str:
    """Return the note to a model that goes with an answer; empty if all of its skills fit."""
    if perhaps:
        return PERHAPS_TOO if fits else PERHAPS
    return "" if fits else NO_HIT
