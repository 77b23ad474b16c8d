"""The words for which skill is meant, what it stands for, where it is from, who vouches for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from skillsearch.text.safe_text import listed, one_line
from skillsearch.types.answers import MOST_NAMED, Hit
from skillsearch.types.skills import SHOWN_NAME_CHARS, Root, Trust

VOUCH = "skillsearch index --trust ROOT=vetted"
"""The command that vouches for a root."""


def vouch_for(root: Root, option: str = "") -> str:
    """Return the command that vouches for a root; the `option` names the index, if it has to."""
    return f"{VOUCH.replace('ROOT', shlex.quote(str(root.path)))}{option}"


def shown_name(hit: Hit) -> str:
    """Return the name that means a hit and no other skill, on one line."""
    return hit.handle or one_line(hit.name)


def source_tag(source: Root | Hit) -> str:
    """Return what to say of a skill on a line: its `tag_of`, and the copies that it stands for."""
    family = family_of(source)
    return " ".join(filter(None, (tag_of(source.trust, source.origin), family and f"[{family}]")))


def family_of(source: Root | Hit) -> str:
    """Return ``also OTHER, a copy`` of a hit that has near-copies, by names that load them.

    Its namesakes in later roots are not told, since they are hidden on purpose.
    """
    if not isinstance(source, Hit) or source.family is None:
        return ""
    members = source.family.members
    named = [near for near in members if near.root == source.root or "name" in near.differs]
    names = listed((one_line(member.shown, SHOWN_NAME_CHARS) for member in named), MOST_NAMED)
    return f"also {names}, {'a copy' if len(named) == 1 else 'copies'}" if named else ""


def tag_of(trust: Trust, origin: str = "") -> str:
    """Return ``[fetched: ORIGIN]`` or ``[project]``; nothing if a root is vetted."""
    if trust == "vetted":
        return ""
    origin = one_line(origin, SHOWN_NAME_CHARS)
    return f"[{trust}: {origin}]" if origin else f"[{trust}]"


def body_warning(trust: Trust, origin: str = "") -> str:
    """Return a line to put before the body of a skill; nothing if its root is vetted."""
    if trust == "vetted":
        return ""
    source = f" ({one_line(origin, SHOWN_NAME_CHARS)})" if origin else ""
    return f"From a {trust} root{source}: nobody has vouched for it."


def record_of_source(source: Root | Hit) -> Mapping[str, str]:
    """Return the same for a record that a model reads: trust and origin, and ``also``."""
    is_vetted, family = source.trust == "vetted", family_of(source)
    origin = "" if is_vetted else one_line(source.origin, SHOWN_NAME_CHARS)
    record = {"trust": "" if is_vetted else source.trust, "origin": origin, "also": family}
    return {key: text for key, text in record.items() if text}


def left_out(count: int, option: str = "") -> str:
    """Tell a user how many skills were left out because nobody vouches for their roots.

    The `option` names the index in a command, if it has to.
    """
    if not count:
        return ""
    single = "1 skill of an unvetted root fits"
    what = f"{count} skills of unvetted roots fit" if count > 1 else single
    return f"{what} too; vouch for a root with `{VOUCH}{option}`, or add --include-unvetted."


def left_out_for_model(count: int) -> str:
    """Tell a model the same, which must not vouch for anything itself."""
    if not count:
        return ""
    what = "1 skill fits" if count == 1 else f"{count} skills fit"
    return (
        f"{what} too but {'is' if count == 1 else 'are'} left out: nobody has vouched for where"
        f" {'it comes' if count == 1 else 'they come'} from. Only the user may, with `{VOUCH}`."
    )
