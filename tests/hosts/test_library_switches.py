"""Switching skills off in the file of a host, and on again as it was."""

import pytest

from skillsearch.errors import ConfigError
from skillsearch.hosts.entries import switch_entry
from skillsearch.hosts.files import FileChange, host_file, switched_off
from skillsearch.hosts.library_moves import open_journal
from skillsearch.hosts.library_switches import switch_off, switch_on
from skillsearch.hosts.table import with_key

HOSTS = sorted(with_key("switch"))


def change_of(host, names):
    file = host_file(host, hook="hook" in with_key("switch")[host])
    return FileChange.plan(file, [switch_entry(host, name, is_off=True) for name in names])


@pytest.mark.parametrize("host", HOSTS)
def test_what_was_switched_off_is_on_again_and_the_file_as_before(host, home):
    with open_journal() as journal:
        change = change_of(host, ["tea", "coffee"])
        switch_off(journal, host, ["tea", "coffee"], change)
        assert switched_off(host) == {"tea", "coffee"}
        tea, coffee = journal.away()
        assert "tea" in switch_on(journal, tea)
        assert switched_off(host) == {"coffee"}
        assert journal.away_named(["COFFEE"]) == [coffee]
        switch_on(journal, coffee)
        assert switch_on(journal, coffee) == ""  # nothing is left to be done
        assert (switched_off(host), journal.away()) == (set(), [])


@pytest.mark.parametrize("host", HOSTS)
def test_one_that_cannot_be_written_is_not_away(host, home):
    with open_journal() as journal:
        change = change_of(host, ["tea"])
        change.path.parent.mkdir(parents=True, exist_ok=True)
        change.path.write_text("{}")  # by another program, since the change was planned
        with pytest.raises(ConfigError, match="was changed by another program"):
            switch_off(journal, host, ["tea"], change)
        assert journal.away() == []
