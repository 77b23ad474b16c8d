"""The words for what an answer says: what fits, what may, or that none does."""

MAY_FIT = "May fit: read before use"
ONLY_MAY_FIT = "Nothing surely fits; these may: read before use"
"""For people; below the hits, and instead of them."""

NO_HIT = "No skill fits; go on without one."
PERHAPS = (
    "None surely fits. These may: judge by the descriptions, read one before use, and load none if"
    " none fits."
)
PERHAPS_TOO = "These may fit too: judge by the descriptions, and read one before use."


def note_for_model(*, fits: bool, perhaps: bool) -> str:
    """Return what a model is told of an answer beside the skills; nothing if all of them fit."""
    if perhaps:
        return PERHAPS_TOO if fits else PERHAPS
    return "" if fits else NO_HIT
