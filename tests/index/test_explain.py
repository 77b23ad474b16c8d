"""Why a hit has its score."""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from skillsearch.index.lexical.builder import LexicalWriter
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.lexical.postings import LexicalSegment
from skillsearch.index.search.calibration import EVIDENCE, FEATURES
from skillsearch.index.search.evidence import find_evidence
from skillsearch.index.search.explain import best_section, explain
from skillsearch.index.search.fitted import default_calibration
from skillsearch.index.search.query_form import QueryForm, QueryView
from skillsearch.index.search.ranker import Candidates
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


def form(text, dimensions=512):
    """Analyse a query without embedding it."""
    view = QueryView(np.zeros(dimensions, np.float32), 1.0)
    return QueryForm(text, "en", Counter(terms(text)), (view,))


def candidates(corpus, **rows):
    """Return candidates with given features, by the names of their skills."""
    numbers = {corpus.documents.named(name.replace("_", "-"))[0]: name for name in rows}
    features = np.array([rows[numbers[number]] for number in sorted(numbers)], np.float64)
    return Candidates(np.array(sorted(numbers), np.int64), features)


def all_of(value):
    """Return a row of features that all have one value."""
    return [value] * len(FEATURES)


def index_of(*texts):
    """Index texts."""
    with tempfile.TemporaryDirectory() as folder:
        writer = LexicalWriter(Path(folder), "field")
        for number, text in enumerate(texts):
            writer.add(number, terms(text))
        writer.finish(len(texts))
        return LexicalField.of(LexicalSegment.load(Path(folder), "field"))


INDEX = index_of(BODY, "cracking forms and installers", "passwords", "code", "tea", "coffee")


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
def test_the_best_section_holds_the_weightiest_terms(query, heading, snippet):
    """The text before the first heading is a section too; without any term there is none."""
    assert best_section(BODY, form(query), INDEX) == (heading, snippet)


def test_of_equal_sections_the_first_is_best():
    """A tie is no reason to jump around."""
    body = "# One\nforms\n# Two\nforms"
    assert best_section(body, form("forms"), INDEX) == ("One", "forms")


def test_a_long_snippet_is_cut():
    """240 characters on one line, the last one telling that more follows."""
    _, snippet = best_section("forms\n" * 200, form("forms"), INDEX)
    assert (len(snippet), snippet[-1]) == (240, "…")
    assert snippet.startswith("forms forms")


def test_an_explanation_names_features_terms_and_section(index):
    """Terms by field: what the metadata holds is not repeated for the body."""
    corpus = index.opened.corpus
    values = np.linspace(0, 1, len(FEATURES)).tolist()
    only = candidates(corpus, pdf_forms=values)
    query = form("list the fields of a form, please")
    calibration = default_calibration()
    found = explain(corpus, query, only, 0, calibration, BODY)
    assert found.features == dict(zip(FEATURES, values, strict=True))
    for name, value in found.features.items():
        assert found.contributions[name] == pytest.approx(calibration.weights[name] * value)
    assert found.matched_terms == {"metadata": ("form",), "body": ("list", "field")}
    assert (found.section, found.snippet) == best_section(BODY, query, corpus.lexical_full)


def test_confidence_is_that_in_the_best_and_the_others_lie_behind(index):
    """By what the calibration says of the evidence for the best, and of the sums."""
    corpus = index.opened.corpus
    rows = {"pdf_forms": all_of(0.1), "sql_tuning": all_of(0.9), "tea_timer": all_of(0.0)}
    some = candidates(corpus, **rows)
    query, calibration = form("plan forms"), default_calibration()
    found = [explain(corpus, query, some, row, calibration, "") for row in range(3)]
    evidence = find_evidence(corpus, query, int(some.documents[1]), some.features[1])
    assert found[0].confidence == calibration.confidence(evidence)
    assert found[0].confidence == found[1].confidence == found[2].confidence
    assert set(found[0].confidence) == {*EVIDENCE, "intercept"}
    weight = calibration.lag * sum(calibration.weights.values())
    assert [part.behind for part in found] == pytest.approx([0.8 * weight, 0, 0.9 * weight])


def test_of_equal_sums_the_first_document_is_the_best(index):
    """As in the ranking, though the evidence may favour the other."""
    corpus = index.opened.corpus
    both = candidates(corpus, pdf_forms=all_of(0.5), sql_tuning=all_of(0.5))
    query = form("plan")
    found = explain(corpus, query, both, 1, default_calibration(), "")
    evidence = find_evidence(corpus, query, int(both.documents[0]), both.features[0])
    assert found.confidence == default_calibration().confidence(evidence)
    assert (found.confidence["rarest_term"], found.behind) == (0, 0)
    assert found.matched_terms["body"] == ("plan",)


def test_an_index_of_metadata_alone_explains_the_metadata(root, build):
    """There is no field of the body."""
    corpus = build(root, with_body=False).opened.corpus
    only = candidates(corpus, pdf_forms=all_of(0.0))
    found = explain(corpus, form("list forms"), only, 0, default_calibration(), "")
    assert found.matched_terms == {"metadata": ("form",)}
    assert (found.section, found.snippet) == ("", "")
