"""The tokenizer over arrays, by hand-made pieces and by those of the packaged model."""

import itertools
import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.embedders.embedder import PACKAGED_MODEL
from skillsearch.embedders.unigram import SPACE, UNKNOWN, UNKNOWN_PENALTY, UnigramTokenizer
from skillsearch.embedders.word_table import read_parts

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "word_file.py"))
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "a", "b", "▁a", "ab", "▁ab", "ba", "aba", "bb"]
SCORES = [0, 0, 0, 0, -3, -4, -4.5, -4.25, -5, -6.5, -6, -8.75, -8.5]


def tables_of(file):
    return SCRIPT["build_tables"](file.pieces(), file.scores, file.folds())


class SmallFile:
    """The part of a weight file that the tables are made of, with thirteen pieces."""

    scores = np.array(SCORES, dtype=np.float32)

    def pieces(self):
        return PIECES

    def folds(self):
        return {0x200B: "", 9: " ", 0xFF41: "a"}


@pytest.fixture(scope="module")
def real():
    return UnigramTokenizer(read_parts(PACKAGED_MODEL / "words.bin"))


def best_score(word):
    scores = dict(zip(PIECES[4:], SCORES[4:], strict=True))
    totals = []
    for cuts in itertools.product([False, True], repeat=len(word) - 1):
        ends = [0, *(n + 1 for n, cut in enumerate(cuts) if cut), len(word)]
        parts = [word[a:b] for a, b in itertools.pairwise(ends)]
        worst = min(SCORES) - UNKNOWN_PENALTY
        if all(part in scores or len(part) == 1 for part in parts):
            totals.append(sum(scores.get(part, worst) for part in parts))
    return max(totals)


@given(st.text(alphabet="abx", min_size=1, max_size=9))
def test_no_other_way_to_cut_a_word_scores_more(word):
    ids, cut = UnigramTokenizer(tables_of(SmallFile())).encode(word, 99)
    spelled = "".join("x" if number == UNKNOWN else PIECES[number] for number in ids)
    worst = min(SCORES) - UNKNOWN_PENALTY
    total = sum(worst if number == UNKNOWN else SCORES[number] for number in ids)
    assert (spelled, total, cut) == (SPACE + word, best_score(SPACE + word), False)


@given(st.lists(st.text(alphabet="abx", min_size=1, max_size=9), max_size=8))
def test_a_word_has_the_same_pieces_wherever_it_stands(words):
    tables = tables_of(SmallFile())
    at_once = UnigramTokenizer(tables)
    expected = [n for word in words for n in UnigramTokenizer(tables).encode(word, 99)[0]]
    text = " ".join(words)
    assert at_once.encode(text, 999)[0] == at_once.encode(text, 999)[0] == expected


def test_folds_are_made_before_words_are_parted():
    """A tab parts words, a blank of no width does not, and full width is plain."""
    tokenizer = UnigramTokenizer(tables_of(SmallFile()))
    assert tokenizer.encode("a\u200bb\t\uff41", 9) == tokenizer.encode(" ab  a ", 9)
    assert tokenizer.encode("ab a", 9)[0] != tokenizer.encode("aba", 9)[0]


@pytest.mark.parametrize("text", ["", " ", "\t \u200b"])
def test_a_text_without_visible_characters_has_no_ids(text):
    assert UnigramTokenizer(tables_of(SmallFile())).encode(text, 9) == ([], False)


@pytest.mark.parametrize(("limit", "cut"), [(1, True), (3, True), (4, False), (9, False)])
def test_more_ids_than_wanted_are_cut_and_told(limit, cut):
    tokenizer = UnigramTokenizer(tables_of(SmallFile()))
    whole, _ = tokenizer.encode("bb bb", 99)
    assert len(whole) == 4
    assert tokenizer.encode("bb bb", limit) == (whole[:limit], cut)


def test_the_languages_that_it_was_tuned_for_have_no_unknown_pieces(real):
    path = Path(__file__).parents[2] / "scripts" / "parallel_sentences.json"
    texts = [text for texts in json.loads(path.read_bytes()).values() for text in texts]
    assert len(texts) > 300
    assert not [text for text in texts if UNKNOWN in real.encode(text, 999)[0]]


def test_decomposed_text_has_the_ids_of_composed_text(real):
    """A file name of macOS is read like anything else."""
    assert real.encode("cafe\u0301 か\u3099", 99) == real.encode("café が", 99)


def test_names_of_special_pieces_are_text(real):
    ids, _ = real.encode("<s> </s> <pad> <unk> <mask>", 99)
    assert not {0, 1, 2, 3} & set(ids)


@given(st.text(max_size=300), st.integers(1, 200))
def test_any_text_gives_known_ids_within_the_limit(real, text, limit):
    text = text.encode("utf-8", "replace").decode()
    ids, cut = real.encode(text, limit)
    whole, _ = real.encode(text[: 16 * limit], 9999)  # further it does not read
    assert (ids, cut) == (whole[:limit], len(whole) > limit or len(text) > 16 * limit)
    assert all(3 <= number < 140_000 for number in ids)


@pytest.mark.parametrize("unit", ["词", "x", "ﷺ", "\u0301\u0323", "a ", "🎉", "\u200b"])
@pytest.mark.timeout(120)
def test_a_megabyte_costs_no_more_than_its_head(real, unit):
    text = "a" + unit * (1_000_000 // len(unit))
    ids, cut = real.encode(text, 128)
    assert (len(ids) <= 128, cut) == (True, True)
    assert real.encode(text[:4096], 128) == (ids, True)
