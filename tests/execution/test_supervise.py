"""Control groups: where they can be made, what they limit, and that none is left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skillsearch.execution.isolation import local, supervise
from skillsearch.execution.isolation.local import LocalExecutor
from skillsearch.execution.isolation.namespace import BACKENDS, NamespaceExecutor
from skillsearch.execution.types import Program, RunLimits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")

FREE = {"memory.max": "max\n", "memory.high": "max\n", "cpu.max": "max 100000\n"}
CONTROLS = {"cgroup.subtree_control": "memory pids\n"}
NONE = {"cgroup.subtree_control": "\n"}
APP, UNIT = "user.slice/app.slice", "user.slice/app.slice/term.scope"
V1 = "9:name=systemd:/\n8:pids:/\n5:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n"

PLACES = {
    "version 1: within our own": (V1, {}, 0, ["pids", "memory/a/b"]),
    "version 1: for every user": (V1, {}, 1000, ["pids", "memory/a/b"]),
    "mixed: version 2 controls nothing": (V1, {".": NONE}, 0, ["pids", "memory/a/b"]),
    "version 2: at its root, within it": ("0::/\n", {".": CONTROLS}, 0, ["."]),
    "version 2: beside our own": (f"0::/{UNIT}\n", {APP: CONTROLS, UNIT: NONE | FREE}, 1000, [APP]),
    "version 2: without controllers": (f"0::/{UNIT}\n", {APP: NONE, UNIT: NONE | FREE}, 1000, []),
    "version 2: not for root": (f"0::/{UNIT}\n", {APP: CONTROLS, UNIT: NONE | FREE}, 0, []),
    "version 2: some limits are not there": (
        f"0::/{UNIT}\n",
        {APP: CONTROLS, UNIT: {"memory.max": "max\n"}},
        1000,
        [APP],
    ),
    **{
        f"version 2: {name} would be evaded": (
            f"0::/{UNIT}\n",
            {APP: CONTROLS, UNIT: NONE | FREE | {name: "50000 100000\n"}},
            1000,
            [],
        )
        for name in FREE
    },
    "another namespace hides our own": ("0::/../../x\n", {}, 1000, []),
    "no control groups": ("", {}, 1000, []),
}


@pytest.mark.parametrize("case", PLACES)
def test_groups_are_made_where_they_limit_and_evade_nothing(tmp_path, monkeypatch, case):
    text, folders, uid, expected = PLACES[case]
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    own, root = tmp_path / "own", tmp_path / "root"
    own.write_text(text)
    for folder, files in folders.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (root / folder / name).write_text(content)
    parents = supervise.group_parents(str(root), str(own))
    assert [os.path.relpath(path, root) for path in parents] == expected


@pytest.fixture
def parent(tmp_path, monkeypatch):
    """Name the only folder in which groups can be made: one of version 1, on a plain disk."""
    own, folder = tmp_path / "own", tmp_path / "memory" / "app"
    own.write_text("5:memory:/app\n")
    folder.mkdir(parents=True)
    monkeypatch.setattr(supervise.group_parents, "__defaults__", (str(tmp_path), str(own)))
    return folder


@pytest.fixture
def fill(monkeypatch):
    """Have each new group filled by a function, as the kernel fills one."""

    def filled_by(function):
        real = os.mkdir

        def mkdir(path, *args, **options):
            real(path, *args, **options)
            if Path(path).name.startswith("skillsearch-"):
                function(Path(path))

        monkeypatch.setattr(os, "mkdir", mkdir)

    return filled_by


def dead():
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_what_the_killed_left_is_removed_and_no_more(parent):
    gone, live = f"skillsearch-{dead()}-1f", f"skillsearch-{os.getppid()}-1f"
    for name in (gone, live, "other-1-1f", "skillsearch-x.scope"):
        (parent / name).mkdir()
    (parent / "skillsearch-x.scope" / "member").mkdir()  # what is in use cannot be removed
    (group,) = supervise.make_groups(1 << 30, 8)
    names = {path.name for path in parent.iterdir()}
    assert names == {live, "other-1-1f", "skillsearch-x.scope", Path(group).name}
    assert supervise.make_groups(0, 0) == []  # for a client of an engine
    assert len(list(parent.iterdir())) == 4
    supervise.remove_groups([group])
    assert not Path(group).exists()


def test_a_group_that_cannot_be_limited_is_not_used(parent, fill, monkeypatch):
    removed = []
    fill(lambda group: (group / "memory.max").mkdir())  # takes no number
    monkeypatch.setattr(supervise.libc, "rmdir", removed.append)
    assert supervise.make_groups(1 << 30, 8) == []
    assert [Path(os.fsdecode(path)).parent for path in removed] == [parent]


@pytest.mark.parametrize(
    ("events", "said"), [(b"", "process by process"), (b"oom 0\n", "together")]
)
def test_what_is_limited_together_is_told(parent, fill, events, said):
    local.size_limits.cache_clear()
    fill(lambda group: (group / "memory.oom_control").write_bytes(events))
    try:
        for executor in (LocalExecutor(), NamespaceExecutor()):
            assert any(said in text for text in executor.capabilities().not_isolated)
    finally:
        local.size_limits.cache_clear()


def ours():
    """Return the control groups of runs that are there now."""
    return [
        path for parent in supervise.group_parents() for path in Path(parent).glob("skillsearch-*")
    ]


@pytest.fixture(params=["local", *BACKENDS])
def run(request, tmp_path):
    """Run Python text where the memory of all processes together can be limited."""
    executor = (
        LocalExecutor() if request.param == "local" else NamespaceExecutor(backend=request.param)
    )
    if request.param != "local" and executor.reason():
        pytest.skip(executor.reason())
    if not any("together" in text for text in executor.capabilities().not_isolated):
        pytest.skip("no control group can be made here")

    def run(text, *words, **limits):
        argv = (sys.executable, "-I", "-S", "-c", text, *words)
        bounds = RunLimits(**{"timeout": 120.0, **limits})
        return executor.run(Program(argv, tmp_path, tmp_path, {"PATH": os.defpath}, b"", bounds))

    yield run
    assert [path for path in ours() if f"-{os.getpid()}-" in path.name] == []


only_local = pytest.mark.parametrize("run", ["local"], indirect=True)
HOG = """if True:
    import os, sys, time
    processes, megabytes = map(int, sys.argv[1:])
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            block = b"x" * (megabytes << 20)
            time.sleep(0.5)
            os._exit(0)
        children.append(child)
    print(sum(os.waitpid(child, 0)[1] != 0 for child in children))
"""


def test_memory_of_all_processes_together_is_limited_and_what_is_within_had(run):
    finished = run(HOG, "4", "50", memory_bytes=128 << 20)
    assert int(finished.stdout) > 0, finished
    assert any("more than 134,217,728 bytes of memory" in text for text in finished.problems)
    finished = run(HOG, "4", "10", memory_bytes=128 << 20)
    assert (finished.stdout, finished.problems) == (b"0\n", ()), finished


def test_temporary_files_count_as_memory(run):
    text = """if True:
        import os
        for number in range(6):
            os.write(os.memfd_create("x"), bytes(25 << 20))
        print("had")
    """
    finished = run(text, memory_bytes=100 << 20)
    assert finished.stdout == b"", finished
    assert finished.exit_code != 0


def test_the_number_of_threads_is_limited_for_root_too(run):
    """Whom the kernel's limit of a user does not hold."""
    text = """if True:
        import _thread, time
        _thread.stack_size(65536)
        count = 0
        try:
            for count in range(2000):
                _thread.start_new_thread(time.sleep, (60,))
        except RuntimeError:
            print(count, flush=True)
        import os
        os._exit(0)
    """
    finished = run(text, processes=16)
    assert 0 < int(finished.stdout) <= 16 + supervise.THREADS, finished


@only_local
def test_no_group_is_left_by_a_caller_that_is_killed(run, killed_caller, tmp_path, wait_for):
    del run  # only for where it can run
    script = "cat /proc/self/cgroup > groups; touch started; exec sleep 60"
    killed_caller("LocalExecutor()", tmp_path, script)
    parts = (tmp_path / "groups").read_text().replace("\n", "/").split("/")
    names = {part for part in parts if part.startswith("skillsearch-")}
    assert names
    assert wait_for(lambda: not names & {path.name for path in ours()})


@only_local
def test_a_run_removes_what_killed_supervisors_left(run):
    left = [Path(parent) / f"skillsearch-{dead()}-1f" for parent in supervise.group_parents()]
    for path in left:
        path.mkdir()
    assert run("print(1)").stdout == b"1\n"
    assert not any(path.exists() for path in left)
