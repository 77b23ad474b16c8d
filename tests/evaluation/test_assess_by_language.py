"""Measures by the language of queries, and of those that cross languages."""

import math
from dataclasses import replace

import pytest

from skillsearch.evaluation.assess import CROSS, FEW, SAME, assess
from skillsearch.evaluation.assess import with_languages as add_languages
from skillsearch.evaluation.comparison import compare, interval
from skillsearch.evaluation.languages import query_languages
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery, SystemAnswers
from skillsearch.text.languages import UNKNOWN

RIGHT_AT_2, RIGHT_AT_3 = 1 / math.log2(3), 1 / 2
DOCUMENTS = (
    JudgedDocument("bill", "bill", "Writes an invoice for a customer and sends it as a PDF file."),
    JudgedDocument("save", "save", "Backs up a database every night and tests that it restores."),
    JudgedDocument(
        "poster", "poster", "Diseña carteles para las fiestas del barrio y los lleva a la imprenta."
    ),
    JudgedDocument("dinner", "dinner", "根据冰箱里剩下的食材推荐晚餐菜谱,并列出还需要买的东西。"),
    JudgedDocument(
        "train", "train", "기차 시간표를 찾아보고 원하는 좌석을 예약하는 방법을 알려 줍니다."
    ),
)
ASKED = {
    "en1": ("please send an invoice to the customer who called me today", "bill"),
    "zh1": ("请每天夜里自动备份我的数据库", "save"),
    "zh2": ("冰箱里的剩菜可以做什么晚饭", "dinner"),
    "es1": ("quiero un cartel para la fiesta de mi calle", "poster"),
    "es2": ("necesito mandar una factura a un cliente que no ha pagado", "bill"),
    "ko1": ("내일 부산 가는 기차표 좀 예매해 줘", "train"),
    "ko2": ("어제 백업한 데이터가 다시 살아나는지 확인해 줘", "save"),
}
COLLECTION = Collection(
    "languages",
    DOCUMENTS,
    tuple(JudgedQuery(key, text) for key, (text, _) in ASKED.items()),
    {key: {doc_id: 1} for key, (_, doc_id) in ASKED.items()},
    notes=("a note",),
)


def system(name, **answers):
    """Make a system; each answer is a text of document ids, best first."""
    made = {
        key: tuple((document, 0.9 - index / 10) for index, document in enumerate(of.split()))
        for key, of in answers.items()
    }
    return SystemAnswers(name, name, made, {"negatives": {"n": ()}})


GOOD = system(
    "good",
    **{"en1": "bill", "zh1": "dinner save", "zh2": "dinner", "es1": "train dinner poster"},
    **{"es2": "bill", "ko1": "train", "ko2": "save"},
)
BAD = system("bad", en1="bill", zh2="dinner", ko1="train")


def measured(collection=COLLECTION, systems=(GOOD, BAD)):
    return add_languages(assess(collection, systems), collection, systems)


def tagged(*languages, collection=COLLECTION):
    pairs = zip(collection.queries, languages, strict=True)
    return replace(collection, queries=tuple(replace(query, language=tag) for query, tag in pairs))


def means(parts, number=0):
    return {name: part.systems[number].means["nDCG@10"] for name, part in parts.items()}


def counts(parts):
    return {name: part.queries for name, part in parts.items()}


def english(count=4):
    """Make a collection of English skills and queries, of which nothing is tagged."""
    return Collection(
        "english",
        DOCUMENTS[:2],
        tuple(
            JudgedQuery(f"q{n}", f"please send the invoice number {n} to this customer of mine")
            for n in range(count)
        ),
        {f"q{n}": {"bill": 1} for n in range(count)},
    )


def test_the_queries_of_each_language_are_measured_by_themselves():
    report = measured()
    assert counts(report.languages) == {"es": 2, "ko": 2, "zh": 2, "en": 1}
    assert list(report.languages) == ["es", "ko", "zh", "en"]
    assert means(report.languages) == pytest.approx(
        {"es": (RIGHT_AT_3 + 1) / 2, "ko": 1, "zh": (RIGHT_AT_2 + 1) / 2, "en": 1}
    )
    assert means(report.languages, 1) == {"es": 0, "ko": 0.5, "zh": 0.5, "en": 1}
    part = report.languages["zh"]
    assert (part.collection, part.notes, part.unanswerable) == ("languages: zh", (), {})
    assert part.systems[0].worst == part.systems[0].best == ()
    assert part.systems[0].abstention.auroc == {}
    assert replace(report, languages={}, crossing={}) == assess(COLLECTION, (GOOD, BAD))


def test_queries_that_cross_languages_are_measured_apart():
    crossing = measured().crossing
    assert counts(crossing) == {SAME: 4, CROSS: 3}
    assert list(crossing) == [SAME, CROSS]
    assert means(crossing) == pytest.approx(
        {SAME: (1 + 1 + RIGHT_AT_3 + 1) / 4, CROSS: (RIGHT_AT_2 + 1 + 1) / 3}
    )
    assert means(crossing, 1) == {SAME: 0.75, CROSS: 0}


def test_one_answer_in_the_language_of_the_query_is_enough_to_be_the_same():
    qrels = {**COLLECTION.qrels, "zh1": {"save": 1, "dinner": 1}, "es2": {"bill": 1, "poster": 0}}
    crossing = measured(replace(COLLECTION, qrels=qrels)).crossing
    assert counts(crossing) == {SAME: 5, CROSS: 2}


@pytest.mark.parametrize("count", [FEW - 1, FEW])
def test_systems_are_compared_on_enough_queries(count):
    many = tuple(JudgedQuery(f"z{n}", ASKED["zh1"][0]) for n in range(count))
    collection = Collection(
        "many",
        DOCUMENTS,
        (*many, COLLECTION.queries[0]),
        {"en1": {"bill": 1}} | {query.query_id: {"save": 1} for query in many},
    )
    good = system("good", **{query.query_id: "save" for query in many})
    bad = system("bad", **{query.query_id: "dinner save" for query in many[1:]})
    part = measured(collection, (good, bad)).languages["zh"]
    expected = compare([(report.name, report.per_query) for report in part.systems])
    assert part.comparisons == (expected if count == FEW else ())
    values = [0.0, *[RIGHT_AT_2] * (count - 1)]
    assert part.systems[1].intervals["nDCG@10"] == pytest.approx(interval(values))


def test_a_collection_in_one_language_has_no_languages():
    collection = english()
    answers = (system("good", q1="bill"),)
    assert measured(collection, answers) == assess(collection, answers)


def test_one_language_is_told_of_where_it_is_not_that_of_the_skills():
    only = replace(COLLECTION, queries=tuple(COLLECTION.queries[n] for n in (1, 6)))
    report = measured(tagged("ko", "ko", collection=only))
    assert list(report.languages) == ["ko"]
    assert counts(report.crossing) == {CROSS: 2}


def test_a_tag_decides_over_the_text():
    queries = tagged("EN", "zh-CN", "zh_Hant", "und", "?", "\x1b[2J", "fil").queries
    languages = dict(zip(ASKED, "en zh zh es es ko fil".split(), strict=True))
    assert query_languages(queries) == languages


def test_the_tag_of_a_document_decides_too():
    """Bill is said to be Spanish, so that who asks in Spanish does not cross."""
    documents = (replace(DOCUMENTS[0], language="es-MX"), *DOCUMENTS[1:])
    crossing = measured(replace(COLLECTION, documents=documents)).crossing
    # The query in English crosses instead.
    assert means(crossing) == pytest.approx(
        {SAME: (1 + RIGHT_AT_3 + 1 + 1) / 4, CROSS: (1 + RIGHT_AT_2 + 1) / 3}
    )


def test_queries_of_an_unknown_language_come_last_and_cross_nothing():
    queries = (JudgedQuery("en1", "xkcd 927"), *COLLECTION.queries[1:])
    report = measured(replace(COLLECTION, queries=queries))
    assert list(report.languages) == ["es", "ko", "zh", UNKNOWN]
    assert sum(part.queries for part in report.crossing.values()) == 6
    documents = (DOCUMENTS[0], JudgedDocument("save", "save", "pg_dump"), *DOCUMENTS[2:])
    crossing = measured(replace(COLLECTION, documents=documents)).crossing
    assert counts(crossing) == {SAME: 4, CROSS: 1}


def test_queries_without_a_relevant_document_are_in_no_language():
    qrels = {**COLLECTION.qrels, "en1": {"bill": 0}}
    report = measured(replace(COLLECTION, qrels=qrels))
    assert list(report.languages) == ["es", "ko", "zh"]


def test_a_language_that_few_texts_suggest_is_not_believed():
    collection = english(count=99)
    odd = JudgedQuery("odd", ASKED["es1"][0])
    assert query_languages((*collection.queries, odd))["odd"] == ""
    assert query_languages((*collection.queries[:40], odd))["odd"] == "es"
    said = replace(odd, language="es")
    assert query_languages((*collection.queries, said))["odd"] == "es"
