"""Searches by the settings, without the command line: each way gives the same answer."""

from dataclasses import replace

import pytest

from skillsearch.daemon.searching import ask_daemon, search, search_many
from skillsearch.index.search.options import SearchOptions
from skillsearch.settings.config import load_settings

REQUESTS = ("make some tea", "brew coffee", "file my taxes")


@pytest.fixture
def settings(drinks_index, index_dir):
    return replace(load_settings(index_dir=index_dir), daemon="off", threshold=0.0)


@pytest.fixture
def options(settings):
    return SearchOptions.of(settings)


def hits_of(result):
    """Return an answer but for the time that it took."""
    return replace(result, seconds=0.0).to_dict()


def test_a_request_gets_the_answer_that_it_gets_among_many(settings, options):
    many = list(map(hits_of, search_many(REQUESTS, settings, options, print)))
    assert [hits_of(search(text, settings, options).result) for text in REQUESTS] == many
    assert all(answer["hits"] for answer in many)


def test_the_daemon_answers_as_this_process_does(settings, options, serve):
    served = replace(settings, daemon="auto")
    assert ask_daemon(REQUESTS[0], served, options) is None  # none runs yet
    serve()
    answer = ask_daemon(REQUESTS[0], served, options)
    assert hits_of(answer.result) == hits_of(search(REQUESTS[0], settings, options).result)
    assert ask_daemon(REQUESTS[0], settings, options) is None
