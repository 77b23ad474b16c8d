"""Make corpora of any size for benchmarks and soaks, from the texts of a few real skills.

Nothing here knows the package. A million files are written by plain calls of the operating system:
a `Path` for each would take longer than the writing.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

EXCHANGED_WORDS = 0.2
SHARES = (0.5, 0.3, 0.2)
"""Shares of the texts of a made skill that its originals give."""
_SKILLS_A_FOLDER = 1000
_AGE_NS = 3_600_000_000_000
"""Younger than two seconds, a file's time proves nothing; a user's skills are older."""
_NAME_CHARS = 40


class Text(NamedTuple):
    """The texts of a skill."""

    name: str
    description: str
    body: str


class Mixture(NamedTuple):
    """A skill made of parts of others, and the numbers of these in the order of their shares."""

    sources: tuple[int, ...]
    text: Text


def perturb(text: str, words: Sequence[str], rng: random.Random) -> str:
    """Exchange some words of a text, one in ten of them for a word that no other text has."""
    changed = []
    for word in text.split(" "):
        if rng.random() >= EXCHANGED_WORDS:
            changed.append(word)
        elif rng.random() < 0.1:
            changed.append(f"{rng.choice(words)}{rng.randrange(10**6)}")
        else:
            changed.append(rng.choice(words))
    return " ".join(changed)


def mixtures(originals: Sequence[Text], size: int, *, with_body: bool = True) -> Iterator[Mixture]:
    """Yield skills made of three originals each, with words exchanged; the same in every run.

    Each original leads in turn and gives `SHARES`'s first part, two others at random the rest.
    """
    rng, of_bodies = random.Random(0), random.Random(1)  # so names and descriptions need no bodies
    words = vocabulary(originals)
    for number in range(size):
        sources = (number % len(originals), *(rng.randrange(len(originals)) for _ in SHARES[1:]))
        skills = [originals[source] for source in sources]
        about = mix([skill.description.split() for skill in skills])
        name = f"{skills[0].name[:_NAME_CHARS].strip()}-{number}"
        body = f"# {name}\n"
        if with_body:
            paragraphs = mix([skill.body.split("\n\n") for skill in skills])
            body = perturb("\n\n".join(paragraphs), words, of_bodies)
        # Parts of descriptions written without spaces may come to nothing.
        about_text = " ".join(perturb(" ".join(about), words, rng).split()) or skills[0].description
        yield Mixture(sources, Text(name, about_text, body))


def mix(parts: Sequence[Sequence[str]]) -> list[str]:
    """Take from each list its share, each going on where the one before ended.

    So the result is about as long as the lists are.
    """
    taken: list[str] = []
    begin = 0.0
    for part, share in zip(parts, SHARES, strict=True):
        end = begin + share
        taken += part[round(begin * len(part)) : round(end * len(part))]
        begin = end
    return taken


def vocabulary(texts: Iterable[Text]) -> list[str]:
    """Return the words of bodies, repeats kept, so that the common ones are drawn often."""
    return [word for text in texts for word in text.body.split() if word.isalpha()]


def skill_md(text: Text) -> str:
    """Return the SKILL.md of a skill."""
    name, about = (json.dumps(value, ensure_ascii=False) for value in text[:2])
    return f"---\nname: {name}\ndescription: {about}\n---\n\n{text.body}\n"


def write_skills(root: str, texts: Iterable[Text]) -> int:
    """Write skills that look an hour old, a thousand to a folder.

    Args:
        root: Folder to make.
        texts: The skills.

    Returns:
        How many there are.
    """
    written_ns = time.time_ns() - _AGE_NS
    count = 0
    for count, text in enumerate(texts, start=1):
        group = f"{root}/{(count - 1) // _SKILLS_A_FOLDER:04}"
        if count % _SKILLS_A_FOLDER == 1:
            os.makedirs(group)  # noqa: PTH103 - see the module
        folder = f"{group}/{re.sub(r'[^0-9A-Za-z]+', '-', text.name)}"
        os.mkdir(folder)  # noqa: PTH102
        write_file(f"{folder}/SKILL.md", skill_md(text).encode("utf-8", "replace"), written_ns)
        os.utime(folder, ns=(written_ns, written_ns))
    for entry in os.scandir(root):
        os.utime(entry.path, ns=(written_ns, written_ns))
    os.utime(root, ns=(written_ns, written_ns))
    return count


def write_file(path: str, data: bytes, modified_ns: int | None = None) -> None:
    """Write a file, over what is there, and maybe set its modification time."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(handle, data)
        if modified_ns is not None:
            os.utime(handle, ns=(modified_ns, modified_ns))
    finally:
        os.close(handle)
