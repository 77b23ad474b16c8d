"""A user and two projects, with a skill each; and what three commands show of them."""

import json
from contextlib import chdir

import pytest


@pytest.fixture
def world(home, make_skill, monkeypatch):
    """Make a user with a skill, and two projects beside each other with a skill each."""
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    monkeypatch.setenv("SKILLSEARCH_DAEMON", "off")
    work = home / "work"
    for folder, name, description in (
        (home, "fill-form", "Fill in PDF forms and save them. Use for forms."),
        (work / "blog", "publish-post", "Publish a blog post to the site. Use when it is ready."),
        (
            work / "shop",
            "refund-order",
            "Refund an order of the web shop. Use when asked.",
        ),
    ):
        make_skill(folder / ".claude" / "skills", name, description)
    for project in work.iterdir():
        (project / ".git").mkdir()
    monkeypatch.chdir(home)
    return work


@pytest.fixture
def indexed(world, cli):
    """Index the user's skills alone, as from the home folder; return the folder of the projects."""
    assert cli("index").exit_code == 0
    return world


@pytest.fixture
def blog(indexed):
    return indexed / "blog"


@pytest.fixture
def shop(indexed):
    return indexed / "shop"


@pytest.fixture
def by_query(cli):
    """List the skills that ``query`` shows for a request."""

    def names(request, folder=None):
        result = json.loads(cli("query", request, "--json").stdout)
        return [hit["name"] for hit in (*result["hits"], *result["perhaps"])]

    return names


@pytest.fixture
def by_list(cli):
    """List the skills that ``list`` shows."""

    def names(request="", folder=None):
        return [skill["name"] for skill in json.loads(cli("list", "--json").stdout)["skills"]]

    return names


@pytest.fixture
def by_prompt(cli):
    """List the skills that ``prompt`` offers for a request."""

    def names(request, folder=None):
        return json.loads(cli("prompt", request, "--json").stdout)["skills"]

    return names


@pytest.fixture
def ask_from(cli):
    """Ask anything from some folders, so that the index knows their projects."""

    def ask(*folders):
        for folder in folders:
            with chdir(folder):
                assert cli("query", "anything").exit_code == 0

    return ask
