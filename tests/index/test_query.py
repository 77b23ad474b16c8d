"""A query as every channel sees it, and how far each is trusted."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillsearch.embedders.embedding import EmbeddedText, HashingEmbedder, embed
from skillsearch.index.dense.channels import QueryEmbedders
from skillsearch.index.search.analysis import analyse_queries, language_features, trusts
from skillsearch.index.search.calibration import LANGUAGE_FEATURES
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.query import QueryForm, QueryView, shares_of_trust
from skillsearch.text.tokenizer import terms

SHARE = st.floats(0, 1)


def view(trust, dimensions=512):
    """Return what a channel makes of a query, but for its vector."""
    return QueryView(np.zeros(dimensions, np.float32), trust)


def form(*trusts):
    return QueryForm("", "", Counter(), tuple(map(view, trusts)))


def shares(index, query, *, trust, fluency):
    """Return the shares of trust in a query about the first documents of an index."""
    store = index.opened.corpus.documents
    more = [1.0] * (len(store) - len(trust))
    store.trust = np.array([*trust, *more], np.float32)
    store.fluency = np.array([*fluency, *more], np.float32)
    found = shares_of_trust(index.opened.corpus, query, np.arange(len(trust)))
    return [part.tolist() for part in found]


def test_one_channel_shares_with_nobody(index):
    found = shares(index, form(0.5), trust=[1.0, 0.5, 0.0], fluency=[0.0, 0.0, 0.0])
    assert found == [[0.5, 0.25, 0.0], [0.0, 0.0, 0.0], [0.5, 0.75, 1.0]]


def test_two_channels_share_by_the_language(index):
    """The share that is not English goes to the second; the shares add up to 1."""
    found = shares(index, form(0.5, 1.0), trust=[1.0] * 3, fluency=[1.0, 0.5, 0.0])
    assert found == [[0.5, 0.25, 0.0], [0.5, 0.75, 1.0], [0.0, 0.0, 0.0]]


def test_a_second_channel_that_is_not_asked_has_no_share(index):
    """An English query of a corpus that has hardly any other skills: as without that channel."""
    query = form(0.5, 0.0)
    found = shares(index, query, trust=[1.0, 0.5, 0.0], fluency=[1.0, 0.0, 0.0])
    assert found == [[0.5, 0.25, 0.0], [0.0, 0.0, 0.0], [0.5, 0.75, 1.0]]
    assert found == shares(index, form(0.5), trust=[1.0, 0.5, 0.0], fluency=[1.0, 0.0, 0.0])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(SHARE, min_size=1, max_size=2), SHARE, SHARE)
def test_the_shares_sum_to_one(index, trusts, trust, fluency):
    found = shares(index, form(*trusts), trust=[trust], fluency=[fluency])
    parts = [part for (part,) in found]
    assert sum(parts) == pytest.approx(1)
    assert min(parts) >= 0


class Listener:
    """Gives each text the same vector, and adds to a list what is embedded."""

    def __init__(self, dimensions, number, heard):
        self.dimensions, self.number, self.heard = dimensions, number, heard

    def embed_stream(self, texts, *, role="passage"):
        assert role == "query"
        for position, text in enumerate(texts):
            if self.heard is not None:
                self.heard.append((self.number, text))
            vector = np.full(self.dimensions, self.number + 1, np.float32)
            yield EmbeddedText(position, vector, False)


def ask(text, index, *, channels=2, heard=None, **features):
    """Analyse a query where only the given clues count, and add to a list what is embedded."""

    class Listening(QueryEmbedders):
        """Embedders that know their number, of as many channels as can be asked."""

        def count_usable(self, _):
            return channels

        def matching(self, _, number):
            return Listener(512 if number == 0 else 256, number, heard)

    coefficients = dict.fromkeys((*LANGUAGE_FEATURES, "intercept"), 0.0) | features
    calibration = replace(default_calibration(), clues=coefficients)
    return analyse_queries([text], index.opened, calibration, Listening())[0]


def test_a_query_is_analysed_as_documents_are(index):
    text = "Fill in the forms, all forms!"
    form = index.analyse(text)
    (found,) = form.views
    assert (form.text, form.language) == (text, "en")
    assert form.counts == Counter(terms("fill forms forms"))
    expected = embed(HashingEmbedder(), [text])[0]
    np.testing.assert_array_equal(found.vector, expected)
    assert found.trust == 1.0


@pytest.fixture
def both(root, build, polyglot):
    return build(root, languages="all")


@pytest.mark.parametrize(
    ("log_odds", "heard", "trusts"),
    [(5.0, [0], [1.0, 0.0]), (0.0, [0, 1], [0.5, 1.0]), (-5.0, [0, 1], [0.0, 1.0])],
)
def test_only_a_channel_that_has_a_say_is_asked(both, log_odds, heard, trusts):
    """The vector of another is zero; the first has one as if it were alone, if it is not."""
    found, texts = [], ["video", "video формы"]
    form = ask("video формы", both, heard=found, intercept=log_odds)
    assert found == [(channel, texts[channel]) for channel in heard]
    assert [view.trust for view in form.views] == trusts
    assert [view.vector.max() for view in form.views] == [
        (channel + 1) * (trust > 0) for channel, trust in enumerate(trusts)
    ]
    assert (form.alone is None) == (heard == [0])
    if form.alone is not None:
        assert (form.alone.vector.max(), form.alone.trust) == (1, 1.0)
    assert [len(view.vector) for view in form.views] == [512, 256]


@pytest.mark.parametrize(
    ("text", "clue", "expected"),
    [
        ("please cut the video for me", "english", 1.0),
        ("please cut the video for me", "other_language", 0.0),
        ("剪辑视频", "other_language", 1.0),
        ("视频 ab", "other_letters", 0.5),
        ("flatten forms", "overlap", 1.0),
        ("zzz", "overlap", 0.0),
    ],
)
def test_a_query_gives_its_clues(both, text, clue, expected):
    form = ask(text, both, **{clue: 1.0})
    assert form.views[0].trust == pytest.approx(1 / (1 + np.exp(-expected)))


def test_a_channel_that_cannot_be_asked_is_as_if_it_were_not_there(both):
    heard = []
    form = ask("视频 ab", both, channels=1, heard=heard, intercept=-5.0)
    assert [view.trust for view in form.views] == [1.0]
    assert ask("剪辑视频", both, channels=1, heard=heard).views[0].trust == 0.0
    assert heard == [(0, "ab")]


@pytest.mark.parametrize(
    ("fluency", "expected"),
    [
        (1.0, (1.0, 0.0)),
        (0.95, (1.0, 0.0)),
        (0.9, (1.0, 0.0)),
        (0.89, (0.89, 1.0)),
        (0.5, (0.5, 1.0)),
        (0.11, (0.11, 1.0)),
        (0.05, (0.0, 1.0)),
        (0.0, (0.0, 1.0)),
    ],
)
def test_who_is_sure_answers_alone(fluency, expected):
    assert trusts(fluency, 0.0) == expected


@pytest.mark.parametrize(("share", "is_asked"), [(0, 0.0), (0.29, 0.0), (0.3, 1.0), (1, 1.0)])
def test_in_a_mixed_corpus_the_second_channel_always_has_a_say(share, is_asked):
    assert trusts(1.0, share) == (1.0, is_asked)
    assert trusts(0.6, share) == (0.6, 1.0)
    assert trusts(0.0, share) == (0.0, 1.0)


@given(st.floats(0, 1), st.floats(0, 1))
def test_some_channel_always_has_a_say(fluency, share):
    first, second = trusts(fluency, share)
    assert 0 <= first <= 1
    assert second in (0.0, 1.0)
    assert first == 1.0 or second == 1.0


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("cut the video", "en", (1, 0, 0)),
        ("ffmpeg h264", "", (0, 0, 0)),
        ("剪辑视频", "zh", (0, 1, 1)),
        ("剪辑 mp4", "zh", (0, 1, 2 / 4)),
        ("Äpfel schälen", "de", (0, 1, 2 / 12)),
        ("café", "", (0, 0, 1 / 4)),
        ("!? 42", "", (0, 0, 0)),
        ("", "", (0, 0, 0)),
    ],
)
def test_the_clues_of_a_query_by_hand(text, language, expected):
    values = [*map(float, expected), 0.25]
    assert language_features(text, language, 0.25) == pytest.approx(
        dict(zip(LANGUAGE_FEATURES, values, strict=True))
    )
