"""Text to terms."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillsearch.text.tokenizer import bigrams, is_bigram, normalized, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Latin words are folded, stemmed and freed of stop words.
        ("", []),
        ("  \n\t ", []),
        ("PDF", ["pdf"]),
        ("Merging merged merges MERGE", ["merg", "merg", "merg", "merg"]),
        ("the and of to is", []),
        ("Don't panic", ["panic"]),
        ("run it, then stop.", ["run", "stop"]),
        ("is as", []),
        ("aws", ["aws"]),
        ("2024 v2 3d", ["2024", "v2", "3d"]),
        ("one_two-three/four.five", ["one", "two", "three", "four", "five"]),
        # Identifiers give their parts and the whole.
        ("camelCase", ["camelcas", "camel", "case"]),
        ("HTTPServerError", ["httpservererror", "http", "server", "error"]),
        ("readHTTP2Body", ["readhttp2body", "read", "http", "bodi"]),
        ("parseJSON", ["parsejson", "pars", "json"]),
        ("GitHub", ["github"]),
        ("JavaScript", ["javascript"]),
        ("kebab-case-name", ["kebab", "case", "name"]),
        ("snake_case", ["snake", "case"]),
        ("iOS", ["ios", "os"]),
        ("aB", ["ab"]),
        # Symbols count only where they name a language.
        ("C++ and C# and F#", ["c++", "c#", "f#"]),
        (".NET core", [".net", "core"]),
        ("ASP.NET", ["asp", "net"]),
        ("abc++", ["abc"]),
        ("c", ["c"]),
        ("100% & @home #1", ["100", "home", "1"]),
        ("-_-", []),
        ("🚀✨", []),
        # Hostile characters are harmless.
        ("\ud800\udfff", []),
        ("key\ud800word", ["key", "word"]),
        ("nul\0byte", ["nul", "byte"]),
        ("a\u202eb\u200bc\x1b[31m", ["b", "c", "31m"]),
        ("x" * 100, ["x" * 64]),
        ("é" * 100, ["e" * 64]),
        ("\u0301\u0301", []),
    ],
)
def test_a_text_gives_these_terms(text, expected):
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("数据库", ["数据", "据库"]),
        ("字", ["字"]),
        ("ひらがなカタ", ["ひら", "らが", "がな", "カタ"]),
        ("한국어 번역", ["한국", "국어", "번역"]),
        ("使用Python写代码", ["使用", "python", "写代", "代码"]),
        ("ﾃｽﾄ", ["テス", "スト"]),
        ("ภาษาไทย", ["ภาษา", "ษาไท", "ไทย"]),
        ("東京、大阪", ["東京", "大阪"]),
        ("\U00020000\U00020001", ["\U00020000\U00020001"]),
    ],
)
def test_scripts_without_spaces_give_bigrams(text, expected):
    assert terms(text) == expected
    assert [is_bigram(term) for term in terms(text)] == [not t.isascii() for t in expected]


def test_bigrams_overlap():
    assert bigrams("abcd") == ["ab", "bc", "cd"]
    assert bigrams(["ab", "c", "de"]) == ["abc", "cde"]


@given(st.text())
@example("İ" * 70)
def test_any_text_gives_terms_that_are_never_empty_or_long(text):
    tokens = terms(text)
    assert all(tokens)
    assert max(map(len, tokens), default=0) <= 192


@given(st.lists(st.text(alphabet="abcXYZéß数据한c+#.-_ 19"), max_size=6))
def test_texts_joined_by_a_blank_line_give_the_terms_of_each(parts):
    assert terms("\n\n".join(parts)) == [term for part in parts for term in terms(part)]


HOSTILE = {
    "letters": "a",
    "humps": "aB",
    "words": "ab ",
    "capitals": "A",
    "bigrams": "字",
    "surrogates": "\ud800",
    "accents": "é",
    "marks of two classes": "\u0301\u0327",
    "marks that are letters": "\uff9e\u0338",
    "plus signs": "c+",
    "long forms": "\ufdfa",
    "stacked vowels": "\u0e40\u0e01\u0e34",
    "vowels without a consonant": "\u0e34",
    "joined consonants": "\u1000\u1039",
    "Arabic points": "\u0628\u064e\u0640",
    "emoji joined": "\U0001f468\u200d\U0001f469\u200d",
    "changes of kana": "\u3042\u30a2",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.timeout(120)
@pytest.mark.slow
def test_a_megabyte_of_anything_takes_linear_time(piece):
    assert terms(piece * (1_000_000 // len(piece.encode("utf-8", "surrogatepass")))) is not None


@pytest.mark.timeout(120)
def test_a_long_run_of_unsorted_marks_does_not_stop_the_clock():
    """Sorting 100,000 combining marks would take a minute."""
    assert terms("key a" + "\u0301" * 50_000 + "\u0327" * 50_000 + " word")[-1] == "word"


@given(st.text())
def test_normal_form_is_that_of_unicode(text):
    assert normalized(text) == unicodedata.normalize("NFKC", text)
