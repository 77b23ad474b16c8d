"""A skill as the texts that are counted and embedded."""

from dataclasses import replace
from pathlib import Path

import pytest

from skillsearch.index.embedding_cache import text_key
from skillsearch.index.fields import field_texts
from skillsearch.index.tokenizer import terms
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


def with_metadata(**changes):
    """Return the skill with other metadata."""
    return replace(SKILL, metadata=replace(SKILL.metadata, **changes))


def test_the_metadata_field_holds_the_name_three_times_and_all_else_once():
    """Description, when to use, triggers, tags, in this order."""
    about = "Fill in PDF forms.\nWhen a form must be sent.\nfill this form\npdf\noffice"
    texts = field_texts(SKILL, None)
    assert texts.metadata_terms == terms("pdf-forms") * 3 + terms(about)
    assert texts.metadata_text == f"pdf-forms: {about}"


def test_the_full_field_holds_the_metadata_three_times_and_the_body_once():
    """So that a long body does not drown them."""
    texts = field_texts(SKILL, None)
    about = texts.metadata_terms[len(terms("pdf-forms")) * 3 :]
    assert texts.full_terms == terms("pdf-forms") * 3 + about * 3 + terms(BODY)
    assert texts.body_head == BODY


def test_the_record_shows_the_skill():
    """And the keys of what is embedded."""
    texts = field_texts(SKILL, None)
    document = texts.document
    assert (document.doc_id, document.name, document.hidden) == (SKILL.doc_id, "pdf-forms", True)
    assert (document.path, document.root) == ("/skills/pdf-forms/SKILL.md", "/skills")
    assert document.description == "Fill in PDF forms."
    assert document.content_hash == "ab" * 32
    assert document.metadata_key == text_key(texts.metadata_text).hex()
    assert document.body_key == text_key(texts.body_head).hex()
    assert document.trust == 1.0


def test_without_bodies_only_the_metadata_counts():
    """The digest of the body stays: it tells duplicates."""
    texts = field_texts(SKILL, None, with_body=False)
    assert (texts.body_head, texts.document.body_key) == ("", "")
    assert set(texts.full_terms) == set(texts.metadata_terms)
    assert texts.document.body_hash == field_texts(SKILL, None).document.body_hash != ""


CHUNKED = replace(
    SKILL,
    body="Intro.\n<chunk id=sign description='How to sign'>\nPress 서명 twice.\n</chunk>\n<chunk/>",
)


def test_each_chunk_has_texts_of_its_own():
    """Id, description and text; what the embedder cannot read is counted but not embedded."""
    texts = field_texts(CHUNKED, LATIN)
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
    texts = field_texts(CHUNKED, None)
    assert texts.body_head == CHUNKED.body
    assert texts.full_terms[-len(terms(CHUNKED.body)) :] == terms(CHUNKED.body)
    assert field_texts(CHUNKED, None, with_body=False).chunks == ()
    assert field_texts(CHUNKED, None, with_body=False).document.chunks == ()


def test_the_texts_of_a_chunk_are_cut_like_a_body():
    """The embedded head, and what is counted."""
    body = "<chunk id=a description=d>" + "x " * 300_000
    (chunk,) = field_texts(replace(SKILL, body=body), None).chunks
    assert len(chunk.head) == 4096
    assert chunk.terms.count("x") == 99_998


def test_what_the_embedder_cannot_read_is_not_embedded_but_counted():
    """BM25 finds it all the same, and the trust says so."""
    skill = replace(with_metadata(description="양식 PDF 작성하기", triggers=()), body="본문 only")
    texts = field_texts(skill, LATIN)
    assert texts.metadata_text == "pdf-forms: PDF When a form must be sent. pdf office"
    assert texts.body_head == "only"
    assert {"양식", "작성", "성하", "하기"} <= set(texts.metadata_terms)
    assert texts.document.trust == 1.0
    korean = replace(skill, metadata=SkillMetadata(name="양식", description="작성하기 pdf"))
    assert field_texts(korean, LATIN).document.trust == pytest.approx(2 * 3 / 9)
    assert field_texts(korean, None).document.trust == 1.0


def test_equal_texts_have_equal_keys_wherever_the_skill_lies():
    """A moved skill is not embedded again."""
    moved = replace(SKILL, doc_id="b:x", path=Path("/x/SKILL.md"), root=Path("/"), content_hash="c")
    one, other = (field_texts(skill, None).document for skill in (SKILL, moved))
    assert (one.metadata_key, one.body_key) == (other.metadata_key, other.body_key)


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
    """Short ones are equal by chance and tell nothing."""
    hashes = [field_texts(replace(SKILL, body=b), None).document.body_hash for b in (one, other)]
    assert (hashes[0] == hashes[1] != "") == are_equal


def test_excess_is_cut():
    """Of a name, of all else about it, of a body, of its embedded head."""
    huge = with_metadata(name="n" * 9000, description="word " * 5000, tags=("late",))
    texts = field_texts(replace(huge, body="x " * 300_000), None)
    assert len(texts.metadata_text) == 2 * 8192 + len(": ")
    assert "late" not in texts.metadata_terms
    assert texts.full_terms.count("x") == 100_000
    assert len(texts.body_head) == 4096
    assert texts.document.name == "n" * 9000


def test_lone_surrogates_do_no_harm():
    """They come from files that are no UTF-8."""
    texts = field_texts(replace(with_metadata(name="a\ud800"), body="\udfff" * 300), LATIN)
    assert texts.document.body_hash != ""
    assert texts.metadata_text.startswith("a\ud800: ")
