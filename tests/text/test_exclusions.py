"""What a request does not want, and what a skill is not for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.text.exclusions import split_description, split_request
from skillsearch.text.languages import language_of

REQUESTS = [
    ("build the image, but do not use Docker", "build the image, but", "Docker"),
    ("Don’t use Docker, use Podman", ", use Podman", "Docker"),
    ("never use the browser tool for this, read files", "for this, read files", "the browser tool"),
    ("plot it without Excel or Tableau, then send", "plot it , then send", "Excel or Tableau"),
    ("set up the deps with uv instead of pip", "set up the deps with uv", "pip"),
    ("ship it with not Docker but Podman", "ship it with but Podman", "Docker"),
    ("write the service without Go please", "write the service please", "Go"),
    ("avoid using bullet points and be brief", "and be brief", "bullet points"),
    ("构建镜像，不要使用Docker", "构建镜像，", "Docker"),
    ("不用Docker构建镜像", "构建镜像", "Docker"),
    ("写报告，不要用模板来做", "写报告， 来做", "模板"),
    ("construye la imagen, no uses Docker", "construye la imagen,", "Docker"),
    ("construye la imagen sin Docker", "construye la imagen", "Docker"),
    ("construa a imagem, não use Docker", "construa a imagem,", "Docker"),
    ("n'utilise pas Docker pour l'image", "pour l'image", "Docker"),
    ("baue das Image ohne Docker", "baue das Image", "Docker"),
    ("verwende kein Docker, baue das Image", ", baue das Image", "Docker"),
    ("costruisci l'immagine senza Docker", "costruisci l'immagine", "Docker"),
    ("собери образ без Docker", "собери образ", "Docker"),
    ("Dockerを使わずにイメージを作って", "イメージを作って", "Docker"),
    ("Docker를 사용하지 말고 이미지를 만들어", "이미지를 만들어", "Docker"),
    (f"{'説明を読む。' * 20}Dockerを使わずに", "説明を読む。" * 20, "Docker"),
]
WHOLE = [
    "compress the video without losing quality",
    "run the migration without errors",
    "plot the survey data without A please",
    "run it without -X flags",
    "make sure not to break the tests",
    "why does it not work",
    "not sure how to start",
    "keep one folder of a repo without git history",
    "publish with OIDC instead of an API key",
    "do not use it yet",
    "do not use more than 3 slides",
    "do not use code from GPL projects",
    "不用担心，帮我写周报",
    "comprime el video sin perder calidad",
    "ohne Fehler kompilieren",
    "エラーなしで動かして",
    "오류 없이 실행해 줘",
]
DESCRIPTIONS = [
    ("Handles text. NOT for PDF files.", "Handles text.", "NOT for PDF files."),
    (
        "Fills forms. Do not use this skill when it is a scan, e.g. a fax. Reads tables.",
        "Fills forms. Reads tables.",
        "Do not use this skill when it is a scan, e.g. a fax.",
    ),
    (
        "For PDF files, use the pdf skill instead. Handles Word.",
        "Handles Word.",
        "For PDF files, use the pdf skill instead.",
    ),
    (
        "Reads text.\nDo NOT use for:\n- PDF\n- Word\n\nTriggers: text",
        "Reads text.\nTriggers: text",
        "Do NOT use for:\n- PDF\n- Word",
    ),
    ("Handles Word, not for PDF, but for RTF.", "Handles Word, , but for RTF.", "not for PDF"),
    ("处理文档。不适用于PDF。", "处理文档。", "不适用于PDF。"),
    ("文書を扱う。PDFには使用しない。", "文書を扱う。", "PDF"),
    ("PDFには使用しない。文書を扱う。", "文書を扱う。", "PDF"),
    ("문서를 다룬다. PDF에는 사용하지 않는다.", "문서를 다룬다.", "PDF"),
    ("Lee texto. No usar para PDF.", "Lee texto.", "No usar para PDF."),
    ("Lit. Ne pas utiliser pour les PDF.", "Lit.", "Ne pas utiliser pour les PDF."),
    ("Liest Text. Nicht für PDF.", "Liest Text.", "Nicht für PDF."),
    ("Lê texto. Não usar para PDF.", "Lê texto.", "Não usar para PDF."),
    ("Not only for PDF but also for Word.", "Not only for PDF but also for Word.", ""),
    ("Do NOT use for PDF.", "Do NOT use for PDF.", ""),
]
PIECES = [
    *("do not use ", "without ", "Docker", " or ", "not ", " but", "For a, use b ", "NOT for "),
    *(
        "不要用",
        "使わ",
        "を使わずに",
        "에는 사용하지 않",
        "e.g. ",
        "\n- ",
        ". ",
        "; ",
        "a",
        " ",
        "é",
    ),
]
HOSTILE = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=30).map("".join)


@pytest.mark.parametrize(("text", "wanted", "thing"), REQUESTS)
def test_a_thing_is_cut_out_of_a_request(text, wanted, thing):
    split = split_request(text, language_of(text))
    assert " ".join(split.wanted.split()) == wanted
    assert (split.things, split.clauses) == ((thing,), ())


@pytest.mark.parametrize("text", WHOLE)
def test_other_negations_exclude_nothing(text):
    """A quality of the work is no tool, and a request for nothing is none."""
    assert split_request(text, language_of(text)) == (text, (), (), text)


def test_a_marker_without_a_name_adds_nothing_to_what_others_exclude():
    split = split_request("tidy the notes without fuss and without Notion")
    assert split.things == ("Notion",)
    assert split.wanted == "tidy the notes without fuss and"


def test_a_request_without_clauses_is_what_it_wants():
    text = "copy the notes to disk without Notion, no Evernote, don't send them by mail"
    assert split_request(text) == (
        "copy the notes to disk , don't send them by mail",
        ("Notion",),
        ("no Evernote,", "don't send them by mail"),
        "copy the notes to disk ,",
    )


@pytest.mark.parametrize(
    ("text", "thing"),
    [
        ("do not use Docker", "Docker"),
        ("don't use Terraform", "Terraform"),
        ("without Kubernetes!", "Kubernetes"),
        ("不要用 Docker", "Docker"),
        ("sans Docker", "Docker"),
    ],
)
def test_of_a_request_that_only_excludes_nothing_is_wanted(text, thing):
    assert split_request(text, language_of(text)) == ("", (thing,), (), "")


@pytest.mark.parametrize("text", ["no sound", "No Man's Sky", "not-boring", "Do not send any mail"])
def test_what_may_be_a_complaint_or_a_name_is_wanted(text):
    assert split_request(text) == (text, (), (), text)


@pytest.mark.parametrize(("text", "said", "excluded"), DESCRIPTIONS)
def test_a_description_is_split(text, said, excluded):
    assert " ".join(split_description(text)[0].split()) == " ".join(said.split())
    assert split_description(text)[1] == excluded


@given(text=HOSTILE)
def test_parts_of_a_description_come_from_it(text):
    first, excluded = split_description(text)
    assert all(piece in text for piece in first.split())
    assert all(line in text for line in excluded.split("\n"))
    assert first == text or any(map(str.isalnum, first))
    assert bool(excluded) <= (first != text)


@given(text=HOSTILE, language=st.sampled_from(["", "de", "en", "ja", "ko", "zh"]))
def test_parts_of_a_request_come_from_it(text, language):
    split = split_request(text, language)
    assert all(piece in text for piece in (*split.things, *split.clauses, *split.wanted.split()))
    assert set(split.rest.split()) <= set(split.wanted.split())
    assert split.wanted in {"", text} or any(map(str.isalnum, split.rest))
    assert bool(split.things or split.clauses) >= (split.rest != text)


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.timeout(60)
def test_time_is_linear(piece):
    text = (piece * 250_000)[:250_000]
    split_request(text), split_description(text)
