"""Which language a text is in, and what it is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.text.languages import (
    FUNCTION_WORDS,
    REQUEST_WORDS,
    SCRIPTS,
    TELLING_ENDINGS,
    TELLING_LETTERS,
    language_name,
    language_of,
    word_language,
)

SENTENCES = {
    "ar": "تساعدك هذه المهارة على كتابة تقرير شهري من جداول المبيعات.",
    "bg": "Това умение ще ви помогне да проверите кода, преди да го публикувате.",
    "bn": "এই দক্ষতা একটি মাসিক প্রতিবেদন লিখতে সাহায্য করে।",
    "ca": "Aquesta habilitat serveix per revisar els documents i també les taules.",
    "cs": "Tato dovednost kontroluje soubory, které jsou příliš velké pro odeslání.",
    "da": "Bruges når man skal have et resumé af en rapport, som ikke bliver for langt.",
    "de": "Diese Fähigkeit prüft, ob die Tabellen vollständig sind und nichts fehlt.",
    "el": "Αυτή η δεξιότητα γράφει μια μηνιαία αναφορά.",
    "en": "This skill checks whether the tables are complete and nothing is missing.",
    "es": "Esta habilidad comprueba si las tablas están completas y no falta nada.",
    "fa": "این مهارت به شما کمک می‌کند که گزارش ماهانه را بنویسید.",
    "fi": "Tämä taito tarkistaa, että taulukot ovat valmiita ja mitään ei puutu.",
    "fr": "Cette compétence vérifie que les tableaux sont complets et que rien ne manque.",
    "he": "המיומנות הזאת כותבת דוח חודשי מטבלאות המכירות.",
    "hi": "यह कौशल बिक्री की तालिकाओं से मासिक रिपोर्ट लिखता है।",
    "hu": "Ez a készség megnézi, hogy a táblázatok már teljesek és nem hiányzik semmi.",
    "id": "Keahlian ini memeriksa apakah tabel sudah lengkap dan tidak ada yang hilang.",
    "it": "Questa abilità controlla che le tabelle siano complete e che non manchi nulla.",
    "ja": "このスキルは売上の表から月次の報告書を作成します。",
    "ka": "ეს უნარი წერს ყოველთვიურ ანგარიშს.",
    "km": "ជំនាញនេះសរសេររបាយការណ៍ប្រចាំខែ។",
    "ko": "이 스킬은 매출 표에서 월간 보고서를 작성합니다.",
    "lo": "ທັກສະນີ້ຂຽນບົດລາຍງານປະຈໍາເດືອນ",
    "my": "ဤကျွမ်းကျင်မှုသည် လစဉ်အစီရင်ခံစာကို ရေးသည်။",
    "nl": "Deze vaardigheid kijkt of de tabellen volledig zijn en of er niets ontbreekt.",
    "no": "Brukes når du skal lese en rapport og også vil ha noen ord etter hva som ble sagt.",
    "pl": "Ta umiejętność sprawdza, czy tabele są pełne i czy niczego nie brakuje.",
    "pt": "Esta habilidade verifica se as tabelas estão completas e não falta nada.",
    "ro": "Această abilitate verifică dacă tabelele sunt complete și nu lipsește nimic.",
    "ru": "Этот навык проверяет, что таблицы полны и ничего не пропущено.",
    "sr": "Ова вештина проверава да ли су табеле потпуне и шта још недостаје.",
    "sv": "Den här färdigheten kontrollerar att tabellerna är fullständiga och inte saknar något.",
    "ta": "இந்தத் திறன் மாதாந்திர அறிக்கையை எழுதுகிறது.",
    "th": "ทักษะนี้เขียนรายงานประจำเดือนจากตารางยอดขาย",
    "tr": "Bu beceri, tabloların eksiksiz olup olmadığını ve her şeyin tamam olduğunu denetler.",
    "uk": "Ця навичка перевіряє, чи таблиці повні й чи нічого не пропущено.",
    "ur": "یہ مہارت آپ کے لیے ماہانہ رپورٹ لکھتی ہے اور اسے جانچتی ہے۔",
    "vi": "Kỹ năng này kiểm tra xem các bảng đã đầy đủ và không thiếu gì.",
    "zh": "这个技能根据销售表格写出每月报告。",
}


@pytest.mark.parametrize(("language", "sentence"), SENTENCES.items(), ids=SENTENCES)
def test_the_language_of_a_sentence_is_told(language, sentence):
    assert language_of(sentence) == language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        # Short queries.
        ("how do I merge two pdf files", "en"),
        ("crear una presentación", "es"),
        ("criar uma apresentação", "pt"),
        ("créer une présentation", "fr"),
        ("eine Präsentation erstellen", "de"),
        ("iki dosyayı birleştir", "tr"),
        ("tạo bài thuyết trình", "vi"),
        ("przetłumacz tekst na angielski", "pl"),
        ("написать тесты", "ru"),
        ("合并两个pdf文件", "zh"),
        ("議事録を作る", "ja"),
        ("動画検索", "ja"),
        ("여행 계획", "ko"),
        ("แปลภาษา", "th"),
        ("मासिक रिपोर्ट", "hi"),
        # Nothing is guessed where nothing tells.
        ("", ""),
        ("kubernetes", ""),
        ("pdf docx xlsx", ""),
        ("2024 --verbose 🚀 ¯\\_(ツ)_/¯"[:18], ""),
        ("los_angeles.de/la/el.es", ""),
        ("```\nel la los las para con\n```", ""),
        ("`der die das und nicht`", ""),
        ("<div el la los> https://example.org/el/la/los", ""),
        ("\ud800\udfff\0\x1b[31m", ""),
        ("\u0301" * 100_000, ""),
        # A mixture is in the language of its sentences.
        ("用 React 和 TypeScript 写 Next.js 组件，部署到 Vercel 或 Cloudflare Workers", "zh"),
        ("Настроить Kubernetes, Helm и ArgoCD", "ru"),
        ("Use this skill to translate a document when the user says 翻译 or 번역.", "en"),
        ("Plan a trip to São Paulo for me and find the hotel in Zürich.", "en"),
        ("使用此技能 with the help of what you have 编写代码检查代码", ""),
        ("Sends a report.\n\nEnvía el informe cuando está listo y también lo guarda.", "es"),
        ("日本のサービスを提供する会社の一覧と、中国の会社の一覧", "ja"),
        ("这个词条解释日语的「の」在中文广告里为什么很常见，以及怎样翻译它", "zh"),
        ("ＰＤＦを翻訳する", "ja"),
    ],
)
def test_the_language_of_a_text_is_told(text, language):
    assert language_of(text) == language


@pytest.mark.timeout(120)
def test_only_the_head_is_read():
    assert language_of("это только начало " * 300 + "the end of it all " * 100_000) == "ru"


@pytest.mark.parametrize(
    ("word", "language", "expected"),
    [
        ("file", "", "en"),
        ("fichier", "fr", "fr"),
        ("file", "ru", "en"),
        ("файл", "fr", "ru"),
        ("файл", "uk", "uk"),
        ("ملف", "", "ar"),
        ("字", "", "zh"),
        ("ⴰ", "", "en"),
    ],
)
def test_a_word_follows_the_language_that_its_script_allows(word, language, expected):
    assert word_language(word, language) == expected


@given(st.text())
def test_any_text_has_a_known_language_or_none(text):
    assert language_of(text) in {"", *SENTENCES, *"am gu hy kn ml mr ne pa si te".split()}


def test_words_and_letters_are_written_as_they_are_compared():
    for lists in (FUNCTION_WORDS, REQUEST_WORDS, TELLING_LETTERS):
        for items in lists.values():
            assert [item for item in items if item != item.lower()] == []
    languages = set(FUNCTION_WORDS)
    assert set(REQUEST_WORDS) | set(TELLING_LETTERS) | set(TELLING_ENDINGS) <= languages


@pytest.mark.parametrize(
    ("code", "name"), [("ko", "Korean"), ("es", "Spanish"), ("", ""), ("x", "x")]
)
def test_a_language_is_called_as_in_english(code, name):
    assert language_name(code) == name


def test_every_language_that_can_be_told_has_a_name():
    codes = {*FUNCTION_WORDS, *(main for _, main, *_ in SCRIPTS.values())}
    assert {code for code in codes if language_name(code) == code} == set()
