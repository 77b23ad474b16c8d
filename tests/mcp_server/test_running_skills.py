"""Tests of commands of skills that clients run through the server."""

import asyncio
import signal
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from skillsearch.agents.tool import Deferred, Tool, ToolArguments, Toolset
from skillsearch.errors import ConfigError
from skillsearch.execution.isolation.local import LocalExecutor
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.workspaces.workspace import Workspaces
from skillsearch.library.thread import LibraryThread
from skillsearch.mcp_server.calls import ERROR_KEY, Calls
from skillsearch.mcp_server.session_tools import ServedTools

FIBONACCI = """\
import sys

a, b = 0, 1
for _ in range(int(sys.argv[1])):
    print(a)
    a, b = b, a + b
"""
"""Seconds that a command may take on a slow machine, far fewer than one that is cancelled would."""
COMMAND = "python3 scripts/fib.py 5 > out/fib.txt && echo done && echo careful >&2"


@pytest.fixture
def maths(tmp_path, make_skill):
    folder = make_skill(tmp_path / "skills", "python-math", "Small utilities for math.").parent
    (folder / "scripts").mkdir()
    (folder / "scripts" / "fib.py").write_text(FIBONACCI, encoding="utf-8")
    return tmp_path / "skills"


@pytest.fixture
def runner(tmp_path):
    with SkillRunner(LocalExecutor(), workspaces=Workspaces(tmp_path / "workspaces")) as made:
        yield made


def run(**arguments):
    call = {"name": "python-math", **arguments}
    return lambda client: client.call_tool("run_skill_script", call)


def test_a_command_is_run_and_its_files_come_back(make_server, talk, maths, runner):
    say = run(command=f"{COMMAND}; exit 3", output_files=["out/*.txt"])
    result = talk(make_server(maths, runner=runner), say)
    content = result.structured_content
    assert (content["stdout"], content["stderr"], content["exit_code"]) == (
        "done\n",
        "careful\n",
        3,
    )
    assert not result.is_error  # the model sees the exit code
    (file,) = content["output_files"]
    assert (file["name"], file["content"]) == ("out/fib.txt", "0\n1\n1\n2\n3\n")
    (text,) = result.content
    lines = text.text.splitlines()
    assert lines[0].startswith("[exit code 3, ")
    assert lines[0].endswith(" ms, executor local]")
    assert "[stderr]" in lines
    assert "[file out/fib.txt: text/plain, 10 bytes]" in lines


def test_without_leave_there_is_no_tool_that_runs(make_server, talk, maths):
    async def say(client):
        names = {tool.name for tool in (await client.list_tools()).tools}
        return names, await run(command="ls")(client)

    names, result = talk(make_server(maths), say)
    assert "run_skill_script" not in names
    assert result.meta[ERROR_KEY]["code"] == "running-is-off"
    assert "skillsearch mcp --allow-run" in result.meta[ERROR_KEY]["next_step"]


def test_a_tool_that_runs_says_that_it_changes_things(make_server, talk, maths, runner):
    tools = talk(make_server(maths, runner=runner), lambda client: client.list_tools()).tools
    assert [tool.name for tool in tools if not tool.annotations.read_only_hint] == [
        "run_skill_script"
    ]


def test_other_calls_are_answered_while_a_command_runs(make_server, talk, maths, runner):
    async def say(client):
        answers = []

        async def slow():
            await run(command="sleep 1")(client)
            answers.append("slow")

        async def quick():
            await anyio.sleep(0.3)
            await client.call_tool("load_skill", {"name": "python-math"})
            answers.append("quick")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(slow)
            tasks.start_soon(quick)
        return answers

    assert talk(make_server(maths, runner=runner), say) == ["quick", "slow"]


@pytest.mark.slow
def test_a_call_that_is_cancelled_while_it_waits_is_never_begun(wire, maths, tmp_path, wait_for):
    begun, go_on, mark = (tmp_path / name for name in ("begun", "go-on", "mark"))
    with wire(maths, "--allow-run", "--executor", "local") as host:

        def call(command):
            return {"name": "run_skill_script", "arguments": {"name": "python-math", **command}}

        wait = f"touch {begun}; until [ -e {go_on} ]; do sleep 0.05; done"
        host.send("tools/call", call({"command": wait}), 1)
        assert wait_for(begun.exists)
        host.send("tools/call", call({"command": f"touch {mark}"}), 2)
        time.sleep(0.3)
        host.send("notifications/cancelled", {"requestId": 2})
        time.sleep(1)  # until it is read
        go_on.touch()
        answer = host.ask("tools/call", call({"command": "echo third"}), 3)
    assert answer["result"]["structuredContent"]["stdout"] == "third\n"
    assert not mark.exists()


def is_alive(number):
    """Return whether a process runs: neither gone nor a zombie."""
    try:
        state = Path(f"/proc/{number}/stat").read_text(encoding="ascii").rpartition(")")[2]
    except OSError:
        return False
    return state.split()[0] != "Z"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.slow
def test_a_command_whose_call_is_cancelled_ends_with_all_that_it_started(
    command, variables, maths, tmp_path, mode
):
    numbers = tmp_path / "numbers"
    script = f"sleep 3600 & setsid sleep 3601 & echo $$ $! > {numbers}; wait"
    program, *rest = [*command, str(maths), "--allow-run", "--executor", "local"]
    server = stdio_client(StdioServerParameters(command=program, args=rest, env=variables))

    async def talk():
        async with Client(server, mode=mode) as client:
            call = asyncio.create_task(run(command=script, timeout=600)(client))
            while not numbers.exists() or not numbers.read_text("ascii").strip():
                await asyncio.sleep(0.05)
            alive = [is_alive(number) for number in numbers.read_text("ascii").split()]
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            return alive, await run(command="echo next")(client)

    alive, answer = asyncio.run(talk())
    assert alive == [True, True]
    assert answer.structured_content["stdout"] == "next\n"
    assert not any(map(is_alive, numbers.read_text("ascii").split()))


@pytest.mark.timeout(120)
def test_the_calls_of_one_session_do_not_keep_others_waiting():
    let_go = threading.Event()

    class Args(ToolArguments):
        slow: bool

    def answer(args):
        return Deferred(lambda: args.slow and let_go.wait(120), lambda waited: waited)

    toolset = Toolset([Tool("wait", "Wait.", Args, answer)])
    thread = LibraryThread()

    async def talk():
        calls = Calls(thread, SimpleNamespace(of=lambda session: ServedTools(toolset)))
        ask = partial(calls.answer, name="wait")
        slow = [asyncio.create_task(ask("a", arguments={"slow": True})) for _ in range(8)]
        await asyncio.sleep(0.2)
        quick = await asyncio.wait_for(ask("b", arguments={"slow": False}), 120)
        let_go.set()
        return quick, await asyncio.gather(*slow)

    try:
        quick, slow = asyncio.run(talk())
    finally:
        let_go.set()
        thread.close()
    assert quick[1] == {"result": False}
    assert [answer for _, answer in slow] == [{"result": True}] * 8


@pytest.mark.parametrize("toolset", ["manager", "environment", "chunks", "context"])
def test_toolsets_that_run_nothing_refuse_a_runner(make_server, maths, runner, toolset):
    with pytest.raises(ConfigError, match="--allow-run is for default and workspace"):
        make_server(maths, toolset=toolset, runner=runner)


@pytest.mark.slow
def test_the_program_runs_commands_where_it_is_allowed(wire, maths, home):
    with wire(maths, "--allow-run", "--executor", "local") as host:
        arguments = {"name": "python-math", "command": "echo $((6*7))"}
        answer = host.ask("tools/call", {"name": "run_skill_script", "arguments": arguments})
        assert answer["result"]["structuredContent"]["stdout"] == "42\n"
        (workspaces,) = home.rglob("workspaces")
        assert any(workspaces.glob("ws_*"))
        host.process.stdin.close()
        assert host.process.wait(120) == 0
    assert list(workspaces.glob("ws_*")) == []


@pytest.mark.slow
def test_a_signal_ends_a_server_whose_command_still_runs(wire, maths, home, tmp_path, wait_for):
    mark = tmp_path / "begun"
    with wire(maths, "--allow-run", "--executor", "local") as host:
        arguments = {"name": "python-math", "command": f"touch {mark}; sleep 3600"}
        host.send("tools/call", {"name": "run_skill_script", "arguments": arguments}, 1)
        assert wait_for(mark.exists)
        host.process.send_signal(signal.SIGTERM)
        assert host.process.wait(120) == 0
    (workspaces,) = home.rglob("workspaces")
    assert list(workspaces.glob("ws_*")) == []


def test_over_http_nobody_runs_anything_without_a_token(cli, maths):
    result = cli("mcp", maths, "--allow-run", "--http", "127.0.0.1:0")
    assert result.exit_code == 2
    assert "clients need a token: name a file that holds it with --token-file" in result.stderr


def test_an_executor_is_for_a_server_that_runs(cli, maths):
    result = cli("mcp", maths, "--executor", "local")
    assert result.exit_code == 2
    assert "--executor is for a server with --allow-run" in result.stderr
