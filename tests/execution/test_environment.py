"""Tests of the environment of a run: nothing of this process, and nothing that starts code."""

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import WorkspaceError
from skillsearch.execution.commands import clean_environment
from skillsearch.execution.workspaces.workspace import Workspace

ANY_TEXT = st.text(st.characters(exclude_categories=()))
DANGEROUS = """
LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES CAML_LD_LIBRARY_PATH GCONV_PATH
GLIBC_TUNABLES OPENSSL_CONF OPENSSL_MODULES GTK_MODULES GDK_PIXBUF_MODULE_FILE QT_PLUGIN_PATH
BASH_ENV ENV BASH_FUNC_ls BASHOPTS BASH_LOADABLES_PATH PROMPT_COMMAND PS1 PS4 SHELL SHELLOPTS IFS
CDPATH GLOBIGNORE ZDOTDIR INPUTRC PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONINSPECT PYTHONUSERBASE
PYTHONWARNINGS PYTHONBREAKPOINT PYTHONPYCACHEPREFIX PERL5OPT PERL5LIB PERL5DB PERLLIB RUBYOPT
RUBYLIB GEM_HOME BUNDLE_GEMFILE NODE_OPTIONS NODE_PATH NPM_CONFIG_SCRIPT_SHELL
npm_config_script_shell JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_HOME CLASSPATH
MAVEN_OPTS PHPRC PHP_INI_SCAN_DIR LUA_INIT LUA_INIT_5_4 LUA_CPATH R_PROFILE_USER R_LIBS
JULIA_LOAD_PATH ERL_FLAGS ERL_ZFLAGS OCAMLRUNPARAM GOFLAGS RUSTC_WRAPPER CARGO_BUILD_RUSTC
DOTNET_STARTUP_HOOKS CORECLR_PROFILER_PATH AWKLIBPATH PIP_INDEX_URL GIT_SSH_COMMAND GIT_EXEC_PATH
GIT_CONFIG_COUNT GIT_EXTERNAL_DIFF GIT_TEMPLATE_DIR SSH_ASKPASS SUDO_ASKPASS SVN_SSH HGRCPATH
RSYNC_RSH CVS_RSH TAR_OPTIONS ZIPOPT UNZIP EDITOR VISUAL GIT_EDITOR PAGER MANPAGER BROWSER LESSOPEN
LESSCLOSE MAKEFLAGS MAKEFILES CONFIG_SITE WGETRC CURL_HOME PSQLRC AWS_CONFIG_FILE KUBECONFIG
DOCKER_HOST DBUS_SESSION_BUS_ADDRESS XDG_CONFIG_HOME TEXINPUTS shell_escape NODE_ENV_PATH
PYTHONUTF8_PATH
""".split()
HARMLESS = """
A a _ A1 TEXT TEXT_FILE LESSON LUCK HOMEPAGE PATHS MY_PATH INPUT_PATH TEST_MODULE API_KEY DEBUG
LANG LC_ALL TZ TERM NO_COLOR COLUMNS TMP EDITION ENVIRONMENT R_VALUE GOAL GITHUB_REF RUSTY
PYTHONUNBUFFERED PYTHONHASHSEED PYTHONUTF8 NODE_ENV GIT_AUTHOR_NAME GIT_COMMITTER_DATE
""".split()
OWN = """
WORKSPACE_DIR SKILLS_DIR WORK_DIR OUTPUT_DIR RUN_DIR SKILL_NAME HOME TMPDIR PATH
""".split()


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    made = Workspace.create(tmp_path_factory.mktemp("environment") / "base", "s")
    yield made
    made.close()


@pytest.fixture(scope="module")
def environment(workspace):
    """Make the environment of a run, with the caller's variables."""
    run_dir = workspace.new_run_dir()

    def make(variables=(), skill="tea"):
        return clean_environment(workspace, run_dir, skill, dict(variables))

    make.run_dir = run_dir
    return make


def test_a_run_is_told_its_folders(environment, workspace):
    path = str(workspace.path)
    run_dir = str(environment.run_dir)
    made = environment()
    assert {name: made[name] for name in OWN if name != "PATH"} == {
        "WORKSPACE_DIR": path,
        "SKILLS_DIR": f"{path}/skills",
        "WORK_DIR": f"{path}/work",
        "OUTPUT_DIR": f"{path}/out",
        "RUN_DIR": run_dir,
        "SKILL_NAME": "tea",
        "HOME": run_dir,
        "TMPDIR": run_dir,
    }


def test_nothing_of_this_process_is_in_it(environment, monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("LD_PRELOAD", "/evil.so")
    monkeypatch.setenv("PATH", "/evil")
    made = environment()
    assert made.keys() - OWN == {"LANG", "TERM", "PYTHONDONTWRITEBYTECODE"}
    assert "evil" not in "".join(made.values())


def test_programs_of_the_system_are_found_and_the_python_that_runs_skillsearch(environment):
    folders = environment()["PATH"].split(":")
    own = str(Path(sys.executable).parent)
    assert (folders[0] == own) == (Path(own) / "python3").exists()
    assert len(folders) == len(set(folders))
    usual = [folder for folder in folders if folder in ("/usr/local/bin", "/usr/bin", "/bin")]
    assert sorted(usual) == ["/bin", "/usr/bin", "/usr/local/bin"]
    assert all(folder.startswith("/") for folder in folders)


@pytest.mark.parametrize("executable", ["", "python3", "/a:b/python3", "/nowhere/python3"])
def test_a_python_elsewhere_is_left_out(environment, monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    assert environment()["PATH"].startswith("/usr/local/bin:/usr/bin:/bin")


def test_variables_of_the_caller_are_passed_on(environment):
    variables = dict.fromkeys(HARMLESS, "x=1 ")
    assert variables.items() <= environment(variables).items()


def test_variables_that_start_code_are_refused(environment):
    for name in DANGEROUS:
        with pytest.raises(WorkspaceError, match=f"'{name}' can make programs load or start"):
            environment({"A": "1", name: "x"})


def test_variables_of_the_run_cannot_be_changed(environment):
    for name, value in environment().items():
        if name in OWN:
            with pytest.raises(WorkspaceError, match=f"'{name}' is set for every run"):
                environment({name: value})


@pytest.mark.parametrize(
    "name", ["", "1A", "A B", "A=B", "A-B", "Ä", "A\n", "A\0", "\ud800", "a.b"]
)
def test_names_and_values_that_no_variable_can_have_are_refused(environment, name):
    with pytest.raises(WorkspaceError, match=re.escape(repr(name))):
        environment({name: "x"})
    for value in ("a\0b", "\ud800"):
        with pytest.raises(WorkspaceError, match="'A' holds characters"):
            environment({"A": value})


@given(ANY_TEXT, ANY_TEXT)
def test_any_variable_is_passed_on_as_it_is_or_refused(environment, name, value):
    try:
        made = environment({name: value})
    except WorkspaceError:
        return
    assert made[name] == value
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII)
    assert b"\0" not in value.encode()


@given(
    st.sampled_from(["LD_", "DYLD_", "BASH_FUNC_", "PYTHON", "GIT_"]), st.text("ABC_", min_size=1)
)
def test_whole_families_of_variables_are_refused(environment, prefix, rest):
    with pytest.raises(WorkspaceError, match="can make programs"):
        environment({prefix + rest: "x"})


def test_a_hundred_variables_of_64_kib_are_taken_and_no_more(environment):
    variables = {f"A{number}": "" for number in range(100)}
    assert environment(variables).keys() >= variables.keys()
    with pytest.raises(WorkspaceError, match="The 101 variables"):
        environment({**variables, "B": ""})
    value = "é" * ((64 << 9) - 1)
    assert environment({"AB": value})["AB"] == value
    with pytest.raises(WorkspaceError, match="larger than 64 KiB"):
        environment({"ABC": value})
