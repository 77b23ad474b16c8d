"""Each setting by each face that searches: how it is given, and that it has its effect there."""

import re
import shutil

import pytest

from skillsearch import SkillIndex, search_skills
from skillsearch.agents.toolsets import context, skills_manager
from skillsearch.agents.toolsets.environments import ServerEnvironment
from skillsearch.config import load_settings
from skillsearch.daemon.answers import Answers
from skillsearch.embedders.embedder import LOADERS
from skillsearch.embedders.embedding import HashingEmbedder
from skillsearch.environ import variables
from skillsearch.errors import SkillSearchError
from skillsearch.mcp_server.served_library import ServedLibrary
from skillsearch.mcp_server.session_tools import SessionTools
from skillsearch.ui.pages import Pages

QUERY = "steep green tea, 녹차"
MCP = ("default", "manager", "context")
COLUMNS = ("002", "003", "000", "search_skills", "query", "prompt", "hook", "page", *MCP)
# How a face takes a setting: as an argument (a), by a variable (v), or by its index (i).
TABLE = {
    #            002 003 000 search_skills query prompt hook page default manager context
    "threshold": "a   a   av  av            av    av     v    v    v       v       v",
    "reader": "   av  av  v   v             av    av     v    v    v       v       v",
    "model": "    a   a   v   i             i     i      i    i    v       v       v",
    "languages": "a   a   v   i             i     i      i    i    v       v       v",
    "roots": "    a   av  v   i             i     i      i    i    a       a       a",
    "strict": "   a   a   v   v             av    av     v    v    v       v       v",
}
USUAL = {
    **{"threshold": 0.0, "reader": "off", "model": "hashing", "languages": "english"},
    "strict": False,
}
CELLS = [
    pytest.param(setting, way, face, id=f"{setting}-{face}-{way}")
    for setting, row in TABLE.items()
    for face, ways in zip(COLUMNS, row.split(), strict=True)
    for way in ways
]


@pytest.fixture
def loaded(monkeypatch, install_weights):
    """Record which embedders are loaded; none of them is a model."""
    install_weights("known")
    record = []

    def loading(name, scripts):
        return lambda: record.append(name) or HashingEmbedder(256, scripts)

    for name in ("hashing", "other", "multilingual"):
        scripts = None if name == "multilingual" else frozenset({"Latin"})
        monkeypatch.setitem(LOADERS, name, loading(name, scripts))
    return record


@pytest.fixture
def root(tmp_path, make_skill):
    """Return a folder of skills by its name; each is of an environment, too."""
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
    return lambda name: tmp_path / name / "default" / "skills"


@pytest.fixture
def ask(cli, index_dir, root, monkeypatch):
    """Have a face search, given its settings as its row says; return the names that it shows."""
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(index_dir))

    def by_command(command, threshold=None, reader=None, *, strict=False):
        flags = [("--threshold", threshold), ("--reader", reader), ("--index-dir", index_dir)]
        given = [part for flag in flags if flag[1] is not None for part in flag]
        result = cli(command, QUERY, *given, *["--strict"] * strict, "--json")
        if result.exit_code:
            raise SkillSearchError(result.stderr)
        return set(re.findall(r"(?:steep|pour|brew)-tea(?=/SKILL\.md)", result.stdout))

    def by_tool(toolset, roots):
        served = ServedLibrary([roots], load_settings(), index_dir)
        tools = SessionTools(toolset, served).of("").toolset
        served.warm()
        served._indexing.submit(int).result()  # so that the index has been made
        answer = tools.call("search_skills", {"query": QUERY})
        if "'error':" in str(answer):
            raise SkillSearchError(str(answer))
        return set(re.findall(r"(?:steep|pour|brew)-tea(?=[ :\"'])", str(answer)))

    def by_context(roots, threshold=None, **given):
        loader = context.SkillsLoader(roots, index_dir=index_dir, **given)
        manager = context.SkillsManager(loader, threshold=threshold)
        return {one.name for one in manager.search_skills(QUERY)}

    def by_manager(roots=None, **given):
        manager = skills_manager.SkillsManager(roots, index_dir=index_dir, **given)
        return {one["name"] for one in manager.search_skills(QUERY)}

    def by_environment(**given):
        return {one["name"] for one in ServerEnvironment().search_skills(QUERY, **given)}

    def by_hook():
        asked = {"prompt": QUERY, "n": 3, "include_unvetted": False, "variables": variables()}
        place = {"folder": str(root("ours")), "index_dir": str(index_dir)}
        offers = Answers().overview(asked | place)["offers"]
        return {key.partition(":")[2].partition("@")[0] for key in offers}

    return {
        "002": by_context,
        "003": by_manager,
        "000": by_environment,
        "search_skills": lambda **given: {one["name"] for one in search_skills(QUERY, **given)},
        "query": lambda **given: by_command("query", **given),
        "prompt": lambda **given: by_command("prompt", **given),
        "hook": by_hook,
        "page": lambda: {one.name for one in Pages(load_settings()).search(QUERY)["result"].shown},
        **{name: lambda roots, name=name: by_tool(name, roots) for name in MCP},
    }


@pytest.fixture
def give(ask, root, index_dir, loaded, monkeypatch):
    """Have a face search with the usual settings but for some, one of which is given in a way."""

    def give(face, setting="", way="", **changed):
        arguments, of_index = {}, {}
        for name, value in (USUAL | {"roots": root("ours")} | changed).items():
            ways = TABLE[name].split()[COLUMNS.index(face)]
            match way if name == setting else ways[0]:
                case "a":
                    arguments[name] = value
                case "i":
                    of_index[name] = value
                case "v" if (face, name) == ("000", "roots"):
                    monkeypatch.setenv("SKILLSEARCH_ENVIRONMENTS", str(value.parents[1]))
                case "v":
                    monkeypatch.setenv(f"SKILLSEARCH_{name.upper()}", str(value))
        if of_index:
            shutil.rmtree(index_dir, ignore_errors=True)
            SkillIndex.from_roots(of_index.pop("roots"), index_dir=index_dir, **of_index)
        loaded.clear()
        return ask[face](**arguments)

    return give


@pytest.mark.parametrize("face", COLUMNS)
def test_the_usual_settings_find_all_skills_of_the_root(give, loaded, face):
    """So that each effect below is that of one setting; the model is that of the row."""
    assert give(face) == {"steep-tea", "pour-tea"}
    assert set(loaded) == {"hashing"}


@pytest.mark.parametrize(("setting", "way", "face"), CELLS)
def test_a_setting_has_its_effect_by_every_face(
    give, loaded, root, tmp_path, caplog, setting, way, face
):
    """A threshold of 1 leaves nothing, a reader that is none is named, and so on."""
    match setting:
        case "threshold":
            assert give(face, setting, way, threshold=1.0) == set()
        case "reader":
            broken = tmp_path / "broken"
            broken.mkdir()
            with pytest.raises(SkillSearchError) as caught:
                give(face, setting, way, reader=str(broken))
            assert str(broken) in f"{caught.value} {caplog.text}"  # models are told no folders
        case "model":
            assert give(face, setting, way, model="other")
            assert set(loaded) == {"other"}
        case "languages":
            assert give(face, setting, way, languages="all")
            assert set(loaded) == {"hashing", "multilingual"}
        case "roots":
            assert give(face, setting, way, roots=root("theirs")) == {"brew-tea"}
        case "strict":
            assert give(face, setting, way, roots=root("lax")) == {"steep-tea", "brew-tea"}
            assert give(face, setting, way, roots=root("lax"), strict=True) == {"steep-tea"}
