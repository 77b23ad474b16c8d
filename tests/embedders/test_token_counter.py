"""Tests of the token counter, held against the tokenizer that it counts for."""

import string

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.embedders.embedder import TOKENIZER as FILE
from skillsearch.embedders.embedder import TokenCounter

COUNT = TokenCounter.load()
TOKENIZER = tokenizers.Tokenizer.from_file(str(FILE))
TOKENIZER.no_truncation()
TOKENIZER.no_padding()
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

ODD = (
    "aZé0 \t\n\r\x00\x0b\x0c\x1c\x7f\x85\xa0\xad\u0301\u200b\u2028\u3000"
    "ßΣİ漢字かな한글🙂-_'\u2019\u201c[]*#"
)


def directly(text):
    return len(TOKENIZER.encode(text, add_special_tokens=False))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Brew filter coffee.",
        "# Title\n\n- `code_with_names()` and **bold**; isn't it?\n\n```sh\nls -la | wc\n```\n",
        "Größe, naïve, Ångström, İstanbul, ΟΔΟΣ",
        "用电子表格生成发票。発票を作る 한국어 문서",
        "a\u0301 e\u0301! \u0301alone\x00 con\x0btrol \u200bzero",
        "x" * 101,
        string.punctuation,
    ],
)
def test_a_count_is_the_tokenizer_s(text):
    assert COUNT(text) == directly(text)


@given(st.text(st.sampled_from(ODD), max_size=60))
def test_a_count_is_the_tokenizer_s_for_odd_characters(text):
    if not any(name in text for name in SPECIAL):
        assert COUNT(text) == directly(text)


@given(st.text(max_size=200))
def test_any_text_can_be_counted(text):
    """Any character of Unicode, lone surrogates too, which UTF-8 has no place for."""
    replaced = text.encode("utf-8", "replace").decode()
    if not any(name in replaced for name in SPECIAL):
        assert COUNT(text) == directly(replaced)


def test_a_lone_surrogate_counts_as_a_replacement():
    assert COUNT("a \ud800 b") == directly("a ? b") == 3


def test_the_name_of_a_special_token_is_text():
    assert COUNT("a [MASK] b") == 5
    assert directly("a [MASK] b") == 3


def test_a_long_text_counts_as_its_parts():
    """It is looked at in parts that end where lines do, or anywhere in a line that is too long."""
    line = "unbelievable words,\nand more\n"
    assert COUNT(line * 40_000) == directly(line) * 40_000
    assert COUNT("a " * 600_000) == 600_000
    assert COUNT("-" * 1_200_000) == 1_200_000


class OneToken:
    """A tokenizer that takes every word for one token."""

    @staticmethod
    def encode(word, *, add_special_tokens):
        return [0]


def test_what_is_kept_of_words_is_bounded():
    count, most = TokenCounter(OneToken()), 1 << 18
    words = [*map(str, range(most + 5)), "0", "1", "q" * 50]
    assert count("\n".join(words)) == len(words)
    assert 0 < len(count) <= most
    assert "q" * 50 not in count


def test_counting_does_not_load_the_model(run_python):
    code = (
        "import sys; from skillsearch.embedders.embedder import TokenCounter;"
        "print(TokenCounter.load()('two words'), 'onnxruntime' in sys.modules)"
    )
    assert run_python(code).split() == ["2", "False"]
