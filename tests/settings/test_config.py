"""Tests of settings: their sources, which one wins, and what a project file may not do."""

import os
import shlex
from pathlib import Path

import pytest

from skillsearch.errors import ConfigError, QueryError
from skillsearch.files.own_folder import own_folder
from skillsearch.index.roots.scope import without_scope
from skillsearch.index.search.options import SearchOptions
from skillsearch.settings import config, user_folders
from skillsearch.settings.config import limits_of, load_settings
from skillsearch.settings.table import SETTINGS, Settings
from skillsearch.settings.values import is_environment_name, parse_reader
from skillsearch.types.answers import SELECTING

AN_ENVIRONMENT = r"the name of a folder, without '/', '\', ':' or a leading dot"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Work in an empty project folder and write its settings."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def write(text, name="skillsearch.toml"):
        (folder / name).write_text(text, encoding="utf-8")
        return folder

    return write


@pytest.fixture
def user_file(home):
    def write(text):
        path = user_folders.user_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_without_any_source_the_defaults_hold(project, home, monkeypatch):
    monkeypatch.delenv("SKILLSEARCH_READER")
    project("")
    environments = user_folders.user_file().parent / "environments"
    assert load_settings() == Settings(
        index_dir=user_folders.default_index_dir(),
        environments=environments,
        selection=(("scope", (str(Path.cwd()),)),),
    )
    assert environments.is_relative_to(home)
    assert user_folders.default_index_dir().is_relative_to(home)
    assert load_settings().sources == {}


def test_a_settings_file_may_begin_with_a_byte_order_mark(project, user_file):
    """Editors on Windows write it."""
    user_file("\ufeffthreshold = 0.5\n")
    project("\ufeffreader = 'off'\n")
    settings = load_settings()
    assert (settings.threshold, settings.reader) == (0.5, "off")


def test_a_flag_beats_the_environment_beats_the_project_beats_the_user(
    project, user_file, monkeypatch
):
    user = user_file("n = 1\nthreshold = 0.1\nfields = 'metadata'\nmodel = 'hashing'\n")
    folder = project("index_dir = 'i'\nn = 2\nthreshold = 0.2\nfields = 'full'\n")
    monkeypatch.delenv("SKILLSEARCH_READER")
    monkeypatch.setenv("SKILLSEARCH_N", "3")
    monkeypatch.setenv("SKILLSEARCH_THRESHOLD", "0.3")
    settings = load_settings(n=4, threshold=None)
    effective = (settings.n, settings.threshold, settings.fields, settings.model)
    assert effective == (4, 0.3, "full", "hashing")
    file = str(folder / "skillsearch.toml")
    assert settings.sources == {
        **{"n": "flag", "threshold": "environment"},
        **{"fields": file, "index_dir": file, "model": str(user)},
    }


def test_the_nearest_project_file_above_counts_alone(project):
    folder = project('roots = ["skills"]\nindex_dir = "cache"\nn = 9\n')
    (folder / "a" / "b").mkdir(parents=True)
    settings = load_settings(folder / "a" / "b")
    own = own_folder(folder / "cache", user_folders.cache_dir())
    assert (settings.roots, settings.index_dir) == ((folder / "skills",), own)
    (folder / "a" / "skillsearch.toml").write_text("index_dir = 'i'\nthreshold = 0.5\n")
    settings = load_settings(folder / "a")
    assert (settings.n, settings.threshold) == (5, 0.5)


def test_pyproject_counts_where_it_has_our_table(project, monkeypatch):
    folder = project("[tool.skillsearch]\nindex_dir = 'i'\nn = 8\n", "pyproject.toml")
    (folder / "inner").mkdir()
    (folder / "inner" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert load_settings(folder / "inner").n == 8
    project("index_dir = 'i'\nn = 7\n")
    monkeypatch.setenv("SKILLSEARCH_N", "")
    assert load_settings().n == 7


def test_variables_name_roots_as_a_search_path(project, monkeypatch, tmp_path):
    project("")
    monkeypatch.setenv("SKILLSEARCH_ROOTS", os.pathsep.join([str(tmp_path), "~/skills", "here"]))
    assert load_settings().roots == (tmp_path, Path.home() / "skills", Path.cwd() / "here")


WRONG = {  # by what a value must be, settings with values that cannot be used
    "must be a whole number from 1 to 1000": {"n": [float("inf"), 0, 1001, 2.5, True]},
    "must be a number from 0 to 1": {"threshold": [10**400, float("nan"), float("inf"), -0.01]},
    "must be 'metadata' or 'full'": {"fields": ["body"]},
    "must be 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps'": {"device": ["gpu", 1]},
    "must be a text": {"model": [" "]},
    "must be true or false": {"refresh": ["maybe"]},
    "must be a list of folders": {"roots": ["one"]},
    "must be the path of a folder": {
        "roots": [[3]],
        "index_dir": ["", "a\0b"],
        "environments": [["x"]],
    },
    f"must be {AN_ENVIRONMENT}": {"environment": ["", "../up"]},
}


@pytest.mark.parametrize("reason", WRONG)
def test_a_value_that_cannot_be_used_is_named(project, monkeypatch, reason):
    project("")
    for key, values in WRONG[reason].items():
        for value in values:
            with pytest.raises(ConfigError) as caught:
                load_settings(**{key: value})
            assert (
                str(caught.value)
                == f"--{key.replace('_', '-')} {shlex.join([str(value)])} {reason}"
            )
    monkeypatch.setenv("SKILLSEARCH_N", "many")
    with pytest.raises(ConfigError, match=r"^SKILLSEARCH_N='many' "):
        load_settings()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("SKILLSEARCH_INDEXDIR", "SKILLSEARCH_INDEX_DIR"),
        ("SKILLSEARCH_TRESHOLD", "SKILLSEARCH_THRESHOLD"),
        ("SKILLSEARCH_TOKEN_MCP", "SKILLSEARCH_MCP_TOKEN"),
    ],
)
def test_a_variable_that_is_no_setting_is_told_once_with_the_nearest(
    project, monkeypatch, caplog, name, near
):
    project("")
    monkeypatch.setenv(name, "1")
    load_settings()
    load_settings()
    expected = f"The variable {name} is unknown and ignored; did you mean {near}?"
    assert [record.getMessage() for record in caplog.records] == [expected]


def test_all_variables_of_ours_are_known(project, monkeypatch, caplog):
    project("")
    for name in ("MCP_TOKEN", "MILVUS_TOKEN", "INDEX_DIR", "MODEL"):
        monkeypatch.setenv(f"SKILLSEARCH_{name}", "x")
    load_settings()
    assert caplog.records == []


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("True", True), ("no", False), ("FALSE", False)]
)
def test_a_switch_is_read_from_words(project, monkeypatch, text, value):
    project("")
    monkeypatch.setenv("SKILLSEARCH_REFRESH", text)
    assert load_settings().refresh is value


@pytest.mark.parametrize(
    ("key", "hint"), [("treshold", r"did you mean threshold\?"), ("xyz", "known are: .*threshold")]
)
def test_an_unknown_setting_is_named_with_the_nearest_or_all(project, key, hint):
    with pytest.raises(ConfigError, match=f"flag: unknown setting '{key}'; {hint}"):
        load_settings(**{key: "hashing"})
    project(f"{key} = 0.3\n")
    with pytest.raises(ConfigError, match=f"unknown setting '{key}'; {hint}"):
        load_settings()


@pytest.mark.parametrize("data", [b"n = ", b"\xff\xfe", b"n = 1\nn = 2\n"])
def test_a_file_that_is_no_toml_is_named(project, data):
    path = project("") / "skillsearch.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=r"skillsearch\.toml is not TOML: .*; correct the file"):
        load_settings()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"[tool.skillsearch]\nroots = {'[' * 100_000}\n", "is nested too deeply"),
        ("tool = 1 # [tool.skillsearch]", r": \[tool\.skillsearch\] is not a table"),
        ("[tool]\nskillsearch = []\n#[tool.skillsearch]", r": \[tool\.skillsearch\] is not a t"),
    ],
    ids=["brackets", "tool", "list"],
)
def test_a_file_of_brackets_and_a_table_that_is_none_are_refused(project, text, reason):
    """The parser gives up on a deep nest; that is the file's fault and no traceback."""
    folder = project(text, "pyproject.toml")
    with pytest.raises(ConfigError, match=rf"pyproject\.toml *{reason}"):
        load_settings(folder)


@pytest.mark.parametrize(
    "text",
    [
        'roots = ["/etc"]',
        'roots = ["../other"]',
        'roots = ["~/secret"]',
        'roots = ["link"]',
        'index_dir = "/tmp"',
        'index_dir = ".."',
        'environments = "/etc"',
        'environments = "link"',
        'model = "st:someone/model"',
        'model = "./model"',
    ],
)
def test_a_project_file_cannot_reach_outside_its_folder(project, text):
    """A foreign checkout decides neither what is read nor where files are written."""
    folder = project(text + "\n")
    (folder / "link").symlink_to("/etc")
    with pytest.raises(ConfigError, match="project file"):
        load_settings()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('["vetted"]', ("vetted",)),
        ('"fetched"', ("fetched",)),
        ('["a=project", "https://x.org/a.zip?k=v=vetted"]', None),
        (
            '["trusted"]',
            "must be LEVEL or ROOT=LEVEL, each LEVEL one of vetted, project or fetched",
        ),
        ('["=vetted"]', "must be LEVEL or ROOT=LEVEL"),
        ("[1]", "must be LEVEL or ROOT=LEVEL"),
    ],
)
def test_trust_is_a_list_of_levels_and_of_roots_with_levels(home, value, expected):
    own = home / "config" / "skillsearch" / "skillsearch.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f"trust = {value}\n")
    if isinstance(expected, str):
        with pytest.raises(ConfigError, match=expected):
            load_settings()
    else:
        written = (f"{own.parent}/a=project", "https://x.org/a.zip?k=v=vetted")
        assert load_settings().trust == (expected or written)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("trust", '["vetted"]'),
        ("allowed_commands", '["curl"]'),
        ("denied_commands", '["curl"]'),
        ("backend", '"milvus"'),
        ("uri", '"http://evil.example:19530"'),
        ("collection", '"theirs"'),
        ("usage", '"text"'),
        ("hook_mode", '"shadow"'),
        ("reader", '"st:some/model"'),
    ],
)
def test_what_a_project_file_may_not_choose_is_refused(project, key, value):
    project(f"{key} = {value}\n")
    with pytest.raises(ConfigError, match=f"{key} .*not for a project file to choose"):
        load_settings()


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:1", "mps"])
def test_a_device_is_read_from_file_and_variable(project, monkeypatch, device):
    project(f"device = '{device}'\n")
    assert load_settings().device == device
    monkeypatch.setenv("SKILLSEARCH_DEVICE", "cuda:7")
    assert load_settings().device == "cuda:7"
    assert load_settings(device=device).device == device


@pytest.mark.parametrize("name", ["onnx", "skillsearch-e5", "hashing", "multilingual"])
def test_a_project_file_may_choose_a_model_that_is_installed(project, name):
    project(f"index_dir = 'i'\nmodel = '{name}'\n")
    assert load_settings().model == name


def test_the_user_and_the_environment_may_name_anything(project, user_file, monkeypatch):
    project("")
    user_file('roots = ["/srv/skills"]\nmodel = "st:someone/model"\n')
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", "/srv/index")
    settings = load_settings()
    assert (settings.roots, settings.model) == ((Path("/srv/skills"),), "st:someone/model")
    assert settings.index_dir == Path("/srv/index")


def test_environments_lie_in_a_folder_of_the_file_that_names_it(project):
    folder = project('environments = "envs"\nenvironment = "test-env"\n')
    settings = load_settings()
    assert (settings.environments, settings.environment) == (folder / "envs", "test-env")


NAMES = ["test-env", "Büro 2", "测试", "a.b", "x" * 255]
NO_NAMES = [
    *("", ".", "..", ".git", "a/b", "/a", "a\\b", "C:"),
    *("a\0b", "a\nb", " a", "a  b", "a\u202eb", "\ud800", "x" * 256, "测" * 86),
]


def test_the_name_of_a_single_plain_folder_names_an_environment():
    assert [name for name in NAMES if not is_environment_name(name)] == []
    assert [name for name in NO_NAMES if is_environment_name(name)] == []


def test_an_index_has_a_folder_of_its_own_for_its_roots_and_model(tmp_path, home):
    folder = user_folders.index_dir_for([tmp_path / "a"], "onnx")
    assert folder == user_folders.index_dir_for([tmp_path / "a"], "onnx")
    others = {
        user_folders.index_dir_for([tmp_path / "b"], "onnx"),
        user_folders.index_dir_for([tmp_path / "a"], "hashing"),
        user_folders.index_dir_for([tmp_path / "a", tmp_path / "b"], "onnx"),
    }
    assert len(others | {folder}) == 4
    assert folder.is_relative_to(home)


def test_this_repository_indexes_its_examples():
    folder = Path(__file__).parents[2]
    settings = load_settings(folder)
    assert settings.roots == (folder / "skillsearch" / "examples",)
    assert settings.index_dir.parent == folder / "index_cache"


@pytest.mark.parametrize("value", ["python3, git\tjq", ["python3", "git", "jq"]])
def test_lists_of_commands_are_words_or_lists(tmp_path, value):
    settings = config.load_settings(tmp_path, allowed_commands=value)
    assert settings.allowed_commands == ("python3", "git", "jq")
    environment = {"SKILLSEARCH_DENIED_COMMANDS": "curl,wget"}
    settings = config.load_settings(tmp_path, variables=environment)
    assert settings.denied_commands == ("curl", "wget")
    for wrong in (3, [""], [1]):
        with pytest.raises(ConfigError, match="must be a list of words"):
            config.load_settings(tmp_path, denied_commands=wrong)


@pytest.mark.parametrize("value", ["auto", "off", "always", "st:some/model", "readers"])
def test_a_reader_is_a_word_or_a_model(project, monkeypatch, value):
    folder = project('reader = "off"') / "readers"
    folder.mkdir()
    monkeypatch.setenv("SKILLSEARCH_READER", value)
    assert load_settings().reader == (str(folder) if value == "readers" else value)
    assert load_settings(reader="off").reader == "off"


@pytest.mark.parametrize("value", ["of", "", "st:", "no/such/folder", "a" * 300, "\0", 1])
def test_a_wrong_reader_is_told_what_there_is(tmp_path, value):
    choices = "must be 'auto', 'off', 'always', 'st:NAME' or the folder of an ONNX model"
    with pytest.raises(ValueError, match=choices):
        parse_reader(value, tmp_path)
    with pytest.raises(QueryError, match=choices):
        SearchOptions(reader=value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("index_dir", "~nouser/x"),
        ("environments", "~nouser"),
        ("reader", "~nouser/x"),
        ("roots", ["~nouser/x"]),
        ("trust", ["~nouser/x=vetted"]),
    ],
)
def test_a_home_folder_of_nobody_is_told(user_file, tmp_path, key, value):
    path = user_file(f"{key} = {value!r}")
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path)
    assert str(caught.value) == (
        f"{path}: {key} = {value!r} must be the path of a folder, and no user here is named "
        "'nouser'; a folder of such a name is given by its whole path"
    )


NARROWING = {
    "n": (1, 5),
    "threshold": (1.0, None),
    "reader": ("off", "auto"),
    "refresh": ("false", True),
    "fields": ("metadata", "full"),
    "model": ("hashing", "onnx"),
}
"""What a checkout may say of each setting that could hide a skill, and the default."""


def written(value):
    """Return a value as TOML has it."""
    return value if value == "false" else repr(value)


def test_every_setting_that_may_hide_a_skill_is_known():
    """All others of a project file are refused, are paths inside it, or hide nothing."""
    by_right = {"everywhere": set(SELECTING), "own index": set(), "nowhere": set()}
    for key, setting in SETTINGS.items():
        by_right[setting.project].add(key)
    harmless = {"roots", "index_dir", "device", "environments", "environment", "daemon", "profile"}
    assert by_right["everywhere"] == harmless | {*SELECTING}
    assert by_right["own index"] == set(NARROWING)


@pytest.mark.parametrize("key", NARROWING)
@pytest.mark.parametrize("file", ["skillsearch.toml", "pyproject.toml"])
def test_what_a_checkout_says_of_answers_counts_for_its_own_index_alone(
    project, user_file, monkeypatch, caplog, key, file
):
    monkeypatch.delenv("SKILLSEARCH_READER")
    config._warn_of_ignored.cache_clear()
    value, usual = NARROWING[key]
    head = "[tool.skillsearch]\n" if file == "pyproject.toml" else ""
    folder = project(f"{head}{key} = {written(value)}\n", file)
    assert (getattr(load_settings(), key), load_settings().sources) == (usual, {})
    assert f"{folder / file} decides {key} for an index that it names" in caplog.text
    own = user_file(f"{key} = {written(value)}\n")
    assert load_settings().sources == {key: str(own)}
    own.unlink()
    project(f"{head}{key} = {written(value)}\nindex_dir = 'i'\n", file)
    assert load_settings().sources[key] == str(folder / file)
    decided = limits_of(load_settings())
    assert decided.startswith(f"{folder / file} decides index_dir, {key}; your own index: ")
    assert key not in load_settings(index_dir=folder / "mine").sources
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(folder / "mine"))
    assert key not in load_settings().sources


@pytest.mark.parametrize(
    "text",
    [
        "[profiles.p]\nthreshold = 1.0\nn = 1\nexclude = ['*']\n",
        "profile = 'p'\n[profiles.p]\nthreshold = 1.0\nn = 1\nexclude = ['*']\n",
        "profile = 'mine'\n",
    ],
)
def test_a_profile_of_a_checkout_or_chosen_by_it_is_bounded_too(
    project, user_file, monkeypatch, text
):
    user_file("[profiles.mine]\nthreshold = 1.0\nn = 1\nexclude = ['*']\n[profiles.p]\n")
    folder = project(text)
    settings = load_settings(profile=None if text.startswith("profile") else "p")
    assert (settings.n, settings.threshold) == (5, None)
    assert without_scope(settings.selection) == (("exclude", ("*",), str(folder)),)
    mine = load_settings(profile="mine")
    assert (mine.n, mine.threshold) == (1, 1.0)
    assert without_scope(mine.selection) == (("exclude", ("*",)),)


def test_a_value_without_end_is_told_in_part_with_what_it_must_be(project):
    project(f"fields = '{'x' * 100_000}'")
    with pytest.raises(
        ConfigError, match=r"fields = 'xx.* … x+' must be 'metadata' or 'full'$"
    ) as caught:
        load_settings()
    assert len(str(caught.value)) < 5_000
