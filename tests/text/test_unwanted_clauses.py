"""Clauses of a request that refuse something, and negations that are what the request is about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.text.languages import language_of
from skillsearch.text.unwanted_clauses import unwanted_clauses

REFUSED = [
    ("Collect the traces of our agents, no Datadog, no New Relic", "no Datadog, no New Relic"),
    ("Post the summary to the wiki; Confluence is off the table", "Confluence is off the table"),
    ("Turn the talk into slides and leave the notes alone", "and leave the notes alone"),
    ("Turn the talk into slides, and leave the notes alone.", "and leave the notes alone."),
    ("Back up my photos at home but please no cloud", "but please no cloud"),
    ("Find us a host for the site. We don't want a contract", "We don't want a contract"),
    ("Store the files somewhere safe, anything but Dropbox", "anything but Dropbox"),
    ("Sichere meine Fotos zu Hause, aber bitte keine Cloud", "aber bitte keine Cloud"),
    ("Schreibe den Test in Java, TypeScript ist tabu", "TypeScript ist tabu"),
    ("Garde mes photos à la maison, surtout pas de cloud", "surtout pas de cloud"),
    ("Guarda mis fotos en casa, nada de nubes", "nada de nubes"),
    ("Guarde minhas fotos em casa, não quero nuvem", "não quero nuvem"),
    ("Salva tutte le mie foto sul disco di casa, niente nuvola", "niente nuvola"),
    ("Bewaar mijn foto's thuis, geen cloud", "geen cloud"),
    ("Zachowaj moje zdjęcia w domu, żadnych chmur", "żadnych chmur"),
    ("Сохрани мои фотографии дома, никаких облаков", "никаких облаков"),
    ("把照片备份到家里的硬盘，不需要云盘", "不需要云盘"),
    ("写真を家に保存してください。クラウドは使わないで", "クラウドは使わないで"),
    ("사진을 집에 있는 디스크에 저장해 줘. 클라우드는 빼고", "클라우드는 빼고"),
    ("Спусти мої фотографії на домашній диск, ніяких хмар", "ніяких хмар"),
    ("Zálohuj moje fotky doma na disk, žádný cloud", "žádný cloud"),
    ("Jag vill att du sparar mina bilder och filer på disken, inga moln", "inga moln"),
]
NEGATED = [
    ("Run every step of the plan, don't stop at warnings", "don't stop at warnings"),
    ("Show the guests a clear message, never repeat the call", "never repeat the call"),
    ("Instead of hardening it, attack our endpoint as a tester would", "Instead of hardening it,"),
    ("How do validators earn? I'm not asking about the wallet", "I'm not asking about the wallet"),
    ("Prüfe den Plan vor dem Start, nichts darf geändert werden", "nichts darf geändert werden"),
    ("Vérifie le plan de la semaine avant le départ, ne change rien", "ne change rien"),
    ("检查缓存和日志里占空间的文件，不要删除账号", "不要删除账号"),
    ("Sketch the flow of our orders rather than a diagram", "rather than a diagram"),
    ("Docker is off the table. Build the image in some other way", "Docker is off the table."),
    ("a plain view over these three tables, not a scheduled job", "not a scheduled job"),
    (
        "Without media queries, please: parts that fit their parent",
        "Without media queries, please:",
    ),
    ("Write the rules for retries (nothing to do with Slack)", "nothing to do with Slack)"),
    ("convert the talk to notes, I'm not after a transcript", "I'm not after a transcript"),
    ("scrape the followers to JSON, no API key needed", "no API key needed"),
    ("把笔记放到网上给朋友看，不想买服务器", "不想买服务器"),
    ("SEM 사진 말고 라만 데이터로 결함을 봐 주세요", "SEM 사진 말고"),
    ("Generuj raport z bazy co tydzień, o wykresy mi nie chodzi", "o wykresy mi nie chodzi"),
    ("Her hafta rapor hazırla lütfen, grafik istemem", "grafik istemem"),
    ("cấu hình quy tắc đặt tên cho dự án, không cần tài liệu", "không cần tài liệu"),
    ("قارن لي بين الطرق كلها، لا أريد رسوما", "لا أريد رسوما"),
    ("रोज़ की रिपोर्ट बनाओ और भेज दो, ग्राफ़ नहीं चाहिए", "ग्राफ़ नहीं चाहिए"),
    ("ตั้งค่าระบบให้ทีมหน่อยครับ แต่ไม่ต้องทำเอกสาร", "แต่ไม่ต้องทำเอกสาร"),
]
WISHES = [
    "no sound in the headphones since the update",
    "The printer is offline, and nobody knows why",
    "pods keep restarting but never write a log",
    "the build works here, but not for my colleague's older laptop, no idea why",
    "I don't know how to sign in, it doesn't take my password",
    "the page has no title",
    "Der Drucker geht nicht, ich weiß nicht warum",
    "L'écran reste noir, il ne répond plus",
    "la pantalla sigue negra, no funciona",
    "打印机坏了，没有声音",
    "the form was sent on Monday, zero replies since",
    "I type the PIN at the door, no error message",
    "the upload of the file fails, the method is not allowed",
    "make a table of our tools, of all the software ruled out last year",
    "Die Anmeldung geht nicht, kein Kennwort wurde eingegeben",
    "Ich komme nicht weiter, der Server fällt aus",
    "não consigo comprar nada na loja, o site está fora do ar",
    "le site de la mairie répond mal, l'accès est interdit",
    "не могу войти в почту, пароль не подходит",
    "резервные копии делаются, но ни разу никто не проверял",
    "새 노트북에서 인터넷 연결이 안 됩니다. 프린터도 안 돼요",
    "给新同事写一份培训材料，除了安装说明，还要讲讲日常流程",
]
PIECES = [
    *("no ", "don't ", ", ", ". ", "leave x ", "out", "is off the table", "no sound"),
    *("rather than ", "말고 ", "but ", "不要", "，", "a "),
]


def cut(text, spans):
    return " ".join(text[slice(*span)].strip() for span in spans)


@pytest.mark.parametrize(("text", "clauses"), REFUSED)
def test_a_refusal_excludes_its_clause(text, clauses):
    assert cut(text, unwanted_clauses(text, language_of(text))[0]) == clauses


@pytest.mark.parametrize(("text", "clauses"), NEGATED)
def test_a_negation_that_may_belong_to_the_wish_refuses_nothing(text, clauses):
    refused, negated = unwanted_clauses(text, language_of(text))
    assert (refused, cut(text, negated)) == ([], clauses)


@pytest.mark.parametrize("text", WISHES)
def test_complaints_refuse_nothing(text):
    assert unwanted_clauses(text, language_of(text))[0] == []


def test_a_phrase_begins_with_a_word():
    text = "Есть тридцать старых проектов, мне нужно понять их порядок"
    assert unwanted_clauses(text, "ru") == ([], [])


def test_what_follows_a_first_refusal_is_none_if_little_else_is_said():
    assert unwanted_clauses("copy it, no Docker", "en") == ([], [])


def test_long_texts_are_told_by_other_means():
    text = f"{'Copy the notes of each week. ' * 30}No Docker."
    assert unwanted_clauses(text, "en") == ([], [])


@given(text=st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=30).map("".join))
def test_clauses_are_apart_and_in_order(text):
    refused, negated = unwanted_clauses(text, "en")
    ends = [0, *(end for span in sorted((*refused, *negated)) for end in span)]
    assert ends == sorted(ends)
    assert ends[-1] <= len(text)


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("language", ["de", "en", "fr", "ja", "ko", "nl"])
@pytest.mark.timeout(60)
def test_time_is_linear(piece, language):
    for _ in range(500):
        unwanted_clauses((piece * 600)[:600], language)
