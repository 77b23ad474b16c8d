"""A skill as the texts that are counted and embedded."""

from dataclasses import replace
from pathlib import Path

import pytest

from skillsearch.embedders.embedding import text_key
from skillsearch.index.documents import field_texts
from skillsearch.text.tokenizer import terms
from skillsearch.types import Skill, SkillMetadata

BODY = "# Steps\nOpen the form, fill in the fields.\n" + "More about forms. " * 20
SKILL = Skill(
    doc_id="team:pdf-forms",
    metadata=SkillMetadata(
        name="pdf-forms",
        description="Fill in PDF forms.",
        tags=("pdf", "office"),
        triggers=("fill this form",),
        when_to_use="When a form must be sent.",
        hidden=True,
    ),
    body=BODY,
    path=Path("/skills/pdf-forms/SKILL.md"),
    root=Path("/skills"),
    content_hash="ab" * 32,
)
LATIN = frozenset({"Latin"})
GERMAN = replace(
    SKILL,
    metadata=SkillMetadata(name="formulare", description="Füllt Formulare aus und glättet sie."),
    body="# Schritte\nÖffne das Formular und fülle die Felder aus, die noch leer sind.\n",
)
UNREAD = replace(
    SKILL, metadata=SkillMetadata(name="양식", description="양식 작성하기"), body="본문"
)
ONE = [None]
"""One dense channel, whose embedder reads everything."""
TWO = [None, None]


def with_metadata(**changes):
    return replace(SKILL, metadata=replace(SKILL.metadata, **changes))


def test_the_metadata_field_holds_the_name_three_times_and_all_else_once():
    about = "Fill in PDF forms.\nWhen a form must be sent.\nfill this form\npdf\noffice"
    texts = field_texts(SKILL, ONE)
    assert texts.metadata_terms == terms("pdf-forms") * 3 + terms(about)
    assert texts.embedded[0].metadata == f"pdf-forms: {about}"


def test_the_full_field_holds_the_metadata_three_times_and_the_body_once():
    texts = field_texts(SKILL, ONE)
    about = texts.metadata_terms[len(terms("pdf-forms")) * 3 :]
    assert texts.full_terms == terms("pdf-forms") * 3 + about * 3 + terms(BODY)


def test_the_second_channel_alone_embeds_the_body_of_what_the_first_does_not_know():
    """The first embeds the metadata, which stands for the body of a skill that it knows."""
    texts = field_texts(GERMAN, TWO)
    assert [each.body_head for each in texts.embedded] == ["", GERMAN.body]
    assert [body for _, body in texts.document.keys] == ["", text_key(GERMAN.body).hex()]
    for skill, scripts in ((GERMAN, TWO), (UNREAD, [LATIN, None])):
        assert field_texts(skill, scripts).embedded[1].body_head == skill.body
    texts = field_texts(SKILL, TWO)
    assert [each.body_head for each in texts.embedded] == ["", texts.embedded[1].metadata]
    assert len(set(texts.document.keys[1])) == 1


def test_without_bodies_only_the_metadata_counts():
    texts = field_texts(SKILL, TWO, with_body=False)
    assert (texts.embedded[1].body_head, texts.document.keys[1][1]) == ("", "")
    assert set(texts.full_terms) == set(texts.metadata_terms)
    assert texts.document.body_hash == field_texts(SKILL, ONE).document.body_hash != ""


CHUNKED = replace(
    SKILL,
    body="Intro.\n<chunk id=sign description='How to sign'>\nPress 서명 twice.\n</chunk>\n<chunk/>",
)


def test_each_chunk_has_texts_of_its_own():
    """Id, description and text; what the embedder cannot read is counted but not embedded."""
    texts = field_texts(CHUNKED, [LATIN])
    sign, other = texts.chunks
    assert sign.head == "sign: How to sign Press twice."
    assert sign.terms == terms("sign: How to sign\nPress 서명 twice.")
    assert other.head == "chunk-2: \n"
    assert texts.document.chunks == (
        ("sign", "How to sign", text_key(sign.head).hex()),
        ("chunk-2", "", text_key(other.head).hex()),
    )


def test_chunks_change_no_text_of_the_skill():
    """The body is counted and embedded whole; an index of metadata alone has no chunks."""
    texts = field_texts(replace(CHUNKED, metadata=GERMAN.metadata), TWO)
    assert texts.embedded[1].body_head == CHUNKED.body
    texts = field_texts(CHUNKED, TWO)
    assert texts.full_terms[-len(terms(CHUNKED.body)) :] == terms(CHUNKED.body)
    assert field_texts(CHUNKED, ONE, with_body=False).chunks == ()
    assert field_texts(CHUNKED, ONE, with_body=False).document.chunks == ()


def test_the_texts_of_a_chunk_are_cut_like_a_body():
    body = "<chunk id=a description=d>" + "x " * 300_000
    (chunk,) = field_texts(replace(SKILL, body=body), ONE).chunks
    assert len(chunk.head) == 4096
    assert chunk.terms.count("x") == 99_998


def test_what_the_embedder_cannot_read_is_not_embedded_but_counted():
    """BM25 finds it all the same, and the trust says so."""
    skill = replace(with_metadata(description="양식 PDF 작성하기", triggers=()), body="본문 only")
    texts = field_texts(skill, [LATIN, LATIN])
    for embedded in texts.embedded:
        assert embedded.metadata == "pdf-forms: PDF When a form must be sent. pdf office"
    assert {"양식", "작성", "성하", "하기"} <= set(texts.metadata_terms)
    assert texts.document.trust == 1.0
    german = replace(GERMAN, body="본문 Aufgabe")
    assert field_texts(german, [LATIN, LATIN]).embedded[1].body_head == "Aufgabe"
    korean = replace(skill, metadata=SkillMetadata(name="양식", description="작성하기 pdf"))
    assert field_texts(korean, [LATIN]).document.trust == pytest.approx(2 * 3 / 9)
    assert field_texts(korean, ONE).document.trust == 1.0


def test_each_channel_embeds_what_it_can_read():
    """In the order of the channels; trust is that in the first, and chunks are its alone."""
    skill = replace(
        SKILL, metadata=SkillMetadata(name="양식", description="작성하기 pdf"), body="본문"
    )
    latin, every = field_texts(skill, [LATIN, None]).embedded
    assert latin == (": pdf", "", ())
    assert every == ("양식: 작성하기 pdf", "본문", ())
    document = field_texts(skill, [LATIN, None]).document
    assert document.keys == (
        (text_key(latin.metadata).hex(), ""),
        (text_key(every.metadata).hex(), text_key(every.body_head).hex()),
    )
    assert document.trust == field_texts(skill, [LATIN]).document.trust < 1
    chunks = field_texts(CHUNKED, [LATIN, None]).chunks
    assert chunks == field_texts(CHUNKED, [LATIN]).chunks


def test_another_channel_changes_no_term_and_no_text_of_the_first():
    one, two = field_texts(CHUNKED, [LATIN]), field_texts(CHUNKED, [LATIN, None])
    assert (two.metadata_terms, two.full_terms) == (one.metadata_terms, one.full_terms)
    assert two.embedded[:1] == one.embedded
    assert replace(two.document, keys=one.document.keys) == one.document


@pytest.mark.parametrize(
    ("description", "body", "language"),
    [
        ("Fill in the forms that you get.", "Open it and write what is asked for.", "en"),
        ("Erstelle Rechnungen für Kunden.", "Lies die Angaben und trage sie in das Blatt.", "de"),
        ("把合同里的条款整理成一份清单。", "先通读全文再标出日期和金额。", "zh"),
        ("契約書の期限を一覧にまとめます。", "まず全文を読み、日付に印を付けます。", "ja"),
        ("계약서의 기한을 표로 정리합니다.", "먼저 전체를 읽습니다.", "ko"),
        ("x", "", ""),
    ],
)
def test_the_record_tells_the_language(description, body, language):
    skill = replace(SKILL, metadata=SkillMetadata(name="x", description=description), body=body)
    document = field_texts(skill, ONE).document
    assert document.language == language
    assert document.fluency == (document.trust if language in ("", "en") else 0.0)


@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [
        ("word " * 60, "word\n\n" * 60, True),
        ("word " * 60, "Word " * 60, False),
        ("a" * 199, "a" * 199, False),
        ("a" * 200, "a" * 200, True),
        ("", "", False),
    ],
)
def test_bodies_are_compared_but_for_white_space(one, other, are_equal):
    hashes = [field_texts(replace(SKILL, body=b), ONE).document.body_hash for b in (one, other)]
    assert (hashes[0] == hashes[1] != "") == are_equal


def test_excess_is_cut():
    huge = with_metadata(name="n" * 9000, description="word " * 5000, tags=("late",))
    texts = field_texts(replace(huge, body="x " * 300_000), TWO)
    assert len(texts.embedded[0].metadata) == 2 * 8192 + len(": ")
    assert "late" not in texts.metadata_terms
    assert texts.full_terms.count("x") == 100_000
    long = field_texts(replace(GERMAN, body="wort " * 2_000), TWO)
    assert len(long.embedded[1].body_head) == 4096
    assert texts.document.name == "n" * 9000


def test_lone_surrogates_do_no_harm():
    texts = field_texts(replace(with_metadata(name="a\ud800"), body="\udfff" * 300), [LATIN])
    assert texts.document.body_hash != ""
    assert texts.embedded[0].metadata.startswith("a\ud800: ")
