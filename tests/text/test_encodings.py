"""Texts that are not UTF-8 are read as what they are."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.text.encodings import decode

CHINESE = "填写表单，处理文件，并生成报告。用户需要时使用。\n# 标题\n正文说明如何操作。"
TAIWANESE = "填寫表單，處理檔案，並產生報告。使用者需要時使用。\n# 標題\n內容在這裡。"
JAPANESE = "フォームに記入し、レポートを作成します。\n# 見出し\n必要なときに使います。"
KOREAN = "양식을 작성하고 보고서를 만듭니다. 사용자가 필요할 때 사용합니다.\n# 제목"
RUSSIAN = "Заполняет формы и создаёт отчёты, когда это нужно пользователю.\n# Заголовок"
GERMAN = "Füllt Formulare aus – für Übersichten, Größen und „Spaß“.\n# Prüfung"
FRENCH = "Remplit des formulaires là où c’est nécessaire ; prêt à l’emploi, ça et là."
ENGLISH = "Fills in forms – “as people do”, and doesn’t stop… 20 % off"

TEXTS = [
    *((CHINESE, "gbk", "GBK"), (CHINESE, "gb2312", "GBK"), (CHINESE, "gb18030", "GBK")),
    *((TAIWANESE, "big5", "Big5"), (TAIWANESE, "cp950", "Big5")),
    *((JAPANESE, "shift_jis", "Shift-JIS"), (JAPANESE, "cp932", "Shift-JIS")),
    *((JAPANESE, "euc_jp", "EUC-JP"), (JAPANESE, "iso2022_jp", "ISO-2022-JP")),
    *((KOREAN, "euc_kr", "EUC-KR"), (KOREAN, "cp949", "EUC-KR")),
    *((RUSSIAN, "cp1251", "Windows-1251"), (RUSSIAN, "koi8_r", "KOI8-R")),
    *((text, "cp1252", "Windows-1252") for text in (GERMAN, FRENCH, ENGLISH)),
    (FRENCH.replace("’", "'"), "latin-1", "Windows-1252"),
    *((text, "utf-16", "UTF-16") for text in (CHINESE, RUSSIAN, GERMAN)),
    *((GERMAN, form, "UTF-16") for form in ("utf-16-le", "utf-16-be")),
    *((CHINESE, "utf-32", "UTF-32"), (GERMAN, "utf-32", "UTF-32")),
]


@pytest.mark.parametrize(("text", "codec", "name"), TEXTS)
def test_a_text_is_read_in_the_encoding_it_was_written_in(text, codec, name):
    for whole in (
        f"---\nname: forms\ndescription: {text}\n---\n",
        f"---\n{text}\n" + "run()\n" * 99,
    ):
        assert decode(whole.encode(codec)) == (whole, name)


@given(st.text())
def test_utf8_is_utf8(text):
    data = text.encode("utf-8", "replace")
    if b"\x1b$" not in data and not data[:4].count(0) and not data.startswith(codecs.BOM_UTF8):
        assert decode(data) == (data.decode(), "")


@given(st.binary())
def test_any_bytes_have_a_text(data):
    text, _ = decode(data)
    text.encode("utf-8", "surrogatepass")


def test_a_damaged_utf8_text_stays_one():
    data = CHINESE.encode()
    assert decode(data[:-1] + b"\xff") == (CHINESE[:-1] + "\ufffd\ufffd", "damaged UTF-8")
