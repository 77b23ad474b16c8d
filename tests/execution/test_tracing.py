"""Spans of a run, by the real SDK of OpenTelemetry; and runs without any of it."""

import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import skillsearch
from skillsearch.execution.isolation.local import LocalExecutor
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.tracing import command_name, span
from skillsearch.execution.types import InputSpec, RunRequest
from skillsearch.execution.workspaces.workspace import Workspaces


@pytest.fixture
def exporter(monkeypatch):
    """Collect all spans in memory, as a host would that has set up tracing."""
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield spans
    provider.shutdown()


@pytest.fixture
def finished(exporter):
    """Give the spans that ended so far, each as its name and attributes."""
    return lambda: [(ended.name, dict(ended.attributes)) for ended in exporter.get_finished_spans()]


def test_a_step_is_a_span_with_its_attributes(finished):
    with span("workspace.run", {"cmd": "bash", "cwd": "skills/tea"}) as tell:
        tell({"exit_code": 3, "timed_out": False})
    expected = {"cmd": "bash", "cwd": "skills/tea", "exit_code": 3, "timed_out": False}
    assert finished() == [("workspace.run", expected)]


def test_a_span_lies_below_that_of_the_caller_and_an_error_tells_no_message(exporter):
    host = trace.get_tracer("host")
    with host.start_as_current_span("request") as request, span("workspace.run"):
        pass
    inner, outer = exporter.get_finished_spans()
    assert (inner.name, outer.name) == ("workspace.run", "request")
    assert inner.parent.span_id == request.get_span_context().span_id
    with pytest.raises(ValueError, match="secret 42"), span("workspace.collect"):
        raise ValueError("secret 42")
    failed = exporter.get_finished_spans()[-1]
    assert (failed.status.status_code.name, failed.status.description) == ("ERROR", "ValueError")
    assert "secret" not in failed.to_json()


@pytest.mark.parametrize("broken", ["start_as_current_span", "set_attributes", "__exit__"])
def test_a_broken_api_changes_nothing(monkeypatch, broken):

    def fail(*args, **kwargs):
        raise RuntimeError("no trace today")

    class Span:
        set_status = set_attributes = lambda self, *args: None

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            return None

    if broken != "start_as_current_span":
        monkeypatch.setattr(Span, broken, fail)
    start = fail if broken == "start_as_current_span" else lambda self, *args, **kwargs: Span()
    tracer = type("Tracer", (), {"start_as_current_span": start})()
    monkeypatch.setattr(trace, "get_tracer", lambda name: tracer)
    done = []
    with span("workspace.run") as tell:
        tell({"exit_code": 0})
        done.append(1)
    assert done == [1]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python3 scripts/fib.py --key hunter2", "python3"),
        (("scripts/build.sh", "hunter2"), "scripts/build.sh"),
        ("KEY=hunter2 python3 x.py", ""),
        ("'hunter2' | login", ""),
        ("$(cat hunter2)", ""),
        ("x" * 101, ""),
        ("  \n", ""),
        ((), ""),
    ],
)
def test_of_a_command_only_the_program_is_told(command, name):
    assert command_name(command) == name


@pytest.mark.parametrize(
    ("opentelemetry", "imported"),
    [(None, []), ("raise OSError('half installed')", []), ("trace = None", ["opentelemetry"])],
    ids=["missing", "broken", "empty"],
)
def test_spans_need_no_opentelemetry(tmp_path, opentelemetry, imported):
    package = tmp_path / "opentelemetry"
    if opentelemetry is not None:
        package.mkdir()
        (package / "__init__.py").write_text(opentelemetry, encoding="utf-8")
    code = (
        "import builtins, sys\n"
        f"sys.path[:0] = [{str(tmp_path)!r}, {str(Path(skillsearch.__file__).parents[1])!r}]\n"
        "tries, real = [], builtins.__import__\n"
        "def spy(name, *args, **kwargs):\n"
        "    tries.extend([name] * (name == 'opentelemetry'))\n"
        "    return real(name, *args, **kwargs)\n"
        "builtins.__import__ = spy\n"
        "from skillsearch.execution.tracing import span\n"
        "assert tries == []\n"
        "for _ in range(3):\n"
        "    with span('workspace.run', {'cmd': 'x'}) as tell:\n"
        "        tell({'exit_code': 0})\n"
        "assert tries == ['opentelemetry'], tries\n"
        "print(sorted(name for name in sys.modules if name.startswith('opentelemetry')))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert (ran.stderr, ran.stdout.strip()) == ("", repr(imported))


def test_a_run_leaves_the_spans_of_the_document(finished, tmp_path, make_skill):
    folder = make_skill(tmp_path / "skills").parent
    request = RunRequest(
        "tea-timer",
        folder,
        "printf hunter2 > x; exit 3",
        cwd="out",
        inputs=(InputSpec("skill://tea-timer/SKILL.md"),),
        output_files=("out/*",),
    )
    with SkillRunner(LocalExecutor(), workspaces=Workspaces(tmp_path / "workspaces")) as runner:
        runner.run(request)
    spans = finished()
    exec_id = spans[0][1]["exec_id"]
    workspace = str(tmp_path / "workspaces" / exec_id)
    expected = [
        ("workspace.create", {"path": workspace}),
        ("workspace.stage.dir", {"path": str(folder)}),
        ("workspace.stage.files", {"count": 1}),
        ("workspace.run", {"cmd": "printf", "cwd": "out", "exit_code": 3, "timed_out": False}),
        ("workspace.collect", {"patterns": "out/*", "count": 1}),
        ("workspace.inline", {"count": 1}),
    ]
    of_the_run = [(name, {"exec_id": exec_id, **attributes}) for name, attributes in expected]
    assert spans == [*of_the_run, ("workspace.cleanup", {})]
    assert "hunter2" not in repr(spans)
