"""Readers by their spec or setting, each loaded once, and specs that mean none."""

import logging

import pytest

from skillsearch.errors import EmbedderError
from skillsearch.readers import loading
from skillsearch.readers.loading import Readers, load_reader, reader_spec
from skillsearch.settings import config


@pytest.mark.parametrize("spec", ["", "st:", "auto", "word2vec", "no/such/folder", "\0", "a" * 300])
def test_an_unknown_reader_is_refused_with_those_there_are(spec):
    with pytest.raises(EmbedderError, match="use one of: packaged, st:NAME_OR_FOLDER, FOLDER"):
        load_reader(spec)


def test_readers_are_loaded_once(foreign):
    readers, folder = Readers(), str(foreign())
    assert readers.get(folder) is readers.get(folder)
    specs = [reader_spec(setting) for setting in ("auto", "always", folder)]
    assert specs == ["packaged", "packaged", folder]


def test_a_packaged_reader_that_cannot_be_loaded_is_told_once(monkeypatch, caplog, tmp_path):
    """Skills are then searched without it; a model that was asked for is an error."""
    monkeypatch.setattr(loading, "PACKAGED_SHA256", "0" * 64)
    readers = Readers()
    with caplog.at_level(logging.WARNING):
        assert [readers.get("packaged"), readers.get("packaged")] == [None, None]
    assert len(caplog.records) == 1
    with pytest.raises(EmbedderError, match="is not a reader"):
        readers.get(str(tmp_path))


def test_the_setting_counts_if_nothing_is_asked_for(monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_READER", "off")
    choices = map(Readers().choice, (None, "always", None))
    assert list(choices) == ["off", "always", "off"]
    assert config.load_settings().reader == "off"
