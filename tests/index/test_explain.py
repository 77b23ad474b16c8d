"""Why a hit has its score."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.search.calibration import probability
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.candidates import Candidates, Judged
from skillsearch.index.search.evidence import EVIDENCE, READER, find_evidence
from skillsearch.index.search.features import FEATURES
from skillsearch.index.search.query import QueryForm, weigh_terms
from skillsearch.index.search.ranker import best_section, explain, judge, rank
from skillsearch.text.tokenizer import terms

BODY = """Intro about forms.

## Install
Run the installer.

```sh
# not a heading about passwords
```

### Recover passwords ###
Ask the owner, then   crack
the password.

#no heading
## Using C#
Write code.
"""


@pytest.fixture
def index(shared_index):
    return shared_index


def form(text, dimensions=512):
    return QueryForm(text, "en", Counter(terms(text)), np.zeros(dimensions, np.float32))


def candidates(corpus, **rows):
    numbers = {corpus.documents.named(name.replace("_", "-"))[0]: name for name in rows}
    features = np.array([rows[numbers[number]] for number in sorted(numbers)], np.float64)
    return Candidates(np.array(sorted(numbers), np.int64), features, features[:, :3])


def judged_in(corpus, query, nominated, calibration):
    ranked = rank(corpus, nominated, "hybrid", calibration)
    rows = ranked.best.tolist()
    return ranked, judge(find_evidence(corpus, query, ranked, rows), rows, calibration)


def explained(corpus, query, nominated, body):
    query = replace(query, weights=weigh_terms(corpus, query.counts))
    calibration = default_calibration()
    ranked, judged = judged_in(corpus, query, nominated, calibration)
    return [explain(corpus, query, ranked, hit, calibration, body) for hit in sorted(judged)]


def all_of(value):
    return [value] * len(FEATURES)


@pytest.fixture(scope="module")
def idf_of(segment_of):
    """Weigh the terms of a query by a field of `BODY` and other texts."""
    others = ("cracking forms and installers", "passwords", "code", "tea", "coffee")
    field = LexicalField.of(segment_of([terms(text) for text in (BODY, *others)]))
    return lambda query: field.weigh(Counter(terms(query))).known_idf()


@pytest.mark.parametrize(
    ("query", "heading", "snippet"),
    [
        ("crack it", "Recover passwords", "Ask the owner, then crack the password. #no heading"),
        ("forms", "", "Intro about forms."),
        ("writing code", "Using C#", "Write code."),
        ("tea", "", ""),
        ("of the", "", ""),
    ],
)
def test_the_best_section_holds_the_weightiest_terms(idf_of, query, heading, snippet):
    assert best_section(BODY, idf_of(query)) == (heading, snippet)


def test_of_equal_sections_the_first_is_best(idf_of):
    body = "# One\nforms\n# Two\nforms"
    assert best_section(body, idf_of("forms")) == ("One", "forms")


def test_a_long_snippet_is_cut(idf_of):
    _, snippet = best_section("forms\n" * 200, idf_of("forms"))
    assert (len(snippet), snippet[-1]) == (240, "…")
    assert snippet.startswith("forms forms")


def test_an_explanation_names_features_terms_and_section(index):
    corpus = index.opened.corpus
    values = np.linspace(0, 1, len(FEATURES)).tolist()
    only = candidates(corpus, pdf_forms=values)
    query = form("list the fields of a form, please")
    calibration = default_calibration()
    (explanation,) = explained(corpus, query, only, BODY)
    assert explanation.features == dict(zip(FEATURES, values, strict=True))
    for name, value in explanation.features.items():
        assert explanation.contributions[name] == pytest.approx(calibration.weights[name] * value)
    assert explanation.matched_terms == {"metadata": ("form",), "body": ("list", "field")}
    assert (explanation.section, explanation.snippet) == best_section(
        BODY, corpus.lexical[-1].weigh(query.counts).known_idf()
    )


def test_each_hit_has_the_confidence_of_its_own_evidence(index):
    corpus, calibration = index.opened.corpus, default_calibration()
    rows = {"pdf_forms": all_of(0.1), "sql_tuning": all_of(0.9), "tea_timer": all_of(0.0)}
    nominated, query = candidates(corpus, **rows), form("plan forms")
    explanations = explained(corpus, query, nominated, "")
    query = replace(query, weights=weigh_terms(corpus, query.counts))
    _, judged = judged_in(corpus, query, nominated, calibration)
    for explanation, hit in zip(explanations, sorted(judged), strict=True):
        assert explanation.log_odds == calibration.log_odds_parts(hit.evidence)
        assert set(explanation.log_odds) == {*EVIDENCE, "intercept"}
        assert (
            explanation.own_score
            == hit.own_score
            == probability(sum(explanation.log_odds.values()))
        )
        assert bool(explanation.cut_by) == (hit.cut_by is not None)
        if hit.cut_by is not None:
            assert explanation.cut_by == corpus.documents[int(nominated.documents[hit.cut_by])].name
    assert (
        len({explanation.log_odds["lead"] for explanation in explanations}) > 1
        or not calibration.alone["lead"]
    )


def test_what_a_reader_said_is_explained(index):
    corpus = index.opened.corpus
    nominated, query = candidates(corpus, pdf_forms=all_of(0.5)), form("forms")
    query = replace(query, weights=weigh_terms(corpus, query.counts))
    calibration = replace(default_calibration(), reader=0.25)
    ranked, (judged,) = judged_in(corpus, query, nominated, calibration)
    evidence = {**judged.evidence, READER: -2.0}
    explanation = explain(corpus, query, ranked, Judged(0, evidence, 0.5, 0.75, 0), calibration, "")
    assert explanation.contributions[READER] == -0.5
    assert explanation.log_odds[READER] == -2 * calibration.read[READER]
    assert explanation.log_odds["intercept"] == calibration.read["intercept"]
    assert (explanation.own_score, explanation.cut_by) == (0.75, "pdf-forms")
    assert set(explanation.features) == {*FEATURES, READER}


@pytest.mark.parametrize("system", ["bm25", "dense", "rrf"])
def test_only_a_hybrid_score_rests_on_evidence(index, system):
    hits = index.search("flatten forms", explain=True, system=system)
    assert hits
    for hit in hits:
        assert (hit.explain.log_odds, hit.explain.cut_by) == ({}, "")
        assert hit.explain.own_score == hit.score
        assert set(hit.explain.features) == set(FEATURES)


def test_an_index_of_metadata_alone_explains_the_metadata(root, build):
    corpus = build(root, with_body=False).opened.corpus
    only = candidates(corpus, pdf_forms=all_of(0.0))
    (explanation,) = explained(corpus, form("list forms"), only, "")
    assert explanation.matched_terms == {"metadata": ("form",)}
    assert (explanation.section, explanation.snippet) == ("", "")
