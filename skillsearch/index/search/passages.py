"""What a reader is shown of a skill: its metadata and the part of its body that fits best; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from skillsearch.text.tokenizer import document_terms

DESCRIPTION_CHARS = 400
PASSAGE_CHARS = 300
# Of a longer body, only this much is looked at: a millisecond's work.
BODY_CHARS = 16_000


def passage_text(name: str, description: str, passage: str) -> str:
    """Return the passage of a skill that a reader is shown with a request."""
    about = f"{name.replace('-', ' ').replace('_', ' ')}. {description[:DESCRIPTION_CHARS]}"
    return " | ".join(" ".join(part.split()) for part in (about, passage) if part.strip())


def best_passage(body: str, weights: Mapping[str, float], language: str = "") -> str:
    """Return the `heaviest` part of a body, the first of all if none has any term."""
    parts = [*passages(body[:BODY_CHARS])]
    return heaviest(parts, weights, language) or next(iter(parts), "")


def heaviest(texts: Iterable[str], weights: Mapping[str, float], language: str = "") -> str:
    """Return the text whose terms weigh most, the first of equals; empty if none has any.

    `weights` are those of the terms of a request; each counts once.
    """
    best, most = "", 0.0
    for text in texts:
        held = set(document_terms(text, language))
        if (weight := sum(weight for term, weight in weights.items() if term in held)) > most:
            best, most = text, weight
    return best


def passages(body: str) -> Iterator[str]:
    """Yield whole lines of a body, about `PASSAGE_CHARS` together; longer lines are cut."""
    held = ""
    for line in body.split("\n"):
        text = line.strip()
        if held and len(held) + len(text) >= PASSAGE_CHARS:
            yield held
            held = ""
        held = f"{held}\n{text}" if held else text
        while len(held) > PASSAGE_CHARS:
            yield held[:PASSAGE_CHARS]
            held = held[PASSAGE_CHARS:]
    if held:
        yield held
