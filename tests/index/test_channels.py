"""Which dense channels an index may have, needs and has."""

import json

import pytest

from skillsearch.embedders.embedding import HashingEmbedder
from skillsearch.environ import speaks_english
from skillsearch.index.dense.channels import (
    OTHER_LANGUAGE_SEEN,
    ChannelSettings,
    channels_fit,
    count_needed_by,
    expects_others,
    possible_models,
)
from skillsearch.index.documents import KNOWN, Document

LATIN = frozenset({"Latin"})
FIRST = ChannelSettings("onnx", "onnx 12", "0123", 384, LATIN)
SECOND = ChannelSettings("multilingual", "multilingual 34", "4567", 384, None)
BOTH = ("onnx", "multilingual")


@pytest.fixture
def speak(monkeypatch):
    def speak(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return speak


def documents(*languages, trust=1.0):
    return [
        Document("s:x", "x", "", "", "", "", "", False, keys=(), trust=trust, language=language)
        for language in languages
    ]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, True),
        ({"LANG": ""}, True),
        ({"LANG": "C"}, True),
        ({"LANG": "C.UTF-8"}, True),
        ({"LANG": "POSIX"}, True),
        ({"LANG": "en_GB"}, True),
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LANG": "zh_CN.UTF-8"}, False),
        ({"LANG": "de"}, False),
        ({"LANG": "es_ES@euro"}, False),
        ({"LANG": "ca_ES.UTF-8"}, False),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, True),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "ko_KR.UTF-8"}, False),
        ({"LANG": "en_US", "LC_MESSAGES": "en_US", "LC_ALL": "ja_JP.UTF-8"}, False),
        ({"LANG": "ja_JP", "LC_MESSAGES": "ja_JP", "LC_ALL": "C"}, True),
        ({"LANG": "ja_JP", "LC_MESSAGES": "", "LC_ALL": ""}, False),
    ],
)
def test_who_speaks_english(speak, variables, expected):
    """LC_ALL before LC_MESSAGES before LANG; what is empty is not set, and nothing is English."""
    speak(**variables)
    assert speaks_english() is expected


def count_needed(models, languages, found, *, expected):
    others = sum(document.fluency < KNOWN for document in found)
    return count_needed_by(models, languages, others, len(found), expected=expected)


@pytest.mark.parametrize(
    ("languages", "scripts", "expected"),
    [
        ("auto", LATIN, BOTH),
        ("all", LATIN, BOTH),
        ("english", LATIN, BOTH[:1]),
        ("auto", None, BOTH[:1]),
        ("all", None, BOTH[:1]),
    ],
)
def test_the_models_that_an_index_may_have(languages, scripts, expected):
    """A second one where it is wanted, and the first does not read everything."""
    assert possible_models("onnx", scripts, languages) == expected


@pytest.mark.parametrize(
    ("other", "size", "expected"),
    [(0, 100, 1), (1, 101, 1), (1, 100, 2), (2, 100, 2), (1, 1, 2), (0, 0, 1)],
)
def test_one_skill_in_a_hundred_needs_a_second_channel(other, size, expected):
    found = documents(*["zh"] * other, *["en"] * (size - other))
    assert count_needed(BOTH, "auto", found, expected=False) == expected


def test_a_skill_whose_language_cannot_be_told_needs_no_second_channel():
    assert count_needed(BOTH, "auto", documents("", "", "en"), expected=False) == 1
    assert count_needed(BOTH, "auto", documents("", "", "pt"), expected=False) == 2


@pytest.mark.parametrize(("trust", "expected"), [(0.49, 2), (0.5, 1), (1.0, 1)])
def test_a_skill_that_is_half_readable_needs_no_second_channel(trust, expected):
    assert count_needed(BOTH, "auto", documents("en", trust=trust), expected=False) == expected


def test_all_languages_need_all_channels():
    assert (
        count_needed(BOTH, "all", documents("en"), expected=False)
        == count_needed(BOTH, "all", [], expected=False)
        == 2
    )
    assert count_needed(BOTH[:1], "english", documents("zh"), expected=False) == 1
    assert count_needed(BOTH[:1], "auto", documents("zh"), expected=False) == 1


def test_where_other_queries_are_expected_both_channels_are_needed():
    assert count_needed(BOTH, "auto", documents("en"), expected=True) == 2
    assert count_needed(BOTH[:1], "auto", documents("en"), expected=True) == 1


def test_other_queries_are_expected_by_locale_and_after_one_was_asked(speak, tmp_path):
    speak(LANG="en_GB.UTF-8")
    assert not expects_others(tmp_path)
    (tmp_path / OTHER_LANGUAGE_SEEN).touch()
    assert expects_others(tmp_path)
    speak(LANG="ko_KR.UTF-8")
    assert expects_others(tmp_path / "absent")


ALWAYS, NEVER = {0, 1}, set()
"""Whether it could have had a second channel when it was made, does not matter."""


@pytest.mark.parametrize(
    ("languages", "expected", "has_one_if", "has_two_if"),
    [
        ("auto", False, {1}, ALWAYS),
        ("auto", True, NEVER, ALWAYS),
        ("all", False, NEVER, ALWAYS),
        ("all", True, NEVER, ALWAYS),
        ("english", False, ALWAYS, NEVER),
        ("english", True, ALWAYS, NEVER),
    ],
)
def test_an_index_that_lacks_a_channel_or_has_one_too_many_is_made_again(
    languages, expected, has_one_if, has_two_if
):
    """One channel is right where a second was looked at and not needed; two where they work."""
    for could in (0, 1):
        has_one = channels_fit([FIRST], languages, bool(could), expected=expected)
        has_two = channels_fit([FIRST, SECOND], languages, bool(could), expected=expected)
        assert (has_one, has_two) == (could in has_one_if, could in has_two_if)


@pytest.mark.parametrize("languages", ["auto", "all", "english"])
def test_a_model_that_reads_everything_is_enough(languages):
    assert channels_fit([SECOND], languages, could=False, expected=True)


@pytest.mark.parametrize("channel", [FIRST, SECOND])
def test_a_channel_comes_back_from_json(channel):
    values = json.loads(json.dumps(channel.to_dict()))
    assert ChannelSettings.from_dict(values) == channel
    assert ChannelSettings.from_dict(values).to_dict() == channel.to_dict()


def test_a_channel_is_described_by_its_embedder():
    embedder = HashingEmbedder(64, LATIN)
    assert ChannelSettings.of("hashing", embedder) == ChannelSettings(
        "hashing", "hashing", embedder.fingerprint, 64, LATIN
    )
