"""A skill as the texts that are counted and embedded."""

from dataclasses import replace
from pathlib import Path

import pytest

from skillsearch.embedders.embedding import text_key
from skillsearch.index.documents.document import field_texts
from skillsearch.text.tokenizer import terms
from skillsearch.types.skills import Skill, SkillMetadata

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


def with_metadata(**changes):
    return replace(SKILL, metadata=replace(SKILL.metadata, **changes))


def test_the_metadata_field_holds_the_name_three_times_and_all_else_once():
    about = "Fill in PDF forms.\nWhen a form must be sent.\nfill this form\npdf\noffice"
    texts = field_texts(SKILL)
    assert texts.metadata_terms == terms("pdf-forms") * 3 + terms(about)
    assert texts.metadata == f"pdf-forms: {about}"


def test_the_full_field_holds_the_metadata_three_times_and_the_body_once():
    texts = field_texts(SKILL)
    about = texts.metadata_terms[len(terms("pdf-forms")) * 3 :]
    assert texts.full_terms == terms("pdf-forms") * 3 + about * 3 + terms(BODY)


def test_without_bodies_only_the_metadata_counts():
    texts = field_texts(SKILL, with_body=False)
    assert texts.by_key() == {text_key(texts.metadata): texts.metadata}
    assert set(texts.full_terms) == set(texts.metadata_terms)
    assert texts.document.body_hash == field_texts(SKILL).document.body_hash != ""


CHUNKED = replace(
    SKILL,
    body="Intro.\n<chunk id=sign description='How to sign'>\nPress 서명 twice.\n</chunk>\n<chunk/>",
)


def test_each_chunk_has_texts_of_its_own():
    texts = field_texts(CHUNKED)
    sign, other = texts.chunks
    assert sign.head == "sign: How to sign\nPress 서명 twice."
    assert sign.terms == terms("sign: How to sign\nPress 서명 twice.")
    assert other.head == "chunk-2: \n"
    assert texts.document.chunks == (
        ("sign", "How to sign", text_key(sign.head).hex()),
        ("chunk-2", "", text_key(other.head).hex()),
    )


def test_chunks_change_no_text_of_the_skill():
    texts = field_texts(CHUNKED)
    assert texts.full_terms[-len(terms(CHUNKED.body)) :] == terms(CHUNKED.body)
    assert field_texts(CHUNKED, with_body=False).chunks == ()
    assert field_texts(CHUNKED, with_body=False).document.chunks == ()


def test_the_texts_of_a_chunk_are_cut_like_a_body():
    body = "<chunk id=a description=d>" + "x " * 300_000
    (chunk,) = field_texts(replace(SKILL, body=body)).chunks
    assert len(chunk.head) == 4096
    assert chunk.terms.count("x") == 99_998


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
    assert field_texts(skill).document.language == language


@pytest.mark.parametrize(
    ("body", "other_body", "are_equal"),
    [
        ("word " * 60, "word\n\n" * 60, True),
        ("word " * 60, "Word " * 60, False),
        ("a" * 199, "a" * 199, False),
        ("a" * 200, "a" * 200, True),
        ("", "", False),
    ],
)
def test_bodies_are_compared_but_for_white_space(body, other_body, are_equal):
    hashes = [
        field_texts(replace(SKILL, body=text)).document.body_hash for text in (body, other_body)
    ]
    assert (hashes[0] == hashes[1] != "") == are_equal


def test_excess_is_cut():
    huge = with_metadata(name="n" * 9000, description="word " * 5000, tags=("late",))
    texts = field_texts(replace(huge, body="x " * 300_000))
    assert len(texts.metadata) == 2 * 8192 + len(": ")
    assert "late" not in texts.metadata_terms
    assert texts.full_terms.count("x") == 100_000
    assert texts.document.name == "n" * 9000


def test_lone_surrogates_do_no_harm():
    texts = field_texts(replace(with_metadata(name="a\ud800"), body="\udfff" * 300))
    assert texts.document.body_hash != ""
    assert texts.metadata.startswith("a\ud800: ")
