"""Each setting by each interface that searches: how it is given, and that it has its effect."""

import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from skillsearch import SkillIndex, SkillLibrary, search_skills
from skillsearch.agents.toolsets import chunks, context, skills_manager, workspace
from skillsearch.agents.toolsets.server_environment import ServerEnvironment
from skillsearch.daemon.answers import Answers
from skillsearch.embedders.embedder import LOADERS
from skillsearch.embedders.embedding import HashingEmbedder
from skillsearch.errors import CommandRefusedError, SkillSearchError
from skillsearch.execution.isolation.local import LocalExecutor
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.types import RunRequest
from skillsearch.mcp_server.served_library import ServedLibrary
from skillsearch.mcp_server.session_tools import SessionTools
from skillsearch.settings.config import load_settings
from skillsearch.settings.environ import variables
from skillsearch.settings.table import SETTINGS
from skillsearch.settings.user_folders import user_file
from skillsearch.ui.pages import Pages

QUERY = "steep green tea"
MCP = ("default", "manager", "context")
OWN = ("000", "001", "002", "003", "004", "index", "library")
COLUMNS = (*OWN, "search_skills", "query", "prompt", "hook", "page", *MCP)
# How an interface takes a setting: as an argument (a), by a variable (v), its index (i), or not.
TABLE = {
    #             000 001 002 003 004 index library search_skills query prompt hook page and MCP
    "threshold": "av  v   av  av  v   av    v       av            av    av     v    v    v  v  v",
    "reader": "   v   av  av  av  av  av    av      v             av    av     v    v    v  v  v",
    "model": "    v   av  av  av  av  av    av      i             i     i      i    i    v  v  v",
    "fields": "   v   v   v   v   v   av    v       i             i     i      i    i    v  v  v",
    "roots": "    v   a   a   av  a   a     a       i             i     i      i    i    a  a  a",
    "strict": "   v   a   a   a   a   -     a       v             av    av     v    v    v  v  v",
    "include": "  -   -   -   -   -   -     -       v             av    av     v    v    v  v  v",
    "exclude": "  -   -   -   -   -   -     -       v             av    av     v    v    v  v  v",
    "tags": "     -   -   -   -   -   -     -       v             av    av     v    v    v  v  v",
    "in_roots": " -   -   -   -   -   -     -       v             av    av     v    v    v  v  v",
    "profile": "  -   -   -   -   -   -     -       v             av    av     v    v    v  v  v",
    "n": "        a   a   a   a   -   a     a       a             av    av     -    -    -  -  -",
    "index_dir": "-   -   -   -   -   v     v       v             av    av     v    v    -  -  -",
}
_SELECTED = "what an object of Python searches is decided where it is made, by its selection"
WHY = {  # why some interfaces do not take a setting
    **dict.fromkeys(("include", "exclude", "tags", "in_roots", "profile", "strict"), _SELECTED),
    "n": "a hook has room for three, a page for all that it shows, a model says how many it wants",
    "index_dir": "an index of these folders alone, in the cache",
}
ELSEWHERE = {  # what is tested for its interfaces in a file of its own, or is of no search
    "all_projects": "scope/test_interfaces.py",
    "refresh": "index/test_freshness.py",
    "trust": "agents/test_trust.py",
    "environment": "agents/toolsets/test_server_environment.py",
    "environments": "agents/toolsets/test_server_environment.py",
    "daemon": "cli/test_daemon.py",
    "usage": "usage/test_recording.py",
    "hook_mode": "usage/test_shadow.py",
    "device": "embedders/test_device.py",
    "backend": "remote/test_cli_remote.py",
    "uri": "remote/test_cli_remote.py",
    "collection": "remote/test_cli_remote.py",
    "allowed_commands": "test_settings_by_interface.py",
    "denied_commands": "test_settings_by_interface.py",
}
USUAL = {
    **{"threshold": 0.0, "reader": "off", "model": "hashing"},
    **{"fields": "full", "strict": False},
}
# Once the settings are read, include, exclude, tags and profile are one selection; and the toolsets
# of a server share the library that it serves. So each of these pairs shares the code of another.
# What is given as an argument and what by a variable meet in `load_settings`, for all alike.
ONE_SELECTION = {"exclude", "tags", "profile", "in_roots"}
OF_THE_LIBRARY = {"reader", "model", "fields", "roots", "strict", "include"}
BOTH_WAYS = {"query", "library"}


def has_own_code(setting, interface):
    """Say whether a setting goes a way of its own through an interface."""
    shares_selection = setting in ONE_SELECTION and interface != "query"
    return not shares_selection and not (interface in MCP[1:] and setting in OF_THE_LIBRARY)


CELLS = [
    pytest.param(setting, way, interface, id=f"{setting}-{interface}-{way}")
    for setting, row in TABLE.items()
    for interface, ways in zip(COLUMNS, row.split(), strict=True)
    for way in (ways if interface in BOTH_WAYS else ways[0]).strip("-")
    if has_own_code(setting, interface)
]


def test_every_setting_is_in_a_table_and_every_gap_has_a_reason():
    assert sorted([*TABLE, *ELSEWHERE]) == sorted(SETTINGS)
    assert {setting for setting, row in TABLE.items() if "-" in row.split()} == {*WHY}
    for setting, file in ELSEWHERE.items():
        assert setting in Path(__file__).parent.joinpath(file).read_text("utf-8").casefold()


@pytest.fixture
def loaded(monkeypatch):
    """Record which embedders are loaded; none of them is a model."""
    record = []

    def loading(name):
        return lambda: record.append(name) or HashingEmbedder(256)

    for name in ("hashing", "other"):
        monkeypatch.setitem(LOADERS, name, loading(name))
    return record


@pytest.fixture(scope="module")
def root(tmp_path_factory, write_skill):
    """Return a folder of skills by its name; each is of an environment, too."""
    tmp_path, make_skill = tmp_path_factory.mktemp("roots"), write_skill
    for name, skills in {"ours": ("steep-tea", "pour-tea"), "theirs": ("brew-tea",)}.items():
        for skill in skills:
            make_skill(tmp_path / name / "default" / "skills", skill, f"Steep green {skill}.")
    lax = tmp_path / "lax" / "default" / "skills"
    make_skill(lax, "steep-tea", "Steep green steep-tea.")
    make_skill(lax, "brew-tea", "Steep green brew-tea.")
    file = lax / "brew-tea" / "SKILL.md"
    lines = file.read_text().splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("description:"))
    file.write_text(f"{text}Steep green brew-tea.\n")
    deep = tmp_path / "deep" / "default" / "skills"
    make_skill(deep, "steep-tea", "Steep green steep-tea.")
    make_skill(deep, "brew-pot", "Xyz.", body=f"{QUERY}\n" * 9)
    tagged = tmp_path / "tagged" / "default" / "skills"
    make_skill(tagged, "steep-tea", "Steep green steep-tea.", tags=["hot"])
    make_skill(tagged, "brew-tea", "Steep green brew-tea.")
    return lambda name: tmp_path / name / "default" / "skills"


def by_context(index_dir, roots, threshold=None, n=3, **arguments):
    """Search by the manager of document 002."""
    loader = context.SkillsLoader(roots, index_dir=index_dir, **arguments)
    manager = context.SkillsManager(loader, threshold=threshold)
    return {skill.name for skill in manager.search_skills(QUERY, n)}


def by_manager(index_dir, roots=None, n=5, **arguments):
    """Search by the manager of document 003."""
    manager = skills_manager.SkillsManager(roots, index_dir=index_dir, **arguments)
    return {skill["name"] for skill in manager.search_skills(QUERY, n)}


def by_chunks(index_dir, roots, n=5, **arguments):
    """Search by the manager of document 001."""
    manager = chunks.SkillManager(index_dir=index_dir, **arguments)
    manager.load_from_directory(roots)
    return {hit.name for hit in manager.search(QUERY, n).shown}


def by_workspace(index_dir, roots, **arguments):
    """Return what the prompt of document 004 describes."""
    library = SkillLibrary.from_roots(roots, index_dir=index_dir, **arguments)
    prompt = workspace.WorkspaceToolset(library, executor=None).system_prompt(QUERY)
    return set(re.findall(r"^- (\S+):", prompt, re.MULTILINE))


def by_library(index_dir, roots=None, n=5, threshold=None, **arguments):
    if roots is None:
        library = SkillLibrary.open()
    else:
        library = SkillLibrary.from_roots(roots, index_dir=index_dir, **arguments)
    return {hit.name for hit in library.search(QUERY, n, threshold).shown}


def by_index(index_dir, roots=None, n=5, threshold=None, reader=None, **arguments):
    if "fields" in arguments:
        arguments["with_body"] = arguments.pop("fields") == "full"
    if roots is None:
        index = SkillIndex.open()
    else:
        index = SkillIndex.from_roots(roots, index_dir=index_dir, **arguments)
    return {hit.name for hit in index.search(QUERY, n, threshold, reader=reader).shown}


@pytest.fixture
def ask(cli, index_dir, root, monkeypatch):
    """Have an interface search, its settings given as its row says; return the names it shows."""
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(index_dir))

    def by_command(command, *, strict=False, **settings):
        spelled = {"tags": "--tag", "in_roots": "--root", "n": "-n"}
        names = {key: spelled.get(key, f"--{key.replace('_', '-')}") for key in settings}
        options = [part for key in settings for part in (names[key], settings[key])]
        result = cli(command, QUERY, *options, *["--strict"] * strict, "--json")
        if result.exit_code:
            raise SkillSearchError(result.stderr)
        return set(re.findall(r"(?:steep|pour|brew)-(?:tea|pot)(?=/SKILL\.md)", result.stdout))

    def by_tool(toolset, roots):
        served = ServedLibrary([roots], load_settings(), index_dir)
        tools = SessionTools(toolset, served).of("").toolset
        served.warm()
        served._indexing.submit(int).result()  # so that the index has been made
        answer = tools.call("search_skills", {"query": QUERY})
        if "'error':" in str(answer):
            raise SkillSearchError(str(answer))
        return set(re.findall(r"(?:steep|pour|brew)-(?:tea|pot)(?=[ :\"'])", str(answer)))

    def by_environment(**arguments):
        return {skill["name"] for skill in ServerEnvironment().search_skills(QUERY, **arguments)}

    def by_hook():
        question = {"prompt": QUERY, "n": 3, "include_unvetted": False, "states": []}
        question["variables"] = variables()
        scope = {"folder": str(root("ours")), "index_dir": None}
        offers = Answers().overview(question | scope)["offers"]
        return {key.partition(":")[2].partition("@")[0] for key in offers}

    return {
        "002": partial(by_context, index_dir),
        "003": partial(by_manager, index_dir),
        "000": by_environment,
        "001": partial(by_chunks, index_dir),
        "004": partial(by_workspace, index_dir),
        "index": partial(by_index, index_dir),
        "library": partial(by_library, index_dir),
        "search_skills": lambda **more: {hit["name"] for hit in search_skills(QUERY, **more)},
        "query": lambda **arguments: by_command("query", **arguments),
        "prompt": lambda **arguments: by_command("prompt", **arguments),
        "hook": by_hook,
        "page": lambda: {hit.name for hit in Pages(load_settings()).search(QUERY)["result"].shown},
        **{name: lambda roots, name=name: by_tool(name, roots) for name in MCP},
    }


@pytest.fixture
def give(ask, root, index_dir, make_index, loaded, monkeypatch):
    """Have an interface search with the usual settings but for some, one of them given in a way."""

    def give(interface, setting="", way="", **changed):
        arguments, of_index = {}, {}
        for name, value in (USUAL | {"roots": root("ours")} | changed).items():
            ways = TABLE[name].split()[COLUMNS.index(interface)]
            match way if name == setting else ways[0]:
                case "a":
                    arguments[name] = value
                case "i":
                    of_index[name] = value
                case "v" if (interface, name) == ("000", "roots"):
                    monkeypatch.setenv("SKILLSEARCH_ENVIRONMENTS", str(value.parents[1]))
                case "v":
                    monkeypatch.setenv(f"SKILLSEARCH_{name.upper()}", str(value))
        if of_index:
            make_index(index_dir, **of_index)
        loaded.clear()
        return ask[interface](**arguments)

    return give


@pytest.fixture(scope="module")
def make_index(tmp_path_factory):
    """Put an index into a folder, a copy of one that was made before."""
    made = {}

    def make(index_dir, **settings):
        key = tuple(sorted(settings.items()))
        if key not in made:
            made[key] = tmp_path_factory.mktemp("made") / "index"
            with_body = settings.pop("fields", "full") == "full"
            roots = settings.pop("roots")
            SkillIndex.from_roots(roots, index_dir=made[key], with_body=with_body, **settings)
        shutil.rmtree(index_dir, ignore_errors=True)
        shutil.copytree(made[key], index_dir)

    return make


@pytest.mark.parametrize(
    ("interface", "folder"),
    [
        *((interface, "ours") for interface in COLUMNS),
        *(("index", f) for f in ("lax", "deep", "tagged")),
    ],
)
def test_the_usual_settings_find_all_skills_of_the_root(give, root, loaded, interface, folder):
    """So that each effect below is that of one setting; the model is that of the row."""
    other = {"ours": "pour-tea", "deep": "brew-pot"}.get(folder, "brew-tea")
    assert give(interface, roots=root(folder)) == {"steep-tea", other}
    assert set(loaded) == {"hashing"}


EXPECTED = {  # given a value of a setting and a root, the skills that are found
    "threshold": (1.0, "ours", set()),
    "strict": (True, "lax", {"steep-tea"}),
    "fields": ("metadata", "deep", {"steep-tea"}),
    "include": ("pour-*", "ours", {"pour-tea"}),
    "exclude": ("pour-*", "ours", {"steep-tea"}),
    "tags": ("hot", "tagged", {"steep-tea"}),
    "profile": ("pouring", "ours", {"pour-tea"}),
    "n": (1, "ours", set()),
}


@pytest.mark.parametrize(
    ("setting", "way", "interface"), [cell for cell in CELLS if cell.values[0] in EXPECTED]
)
def test_a_setting_decides_what_every_interface_finds(give, root, setting, way, interface):
    """The whole root is found without it, as above."""
    user_file().parent.mkdir(parents=True)
    user_file().write_text('[profiles.pouring]\ninclude = ["pour-*"]\n')
    value, folder, expected = EXPECTED[setting]
    if setting == "n":
        assert len(give(interface, setting, way, n=value)) == 1
    else:
        assert give(interface, setting, way, roots=root(folder), **{setting: value}) == expected


@pytest.mark.parametrize(
    ("setting", "way", "interface"), [cell for cell in CELLS if cell.values[0] not in EXPECTED]
)
def test_a_setting_has_its_effect_by_every_interface(
    give, make_index, loaded, root, tmp_path, caplog, setting, way, interface
):
    match setting:
        case "reader":
            broken = tmp_path / "broken"
            broken.mkdir()
            with pytest.raises(SkillSearchError) as caught:
                give(interface, setting, way, reader=str(broken))
            assert str(broken) in f"{caught.value} {caplog.text}"  # models are told no folders
        case "model":
            assert give(interface, setting, way, model="other")
            assert set(loaded) == {"other"}
        case "roots":
            assert give(interface, setting, way, roots=root("theirs")) == {"brew-tea"}
        case "in_roots":
            with pytest.raises(SkillSearchError, match="nowhere"):
                give(interface, setting, way, in_roots="nowhere")
        case "index_dir":
            other = tmp_path / "other"
            make_index(other, roots=root("theirs"), model="hashing")
            no_roots = {"roots": None} if interface in ("index", "library") else {}
            assert give(interface, setting, way, index_dir=str(other), **no_roots) == {"brew-tea"}


@pytest.mark.parametrize(
    ("setting", "interface"),
    [
        ("allowed_commands", "run"),
        ("denied_commands", "004"),
        ("allowed_commands", "runner"),
        ("denied_commands", "runner"),
    ],
)
def test_the_commands_of_the_settings_bind_every_interface_that_runs(
    cli, root, index_dir, monkeypatch, setting, interface
):
    monkeypatch.setenv(f"SKILLSEARCH_{setting.upper()}", "cat" if "allow" in setting else "ls")
    SkillIndex.from_roots(root("ours"), index_dir=index_dir, model="hashing")
    library = SkillLibrary.open(index_dir)
    match interface:
        case "run":
            local = ("--executor", "local", "--index-dir", index_dir)
            said = cli("run", "steep-tea", *local, "--", "ls").stderr
        case "004":
            tools = workspace.WorkspaceToolset(library, executor="local").toolset()
            tools.call("skill_load", {"skill": "steep-tea"})
            said = str(tools.call("skill_run", {"skill": "steep-tea", "command": "ls"}))
        case "runner":
            skill = Path(library.find("steep-tea").path).parent
            with (
                SkillRunner(LocalExecutor()) as runner,
                pytest.raises(CommandRefusedError) as error,
            ):
                runner.run(RunRequest("steep-tea", skill, "ls"))
            said = str(error.value)
    assert "'ls'" in said
    assert "denied" in said or "allowed" in said
