"""Detects the encoding of text that is not UTF-8 by the characters that running text has."""

from __future__ import annotations

import codecs
from pathlib import Path

from skillsearch.fast_start.patterns import lazy_pattern

_MARKS = (
    *((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32")),
    *((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")),
)
_WESTERN = "cp1252"
_CYRILLIC = {"cp1251": "Windows-1251", "koi8_r": "KOI8-R"}
_LEGACY = {
    **{"gb18030": "GBK", "big5hkscs": "Big5", "cp949": "EUC-KR"},
    **{"cp932": "Shift-JIS", "euc_jp": "EUC-JP"},
    **_CYRILLIC,
}
"""Names of encodings by codec."""
_COMMON = frozenset(Path(__file__).with_suffix(".txt").read_text("utf-8")) - {"\n"}
"""In running Chinese, Japanese, Korean or Russian, the most of all that is not ASCII."""
_TOLD_BYTES = 16 * 1024
_LEAST_SHARE = 0.35
_LEAST_CYRILLIC = 0.7
"""Of other languages, half of the bytes look like its letters."""
_HIGH = lazy_pattern(rb"[\x80-\xff]+")
_LEAST_IN_RUNS = 0.3


def decode(data: bytes) -> tuple[str, str]:
    """Return a text, without its byte order mark, and its encoding if that is not UTF-8.

    UTF-16 and UTF-32 are known by their marks or their zeros. A text that is mostly UTF-8 is read
    as that; else the encoding counts in which most characters are common ones, or Windows-1252.
    """
    name = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    if not name and 0 in data[:4]:
        zeros = data[0:2].find(0), data[2:4].find(0)
        name = {(0, 0): "utf-16-be", (1, 1): "utf-16-le"}.get(zeros, "")
    if name:
        return data.decode(name, "replace"), name[:6].upper()
    text = data.decode("utf-8", "replace")
    if not (damages := text.count("\ufffd") - data.count("\ufffd".encode())):
        is_shifted = b"\x1b$" in data
        return (data.decode("iso2022_jp", "replace"), "ISO-2022-JP") if is_shifted else (text, "")
    if 2 * damages < sum(char > "\x7f" for char in text):
        return text, "damaged UTF-8"
    name = _legacy(data)
    return data.decode(name, "replace"), _LEGACY.get(name, "Windows-1252")


def _legacy(data: bytes) -> str:
    """Return the encoding of bytes that are not UTF-8; Western letters seldom stand in a row."""
    sample = b"\n".join(line for line in data.split(b"\n") if not line.isascii())[:_TOLD_BYTES]
    runs = list(map(len, _HIGH.findall(sample)))
    is_western = sum(run for run in runs if run > 2) < _LEAST_IN_RUNS * sum(runs)
    best, most = _WESTERN, _LEAST_SHARE
    for name in () if is_western else _LEGACY:
        text = sample.decode(name, "replace")
        count = max(1, sum(char > "\x7f" for char in text))
        share = (sum(char in _COMMON for char in text) - text.count("\ufffd")) / count
        is_likely = name not in _CYRILLIC or share > _LEAST_CYRILLIC
        if share > most and is_likely:
            best, most = name, share
    return best
