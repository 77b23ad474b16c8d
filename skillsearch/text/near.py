"""The names that a misspelt word may mean."""

from __future__ import annotations

from collections.abc import Iterable

_MOST_CHARS = 64
_LETTERS_TO_ERR = 4
"""A misspelt word may have one error for this many letters, and at least one."""


def near(word: str, names: Iterable[str], n: int = 3, *, by_words: bool = True) -> list[str]:
    """Return names that a word may mean, the nearest first, ignoring case.

    They differ by few letters that are left out, added, changed or swapped with the next; or, with
    `by_words`, they have all words of it.
    """
    wanted = word[:_MOST_CHARS].casefold()
    most = max(1, len(wanted) // _LETTERS_TO_ERR)
    words = set(wanted.replace("_", "-").split("-"))
    ranked = []
    for name in dict.fromkeys(names):
        folded = name[:_MOST_CHARS].casefold()
        errors = _errors(wanted, folded) if abs(len(wanted) - len(folded)) <= most else most + 1
        if errors <= most or (by_words and words <= set(folded.replace("_", "-").split("-"))):
            ranked.append((errors, name))
    return [name for _, name in sorted(ranked, key=lambda pair: pair[0])[:n]]


def _errors(word: str, name: str) -> int:
    """Return the distance of two words by optimal string alignment."""
    before: list[int] = []
    row = list(range(len(name) + 1))
    for i, letter in enumerate(word, start=1):
        before, last, row = row, before, [i]
        for j, other in enumerate(name, start=1):
            least = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == name[j - 2] and word[i - 2] == other:
                least = min(least, last[j - 2] + 1)
            row.append(least)
    return row[-1]
