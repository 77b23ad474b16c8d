"""Tests that the table of hosts names no variable that is not read."""

import re

from skillsearch.environ import HOST_FOLDERS
from skillsearch.hosts.entries import HOSTS
from skillsearch.hosts.table import folder_of, hosts


def test_every_variable_of_the_table_is_one_that_is_read():
    """Else it would count for the host alone."""
    templates = [folder for row in hosts().values() for folder in row["skills"]]
    templates += [row["plugins"][1] for row in hosts().values() if "plugins" in row]
    named = {name for text in templates for name in re.findall(r"\{(\w+):", text)}
    named |= {row["user"][0] for row in HOSTS.values()} - {""}
    assert named == set(HOST_FOLDERS)


def test_a_folder_of_the_table_is_absolute(home):
    """Without any variable it lies in the home folder, or is one of the system."""
    for row in hosts().values():
        for text in row["skills"]:
            assert folder_of(text).startswith((f"{home}/", "/etc/"))
