"""The folders of a client: asked for until it answers, and again once they changed."""

from types import SimpleNamespace

import anyio
import pytest

mt = pytest.importorskip("mcp_types")

from skillsearch.mcp_server import client_folders  # noqa: E402
from skillsearch.mcp_server.client_folders import ClientFolders  # noqa: E402
from skillsearch.mcp_server.served_library import FOLDERS  # noqa: E402


class Session:
    """A client that answers with its next folders, or never where these are None."""

    client_capabilities = SimpleNamespace(roots=SimpleNamespace())
    can_send_request = True

    def __init__(self, *answers):
        """Begin with the first answer; `release` lets the last one come."""
        self.answers, self.requests = list(answers), 0
        self.release = anyio.Event()

    async def send_request(self, request, kind, metadata):
        self.requests += 1
        uris = self.answers.pop(0) if self.answers else None
        if uris is None:
            await anyio.sleep_forever()
        if not self.answers:
            await self.release.wait()
        return mt.ListRootsResult(roots=[mt.Root(uri=uri) for uri in uris])


async def seen(folders, session, method="tools/call"):
    async def answer(ctx):
        return FOLDERS.get()

    request_id = None if method.startswith("notifications/") else 1
    message = SimpleNamespace(session=session, method=method, request_id=request_id)
    return await folders(message, answer)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(client_folders, "SECONDS", 0.05)


def test_a_client_that_is_late_once_is_asked_again():
    """It would otherwise see the project that the server runs in until it ends."""

    async def run():
        session, folders = Session(None, ["file:///w/blog"], ["file:///never"]), ClientFolders()
        return [await seen(folders, session) for _ in range(3)], session.requests

    assert anyio.run(run) == ([None, ("/w/blog",), ("/w/blog",)], 2)


def test_a_client_that_never_answers_is_asked_no_more():
    async def run():
        session, folders = Session(), ClientFolders()
        return [await seen(folders, session) for _ in range(5)], session.requests

    assert anyio.run(run) == ([None] * 5, client_folders.MAX_UNANSWERED)


def test_a_client_says_that_its_folders_changed():
    async def run():
        session = Session(["file:///w/blog"], None, ["file:///w/shop"], ["file:///never"])
        folders, answers = ClientFolders(), []
        answers.append(await seen(folders, session))
        await seen(folders, session, "notifications/roots/list_changed")
        answers += [await seen(folders, session), await seen(folders, session)]
        return answers

    assert anyio.run(run) == [("/w/blog",), ("/w/blog",), ("/w/shop",)]


def test_an_answer_of_before_a_change_is_not_kept(monkeypatch):
    """The change was told while the client was asked."""
    monkeypatch.setattr(client_folders, "SECONDS", 60)

    async def run():
        session, folders = Session(["file:///w/blog"]), ClientFolders()
        async with anyio.create_task_group() as group:
            group.start_soon(seen, folders, session)
            await anyio.wait_all_tasks_blocked()
            await seen(folders, session, "notifications/roots/list_changed")
            session.answers.append(["file:///w/shop"])
            session.release.set()
        return await seen(folders, session)

    assert anyio.run(run) == ("/w/shop",)
