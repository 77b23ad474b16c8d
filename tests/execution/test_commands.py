"""The program that runs for a command, and the commands that the lists allow."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import CommandRefusedError
from skillsearch.execution.commands import CommandPolicy, shell_argv, split_words
from skillsearch.execution.types import MAX_COMMAND_BYTES

ANY = CommandPolicy()


@pytest.fixture
def skill(tmp_path):
    """Make a skill with two scripts, a program that is named like another one, and links."""
    folder = tmp_path / "skill"
    (folder / "scripts").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    for name in ("scripts/brew.sh", "scripts/fib.py", "ls", "../work/evil.sh"):
        (folder / name).write_text("#!/bin/sh\n")
    (folder / "out").symlink_to("../work")
    (folder / "scripts/again.sh").symlink_to("brew.sh")
    return folder


def passes(policy, command, skill=None):
    try:
        policy.argv(command, skill=skill)
    except CommandRefusedError:
        return False
    return True


def shell(text, **env):
    return subprocess.run(shell_argv(text), env=env, capture_output=True, timeout=120, check=False)


def test_without_lists_a_login_shell_reads_a_text():
    argv = ANY.argv("echo $0 $#; shopt login_shell; exit 7")
    done = subprocess.run(
        argv, env={"PATH": "/usr/bin:/bin"}, capture_output=True, timeout=120, check=False
    )
    assert done.stdout.split() == [b"bash", b"0", b"login_shell", b"on"]
    assert done.returncode == 7


@pytest.mark.parametrize("path", ["/one:/usr/bin:/bin", "/a b/$(id)':\"/usr/bin:/bin"])
def test_a_profile_does_not_change_the_path(path, tmp_path):
    (tmp_path / ".bash_profile").write_text("PATH=/other; FROM_PROFILE=yes\n")
    done = shell('echo "$PATH"; echo $FROM_PROFILE', PATH=path, HOME=str(tmp_path))
    assert done.stdout.decode() == f"{path}\nyes\n"


def test_without_bash_the_shell_is_sh(tmp_path):
    (tmp_path / "sh").symlink_to("/bin/sh")
    done = shell('echo "$0 $PATH"; exit 3', PATH=str(tmp_path))
    assert (done.stdout.decode(), done.returncode) == (f"sh {tmp_path}\n", 3)


def test_a_program_with_arguments_is_used_as_it_is():
    assert ANY.argv(("echo", "a b", "$HOME", "")) == ("echo", "a b", "$HOME", "")


@pytest.mark.parametrize(
    "text", ["# all\necho tea", "\necho tea\n", "cat <<E\ntea\nE", "(echo tea)"]
)
def test_a_text_may_have_any_form_and_its_lines_are_counted(text):
    assert shell(text, PATH="/usr/bin:/bin").stdout == b"tea\n"
    assert b"line 1: no-such:" in shell("no-such", PATH="/usr/bin:/bin").stderr


@pytest.mark.parametrize("policy", [ANY, CommandPolicy(("echo",)), CommandPolicy((), ("rm",))])
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("", "is empty"),
        (" \n\t", "is empty"),
        ((), "is empty"),
        (("", ""), "is empty"),
        ("echo \0", "holds a NUL"),
        (("echo", "a\0"), "holds a NUL"),
        ("echo " + "ü" * (MAX_COMMAND_BYTES // 2), "longer than 32 KiB"),
        (("echo", "x" * MAX_COMMAND_BYTES), "longer than 32 KiB"),
    ],
)
def test_what_no_program_can_be_given_is_refused(policy, command, reason):
    with pytest.raises(CommandRefusedError, match=reason):
        policy.argv(command)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ls", ("ls",)),
        ("  ls\t-l   a ", ("ls", "-l", "a")),
        ("ls\n", ("ls",)),
        ("'a b'\"c d\"e\\ f", ("a bc de f",)),
        ("ls '' \"\"", ("ls", "", "")),
        (r"a\'b '\' \\", ("a'b", "\\", "\\")),
        (r'"a\"b\\c\$d\`e\f"', (r'a"b\c$d`e\f',)),
        ("'$HOME; *'", ("$HOME; *",)),
        ("'a\nb' \"c\nd\"", ("a\nb", "c\nd")),
        ("git show HEAD~1 a#b --x=~/y", ("git", "show", "HEAD~1", "a#b", "--x=~/y")),
        (r"\~ \# \*", ("~", "#", "*")),
        ("naïve café 茶", ("naïve", "café", "茶")),
    ],
)
def test_quotes_and_backslashes_are_those_of_a_shell(text, words):
    assert split_words(text) == words
    script = f"printf '%s\\0' {text}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=120, check=True)
    assert done.stdout.decode().split("\0")[:-1] == list(words)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
def test_what_was_quoted_comes_back(words):
    text = shlex.join(words)
    if not text.endswith(("\n", "\r")):
        assert split_words(text) == tuple(words)


@given(st.text("ab \t\n'\"\\$`~#;=[é\u00a0", max_size=12))
def test_any_text_is_split_as_by_a_shell_or_refused(text):
    try:
        words = split_words(text)
    except CommandRefusedError:
        return
    assert list(words) == shlex.split(text.strip("\r\n"))


@pytest.mark.parametrize("char", [*";&|<>$`(){}*?[", "\n", "\r", "\r\n", "\u00a0"])
def test_what_only_a_shell_understands_is_refused(char):
    with pytest.raises(CommandRefusedError, match="no shell reads it") as caught:
        split_words(f"ls a{char}b")
    assert repr(char[0]) in str(caught.value)


@pytest.mark.parametrize(
    "text", ["ls ~", "ls ~/x", "ls # all", "ls 'a", 'ls "a', 'ls "$HOME"', "ls \\", "ls a\\\nb"]
)
def test_what_a_shell_would_expand_or_wait_for_is_refused(text):
    with pytest.raises(CommandRefusedError, match="single quotes"):
        split_words(text)


PASSING = {
    (): ["x" * MAX_COMMAND_BYTES],
    ("git  status", "ls"): ["git   'status'"],
    ("/usr/bin/env",): ["/usr/bin/env"],
    ("ls",): ["ls -l"],
}
REFUSED = {
    (): ["x" * (MAX_COMMAND_BYTES + 1)],
    ("git  status", "ls"): ["git", "git status -s", "'git status'"],
    ("/usr/bin/env",): ["/usr//bin/env", "env"],
    # Anybody can put a file of that name anywhere.
    ("ls",): ["./ls", "/bin/ls", "/tmp/ls", "scripts/../ls", "out/ls", "LS", "./" + "x/" * 5000],
    ("out/evil.sh",): ["out/evil.sh"],
    ("../work/evil.sh",): ["../work/evil.sh"],
    ("./scripts",): ["./scripts"],
    ("scripts/none.sh",): ["scripts/none.sh"],
}


def test_what_is_allowed_passes_and_nothing_that_resembles_it(skill):
    for allowed, commands in PASSING.items():
        assert all(passes(CommandPolicy(allowed), command, skill) for command in commands)
    for allowed, commands in REFUSED.items():
        passing = [text for text in commands if passes(CommandPolicy(allowed), text, skill)]
        assert passing == []
    assert not passes(CommandPolicy(("ls",)), ("./\ud800",), skill)
    policy = CommandPolicy(("ls", "cat"))
    assert policy.argv("cat 'a b'") == ("cat", "a b")
    assert policy.argv(("cat", "*")) == ("cat", "*")


def test_what_is_denied_is_refused_and_all_else_passes(skill):
    assert CommandPolicy((), ("rm", "")).argv("ls -l") == ("ls", "-l")
    assert not passes(CommandPolicy(("rm", "/bin/rm", "rm x"), ("rm",)), "rm x")
    beginning = CommandPolicy((), ("pip install",))
    assert passes(beginning, "pip list")
    assert not passes(beginning, "pip install x")
    of_a_link = CommandPolicy((), ("brew.sh",))
    assert not passes(of_a_link, "scripts/again.sh", skill)


def test_what_is_refused_is_told_with_what_to_do():
    with pytest.raises(CommandRefusedError) as caught:
        CommandPolicy(("ls", "cat")).argv("rm -r x")
    assert str(caught.value) == "The command 'rm' is not allowed; allowed are: ls, cat."
    names = tuple(f"c{number}" for number in range(25))
    with pytest.raises(CommandRefusedError, match=r"c0, c1, .* c19 and 5 more\.$"):
        CommandPolicy(names).argv("rm")
    with pytest.raises(CommandRefusedError, match="set it in the environment of the run"):
        CommandPolicy((), ("rm",)).argv("LD_PRELOAD=x.so ls")


@pytest.mark.parametrize("program", ["scripts/brew.sh", "./scripts/brew.sh", "scripts/again.sh"])
def test_a_script_can_be_allowed_by_its_path(program, skill):
    policy = CommandPolicy(("scripts/brew.sh",))
    assert policy.argv(f"{program} 3", skill=skill) == (program, "3")
    assert not passes(policy, program)


@pytest.mark.parametrize(
    "command", ["rm", "rm -rf x", "/bin/rm x", "./rm", "'r'm", ("rm", "x"), ("/a/b/rm",)]
)
@pytest.mark.parametrize("denied", ["rm", "/bin/rm"])
def test_a_denied_command_is_refused_wherever_it_lies(command, denied):
    with pytest.raises(CommandRefusedError, match="rm' is denied"):
        CommandPolicy((), (denied,)).argv(command)


@pytest.mark.parametrize(
    "command",
    [
        *("/usr/bin/env rm", "xargs rm", "find . -delete", "sh", "bash -c rm", "python3.11 -m x"),
        *("bash /tmp/x", "bash out/evil.sh", "bash -- scripts/brew.sh", "python none.py"),
    ],
)
def test_what_can_start_a_denied_command_is_refused(command, skill):
    denied = ("rm",)
    with pytest.raises(CommandRefusedError, match="can start others"):
        CommandPolicy((), denied).argv(command, skill=skill)
    name = command.split()[0]
    assert passes(CommandPolicy((name,), denied), command, skill)
    assert passes(CommandPolicy((name,)), command, skill)


@pytest.mark.parametrize("command", ["bash scripts/brew.sh 3", "python3.11 scripts/fib.py"])
def test_an_interpreter_may_run_a_file_of_the_skill(command, skill):
    policy = CommandPolicy((), ("rm",))
    assert passes(policy, command, skill)
    assert not passes(policy, command)
