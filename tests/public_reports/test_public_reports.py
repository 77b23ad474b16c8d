"""Walks the kinds of public reports: each folder beside this file that has a ``kind.toml``."""

import contextlib
import io
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from functools import cached_property
from itertools import count
from operator import methodcaller
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, Json, StringConstraints, ValidationError, model_validator

import skillsearch

FRESHNESS = "skillsearch.index.freshness"
HERE = Path(__file__).parent
KINDS = sorted(path.parent.name for path in HERE.glob("*/kind.toml"))
DEEDS = ("run", "program", "call", "python", "write", "delete")
PROGRAM_SECONDS = 300
Words = Annotated[str, StringConstraints(min_length=1)]


class Made(BaseModel, extra="forbid"):
    """A file that git cannot hold as it is."""

    path: Words
    text: str | None = None
    encoding: str = "utf-8"
    link: Words | None = None
    folder: bool = False
    zip_of: Words | None = None

    def lay_out(self, folder):
        """Put it into a folder, or into the home folder."""
        path = folder / Path(self.path).expanduser()
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.link:
            path.symlink_to(self.link)
        elif self.zip_of:
            with zipfile.ZipFile(path, "w") as archive:
                for member in sorted((folder / self.zip_of).rglob("*")):
                    archive.write(member, member.relative_to(folder / self.zip_of))
        elif self.folder:
            path.mkdir(exist_ok=True)
        else:
            text = (self.text or "").replace("{home}", str(Path.home()))
            path.write_bytes(text.encode(self.encoding))


class Step(BaseModel, extra="forbid"):
    """One thing that is done, and what must come of it."""

    run: Words | list[str] | None = None
    program: Words | None = None
    call: Words | None = None
    python: Words | None = None
    write: Made | None = None
    delete: Words | None = None

    arguments: Json[dict] = Field("{}", validate_default=True)
    stdin: str = ""
    exit: int = 0
    says: list[Words] = []
    once: list[Words] = []
    lacks: list[Words] = []

    @property
    def does(self):
        return next(name for name in DEEDS if getattr(self, name) is not None)

    @model_validator(mode="after")
    def do_one_thing(self):
        """Refuse a step of two things or none."""
        if sum(getattr(self, name) is not None for name in DEEDS) != 1:
            raise ValueError(f"a step is one of {DEEDS}")
        return self

    def expects(self):
        return bool(self.says or self.once or self.lacks or self.exit)

    def check(self, code, output):
        """Compare what came with what must come."""
        outcome = f"{getattr(self, self.does)}: exit {code}\n{output}"
        assert code == self.exit, outcome
        for words in self.says:
            assert words in output, f"{words!r} is not said by {outcome}"
        for words in self.once:
            assert output.count(words) == 1, f"{words!r} is not said once by {outcome}"
        for words in self.lacks:
            assert words not in output, f"{words!r} is said by {outcome}"


class Kind(BaseModel, extra="forbid"):
    """A kind of report."""

    seen: list[Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+#[1-9]\d*$")]] = Field(
        min_length=1
    )
    wrong: Annotated[str, StringConstraints(min_length=20, max_length=300, pattern=r"\.$")]
    fails: Words | None = None
    variables: dict[str, str] = {}
    make: list[Made] = []
    steps: list[Step]

    @model_validator(mode="after")
    def expect_something(self):
        """Refuse a kind of which nothing must come."""
        if not any(step.expects() for step in self.steps):
            raise ValueError("no step says what must come: says, once, lacks or exit")
        return self


def read_kind(folder):
    return Kind(**tomllib.loads((folder / "kind.toml").read_text(encoding="utf-8")))


class Walk:
    """What does the steps of kinds, each of which gives an exit code and what was printed."""

    def __init__(self, cli, make_server, talk):
        self._cli, self._make_server, self._talk = cli, make_server, talk

    @cached_property
    def _server(self):
        return self._make_server()

    def run(self, step):
        args = shlex.split(step.run) if isinstance(step.run, str) else step.run
        result = self._cli(*args)
        return result.exit_code, result.output

    def program(self, step):
        """Run a command line as a process, which is sent requests and may answer each in a line."""
        with subprocess.Popen(
            [sys.executable, "-m", "skillsearch", *shlex.split(step.program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            process.stdin.write(step.stdin.encode())
            process.stdin.flush()
            answers = [process.stdout.readline() for _ in range(step.stdin.count('"id"'))]
            rest, _ = process.communicate(timeout=PROGRAM_SECONDS)
        return process.returncode, b"".join([*answers, rest]).decode()

    def call(self, step):
        """Call a tool of a server, the same one in all steps."""
        answer = self._talk(self._server, methodcaller("call_tool", step.call, step.arguments))
        return int(answer.is_error), "\n".join(part.text for part in answer.content)

    def python(self, step):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(step.python, {})
        return 0, printed.getvalue()

    def write(self, step):
        step.write.lay_out(Path.cwd())
        return 0, ""

    def delete(self, step):
        path = Path(step.delete)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return 0, ""


@pytest.fixture
def walk(cli, home, make_server, talk, monkeypatch):
    """Lay a kind out, in the working folder and in the home folder, and do its steps.

    They are an hour apart to an open index, which looks at the disk once a while.
    """
    monkeypatch.setenv("PYTHONPATH", str(Path(skillsearch.__file__).parents[1]))
    hours = count()
    monkeypatch.setattr(f"{FRESHNESS}.monotonic", lambda: 3600 * next(hours))
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")  # a kind that needs another names it
    doer = Walk(cli, make_server, talk)

    def walk(folder):
        kind = read_kind(folder)
        for name, value in kind.variables.items():
            monkeypatch.setenv(name, value)
        for name, target in (("work", Path.cwd()), ("home", home)):
            if (folder / name).exists():
                shutil.copytree(folder / name, target, dirs_exist_ok=True)
        for made in kind.make:
            made.lay_out(Path.cwd())
        for step in kind.steps:
            step.check(*getattr(doer, step.does)(step))

    return walk


def test_every_kind_keeps_the_schema():
    """A folder without its file, or a file that says too little, would check nothing."""
    folders = {path.name for path in HERE.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert folders == set(KINDS)
    kinds = [read_kind(HERE / name) for name in KINDS]
    assert len({kind.wrong for kind in kinds}) == len(kinds) >= 60
    assert all(name == name.lower() and "_" not in name for name in KINDS)


def marked(name):
    """Return a kind as a parameter that is known to fail if its file says why."""
    reason = tomllib.loads((HERE / name / "kind.toml").read_text(encoding="utf-8")).get("fails")
    return pytest.param(name, marks=pytest.mark.xfail(reason=reason)) if reason else name


@pytest.mark.parametrize("name", [marked(name) for name in KINDS])
def test_what_was_reported_elsewhere_comes_right_here(walk, name):
    walk(HERE / name)


SOUND = """
seen = ["owner/name#1"]
wrong = "A skill that is there is not in the list."

[[make]]
path = "skills/tea/SKILL.md"
text = "---\\nname: tea\\ndescription: Times tea.\\n---\\n"

[[steps]]
run = "index skills"

[[steps]]
run = "list"
says = ["Times tea."]
"""


@pytest.fixture
def write_kind(tmp_path):
    """Write the file of a kind into a folder, with a part of it replaced."""

    def write(part="", other=""):
        assert part in SOUND
        folder = tmp_path / "kind"
        folder.mkdir()
        (folder / "kind.toml").write_text(SOUND.replace(part, other), encoding="utf-8")
        return folder

    return write


def test_a_sound_kind_passes(walk, write_kind):
    walk(write_kind())


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ('seen = ["owner/name#1"]\n', ""),
        ('["owner/name#1"]', "[]"),
        ("owner/name#1", "owner/name"),
        ("owner/name#1", "owner/name#0"),
        ("owner/name#1", "somewhere"),
        ('wrong = "A skill that is there is not in the list."\n', ""),
        ("A skill that is there is not in the list.", "Lost."),
        ('says = ["Times tea."]\n', ""),
        ('["Times tea."]', "[]"),
        ('["Times tea."]', '[""]'),
        ("says", "say"),
        ('run = "list"\n', ""),
        ('run = "list"\n', 'run = "list"\ncall = "list_skills"\n'),
    ],
)
def test_a_kind_that_says_too_little_is_refused(write_kind, part, other):
    with pytest.raises(ValidationError):
        read_kind(write_kind(part, other))


@pytest.mark.parametrize(
    "expected", ['says = ["Times coffee."]', 'lacks = ["Times tea."]', 'once = ["e"]', "exit = 4"]
)
def test_what_does_not_come_fails(walk, write_kind, expected):
    folder = write_kind('says = ["Times tea."]', expected)
    with pytest.raises(AssertionError, match="list: exit 0"):
        walk(folder)
