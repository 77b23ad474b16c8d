"""Text to terms, language by language."""

import unicodedata

import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.text.languages import language_name, language_of
from skillsearch.text.tokenizer import document_terms, terms

SENTENCES = {
    "ar": (
        "أنشئ تقريرًا شهريًا من جداول المبيعات في ٣ خطوات",
        ["انش", "تقرير", "شهري", "جداول", "مبيع", "3", "خطوا"],
    ),
    "de": (
        "Prüft die Größe der Straßenkarten und verkleinert große Bilder.",
        ["pruft", "gross", "strassenkart", "verkleinert", "gross", "bild"],
    ),
    "es": (
        "Revisa las traducciones y corrige los archivos con errores.",
        ["revis", "traduccion", "corrig", "archiv", "error"],
    ),
    "fr": (
        "Cette compétence vérifie les factures et corrige les montants.",
        ["competent", "verif", "factur", "corrig", "mont"],
    ),
    "hi": ("यह कौशल तालिकाओं से मासिक रिपोर्ट बनाता है।", ["कौशल", "तालिक", "मासिक", "रिपोर्ट", "बन"]),
    "ja": (
        "サーバーの設定を確認してエラーを直します。",
        ["サー", "ーバ", "バー", "設定", "確認", "エラ", "ラー", "直", "しま", "ます"],
    ),
    "ko": ("회의 내용을 요약해요", ["회의", "내용", "용을", "요약", "약해", "해요"]),
    "ru": (
        "Навык проверяет отчёты и исправляет ошибки в таблицах.",
        ["навык", "проверя", "отчет", "исправля", "ошибк", "таблиц"],
    ),
    "th": ("แก้คำผิดในเอกสาร", ["แก้คํา", "คําผิ", "ผิด", "ดใน", "ในเอ", "เอก", "กสา", "สาร"]),
    "tr": (
        "Dosyaları sıkıştırır ve IŞIK ayarlarını düzeltir.",
        ["dosyalari", "sikistirir", "isik", "ayar", "duzel"],
    ),
    "zh": (
        "检查数据库的迁移脚本",
        ["检查", "查数", "数据", "据库", "库的", "的迁", "迁移", "移脚", "脚本"],
    ),
}


@pytest.mark.parametrize(("language", "case"), SENTENCES.items(), ids=SENTENCES)
def test_a_sentence_gives_the_terms_of_its_language(language, case):
    text, expected = case
    assert language_of(text) == language
    assert terms(text, language) == expected


STEMMED = (
    "ca fitxers cs tabulkami da rapporterne de Zusammenfassungen en summaries es resumiendo "
    "fi taulukoissa fr continuellement hu szavakat id menerjemahkan it riassumendo nl vertalingen "
    "no rapportene pl tabelami pt resumindo ro tabelelor sv rapporterna tr raporlar el πινακων "
    "hi तालिकाओं hy աղյուսակներ ne तालिकाहरू ru таблицами sr табелама ta அறிக்கைகள்"
).split()
"""Languages, each followed by a word."""


@pytest.mark.parametrize(("language", "word"), [*zip(STEMMED[::2], STEMMED[1::2], strict=True)])
def test_words_are_stemmed_by_snowball(language, word):
    stemmer = Stemmer.Stemmer(language_name(language).lower())
    assert terms(word, language) == [stemmer.stemWord(word.lower())]


@pytest.mark.parametrize("language", ["", "en", "ru", "zh", "xx", "\ud800"])
def test_latin_words_are_english_where_the_language_has_other_letters(language):
    assert terms("testing files", language) == ["test", "file"]


def test_other_scripts_follow_their_main_language_in_any_text():
    text = "a guide for пользователей and مدرسة"
    assert terms(text, "en") == terms(text, "ru") == ["guid", "пользовател", "مدرس"]


def test_ukrainian_words_are_not_stemmed_as_russian():
    assert terms("перевіряє таблиці та звіти", "uk") == ["перевіряє", "таблиці", "звіти"]


def test_a_document_gives_english_stems_too():
    """English technical terms in it, and words of a query in no known language, are found."""
    stems = document_terms("Ejecuta testing automático de servicios", "es")
    assert set(terms("testing automatico servicios")) <= set(stems)
    assert set(terms("testing automático de servicios", "es")) <= set(stems)


@given(st.text(alphabet="abcdefghi ABC.-_éñ数ка0"))
def test_an_english_document_gives_what_an_english_query_gives(text):
    assert document_terms(text, "en") == document_terms(text) == terms(text, "en") == terms(text)


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("thé", "", ["the"]),
        ("thé", "fr", ["the"]),
        ("cómo como", "es", []),
        ("té", "es", ["te"]),
        ("bán bạn", "vi", ["ban"]),
    ],
)
def test_function_words_go_with_their_accents_or_without(text, language, expected):
    assert terms(text, language) == expected


@pytest.mark.parametrize(
    ("spelling", "other"),
    [
        ("Straße", "STRASSE"),
        ("résumé", "resume"),
        ("cafe\u0301", "café"),
        ("ﬁle", "file"),
        ("①", "1"),
        ("łódź", "Lodz"),
        ("smørrebrød", "smorrebrod"),
        ("œuvre", "oeuvre"),
        ("Þór", "thor"),
        ("Đường", "duong"),
        ("İSTANBUL", "ıstanbul"),
        ("ΣΊΣΥΦΟΣ", "σισυφος"),
        ("Ёлка", "елка"),
        ("за\u0301мок", "замок"),
        ("שָׁלוֹם", "שלום"),
        ("أحمد", "احمد"),
        ("مَدْرَسَةٌ", "مدرسه"),
        ("كتـــاب", "كتاب"),
        ("موسيقى", "موسيقي"),
        ("فارسی", "فارسي"),
        ("٣٤ ۳۴ ३४", "34 34 34"),
        ("ﾊﾟｿｺﾝ", "パソコン"),
        ("ＡＰＩ", "api"),
    ],
)
def test_ways_to_write_a_word_make_no_difference(spelling, other):
    assert terms(spelling) == terms(other) != []


@pytest.mark.parametrize("pair", [("мой", "мои"), ("їх", "іх"), ("ў", "у"), ("हिन्दी", "हन्द")])
def test_marks_that_make_another_letter_stay(pair):
    """A breve or diaeresis can make a letter of its own; an Indic vowel sign is a vowel."""
    assert terms(f"x{pair[0]}") != terms(f"x{pair[1]}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # No vowel or tone is torn from its consonant.
        ("งาน", ["งาน"]),
        ("เก็บน้ำ", ["เก็บ", "บน้ํา"]),
        ("မြန်မာ", ["မြန်", "န်မာ"]),
        ("ខ្មែរ", ["ខ្មែរ"]),
        ("ພາສາລາວ", ["ພາສາ", "ສາລາ", "ລາວ"]),
        ("\u0e34\u0e34", ["\u0e34\u0e34"]),
        # Japanese is cut where the script changes.
        ("本を読むための机", ["本", "読", "むた", "ため", "めの", "机"]),
        ("ユーザー・データ", ["ユー", "ーザ", "ザー", "デー", "ータ"]),
        ("らーめん", ["らー", "ーめ", "めん"]),
        ("APIの使い方", ["api", "使", "方"]),
        # Mixtures and marks are harmless.
        ("👨\u200d👩\u200d👧 family 👍🏽", ["famili"]),
        ("\u202bמדריך\u202c guide \u2067ملف\u2069", ["מדריך", "guid", "ملف"]),
        ("数据data데이터данные", ["数据", "data", "데이", "이터", "дан"]),
        ("a" + "\u0301" * 100_000, ["a"]),
        ("\ud83d\udc4d file \udfff", ["file"]),
    ],
)
def test_a_text_in_any_script_gives_these_terms(text, expected):
    assert terms(text) == expected


@given(st.text(), st.sampled_from(["", *SENTENCES]))
def test_terms_depend_on_nothing_but_text_and_language(text, language):
    expected = terms(text, language)
    assert terms(text, language) == expected
    assert terms(unicodedata.normalize("NFC", text), language) == expected
    assert terms(unicodedata.normalize("NFKC", text), language) == expected


@given(st.text(alphabet="abcßéñçøłœæšžабвёйΣσςάαώ ěțğ-"))
def test_case_makes_no_difference(text):
    """As `str.casefold` has it; camelCase, which counts, is left out by folding first."""
    folded = text.casefold()
    assert terms(folded.upper(), "de") == terms(folded, "de")
