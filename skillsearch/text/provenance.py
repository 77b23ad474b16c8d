"""The words for which skill is meant, where it comes from and whether anybody vouches for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillsearch.text.safe_text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillsearch.types import Hit, Root, Trust

VOUCH = "skillsearch index --trust ROOT=vetted"
"""The command that vouches for a root."""
_MAX_ORIGIN_CHARS = 200


def shown_name(hit: Hit) -> str:
    """Return the name that means a hit and no other skill, on one line."""
    return hit.handle or one_line(hit.name)


def source_tag(source: Root | Hit) -> str:
    """Return ``[fetched: ORIGIN]`` or ``[project]`` for a line; nothing if a root is vetted."""
    return tag_of(source.trust, source.origin)


def tag_of(trust: Trust, origin: str = "") -> str:
    """Return the same of a root of which only this is known."""
    if trust == "vetted":
        return ""
    origin = one_line(origin, _MAX_ORIGIN_CHARS)
    return f"[{trust}: {origin}]" if origin else f"[{trust}]"


def body_warning(trust: Trust, origin: str = "") -> str:
    """Return a line to put before the body of a skill; nothing if its root is vetted."""
    if trust == "vetted":
        return ""
    place = f" ({one_line(origin, _MAX_ORIGIN_CHARS)})" if origin else ""
    return f"From a {trust} root{place}: nobody has vouched for it."


def record_of_source(source: Root | Hit) -> Mapping[str, str]:
    """Return trust and origin for a record that a model reads; nothing if a root is vetted."""
    if source.trust == "vetted":
        return {}
    origin = one_line(source.origin, _MAX_ORIGIN_CHARS)
    return {"trust": source.trust, **({"origin": origin} if origin else {})}


def left_out(count: int) -> str:
    """Tell a user how many skills were left out because nobody vouches for their roots."""
    if not count:
        return ""
    what = "1 skill of an unvetted root fits"
    if count > 1:
        what = f"{count} skills of unvetted roots fit"
    return f"{what} too; vouch for a root with `{VOUCH}`, or add --include-unvetted."


def left_out_for_model(count: int) -> str:
    """Tell a model the same, which must not vouch for anything itself."""
    if not count:
        return ""
    what = "1 skill fits" if count == 1 else f"{count} skills fit"
    return (
        f"{what} too but {'is' if count == 1 else 'are'} left out: nobody has vouched for where"
        f" {'it comes' if count == 1 else 'they come'} from. Only the user may, with `{VOUCH}`."
    )
