"""Tests of the first searches of a server whose skills are not indexed, with a slow embedder."""

import asyncio
import re
import sys
import time
from contextlib import contextmanager

import pytest
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

SKILLS = 100
MOST_CALLS = 2000
SLOW = """
import os, time
from itertools import count
from pathlib import Path
from skillsearch.cli.app import main
from skillsearch.embedders.embedder import LOADERS
from skillsearch.embedders.embedding import HashingEmbedder

class Slow(HashingEmbedder):
    places = count()

    def embed_stream(self, texts):
        for result in HashingEmbedder.embed_stream(self, texts):
            place = next(self.places)
            while place == int(os.environ["STOP"]) and not Path(os.environ["GATE"]).exists():
                time.sleep(0.02)
            time.sleep(0.03)
            yield result

LOADERS["hashing"] = Slow
main()
"""
"""A server that takes three seconds for a hundred texts, and waits for a file at one of them."""
SEARCH = ("search_skills", {"query": "steep green tea"})


@pytest.fixture
def gate(tmp_path):
    return tmp_path / "gate"


@pytest.fixture
def stop():
    """Return the place of the text before which the embedder waits."""
    return 10


@pytest.fixture
def variables(variables, gate, stop):
    return {**variables, "GATE": str(gate), "STOP": str(stop)}


@pytest.fixture(scope="module")
def command():
    return [sys.executable, "-c", SLOW, "mcp"]


@pytest.fixture
def many(drinks, make_skill):
    for number in range(SKILLS):
        make_skill(drinks, f"s{number}", f"Do number {number} of many things.")
    return drinks


@pytest.fixture
def by_stdio(command, variables, many):
    @contextmanager
    def start():
        program, *rest = [*command, str(many)]
        yield stdio_client(StdioServerParameters(command=program, args=rest, env=variables))

    return start


@pytest.fixture
def by_http(launch, command, variables, tmp_path, many):
    @contextmanager
    def start():
        with launch(tmp_path, variables, many, "--http", "127.0.0.1:0") as process:
            line = process.stderr.readline().decode()
            yield re.fullmatch(r"Serving skills at (\S+)\n", line)[1]

    return start


@pytest.mark.parametrize(
    ("way", "mode"),
    [
        pytest.param("by_stdio", "auto", marks=pytest.mark.night),
        pytest.param("by_stdio", "legacy", marks=pytest.mark.slow),
        pytest.param("by_http", "auto", marks=pytest.mark.slow),
    ],
)
def test_words_answer_first_and_a_search_that_waits_is_told_how_far_the_index_is(
    request, talk, gate, way, mode
):
    reports = []

    async def tell(progress, total, message):
        reports.append((progress, total, message))

    async def say(client):
        await client.list_tools()  # from now on the client checks what is structured
        answers = [await client.call_tool(*SEARCH)]
        gate.touch()
        while "words_only" in answers[-1].structured_content:
            reports.clear()
            answers.append(await client.call_tool(*SEARCH, progress_callback=tell))
            await asyncio.sleep(0.1)
        return answers

    with request.getfixturevalue(way)() as target:
        answers = talk(target, say, mode)
    *by_words, last = [answer.structured_content for answer in answers]
    for record in (*by_words, last):
        assert [*record["skills"], *record["perhaps"]][0]["name"] == "steep-tea"
    shares = [record["words_only"]["indexed"] for record in by_words]
    assert 0 <= shares[0] <= 11 / 103
    assert shares == sorted(shares)
    assert answers[0].content[0].text.splitlines()[-1] == by_words[0]["note"]
    assert "note" not in last
    numbers = [progress for progress, _, _ in reports]
    assert len(numbers) > 1
    assert numbers == sorted(set(numbers))
    assert {total for _, total, _ in reports} == {2 * (SKILLS + 3)}
    assert all(re.fullmatch(r"Embedding texts: \d+ of about 103", text) for _, _, text in reports)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [90])
def test_progress_is_told_before_the_answer_alone_and_only_if_asked_for(
    gate, program, open_wire, many
):
    """On the wire itself, in the order in which messages are written.

    With so little left to embed, a call waits for it; it is done once progress was told.
    """
    name, arguments = SEARCH
    params = {"name": name, "arguments": arguments}
    messages, number = [], 0
    with program(many) as process:
        host = open_wire(process)
        while not messages or "words_only" in messages[-1]["result"]["structuredContent"]:
            number += 2
            host.send("tools/call", params | {"_meta": {"progressToken": number}}, number)
            host.send("tools/call", params, number + 1)
            waited_for = {number, number + 1}
            time.sleep(0.02)
            while waited_for:
                messages.append(host.read())
                if "id" not in messages[-1] or number > MOST_CALLS:
                    gate.touch()
                waited_for.discard(messages[-1].get("id"))
        host.process.stdin.close()
        assert host.rest() == []
    reports = [message for message in messages if "id" not in message]
    assert {report["method"] for report in reports} == {"notifications/progress"}
    tokens = [report["params"]["progressToken"] for report in reports]
    assert set(tokens) <= set(range(2, number + 1, 2))
    ids = [message.get("id") for message in messages]
    assert all(
        messages.index(report) < ids.index(token)
        for report, token in zip(reports, tokens, strict=True)
    )


@pytest.mark.parametrize("stop", [90])
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("auto", marks=pytest.mark.slow),
        pytest.param("legacy", marks=pytest.mark.night),
    ],
)
def test_a_search_that_waits_is_ended_when_it_is_cancelled(by_stdio, talk, gate, mode):
    reports = []

    async def tell(progress, total, message):
        reports.append(progress)

    async def cancelled(client):
        """Cancel a search that waits; one that words answered before it was told is asked again."""
        while True:
            reports.clear()
            waiting = asyncio.create_task(client.call_tool(*SEARCH, progress_callback=tell))
            while not reports and not waiting.done():
                await asyncio.sleep(0.02)
            waiting.cancel()
            outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
            if "words_only" not in getattr(outcome, "structured_content", {}):
                return outcome
            await asyncio.sleep(0.1)

    async def say(client):
        outcome = await cancelled(client)
        before = len(reports)
        gate.touch()
        answer = await client.call_tool("load_skill", {"name": "steep-tea"})
        await asyncio.sleep(1)
        return outcome, before, answer

    with by_stdio() as target:
        outcome, before, answer = talk(target, say, mode)
    assert isinstance(outcome, asyncio.CancelledError)
    assert answer.structured_content["name"] == "steep-tea"
    assert len(reports) == before
