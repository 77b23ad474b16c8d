"""Tests of the registry for Google's ADK, with the real package (extra `adk`)."""

import asyncio
from types import SimpleNamespace

import pytest

from skillsearch.errors import SkillError, SkillNotFoundError
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.usage.log import UsageLog

pytest.importorskip("google.adk.tools.skill_toolset", exc_type=ImportError)
pytestmark = pytest.mark.integrations


@pytest.fixture
def registry(drinks, tmp_path):
    from skillsearch.agents.integrations.adk import SkillSearchRegistry

    def registry(*roots, usage=None, **options):
        library = SkillLibrary.from_roots(
            roots or [drinks], index_dir=tmp_path / "index", model="hashing", usage=usage
        )
        return SkillSearchRegistry(library, **{"threshold": 0.0, **options})

    return registry


def hit_names(registry, query="brew filter coffee"):
    return [hit.name for hit in asyncio.run(registry.search_skills(query=query))]


def get(registry, name):
    return asyncio.run(registry.get_skill(name=name))


def test_a_search_gives_frontmatter_best_first(registry):
    (best,) = asyncio.run(registry(n=1).search_skills(query="brew filter coffee"))
    assert best.name == "brew-coffee"
    assert best.description.startswith("Brew filter coffee with a scale.")


def test_a_library_with_a_log_records_what_is_asked_and_loaded(registry, tmp_path):
    log = UsageLog(tmp_path / "usage", "agent")
    adk = registry(n=1, usage=log)
    hit_names(adk)
    get(adk, "brew-coffee")
    request, load = log.events()
    assert request.offered[0].skill == load.skill == "drinks:brew-coffee"
    assert load.request_id == request.request_id


def test_nothing_fits_is_an_empty_list(registry):
    assert hit_names(registry(threshold=None), "assemble a bookshelf") == []


def test_a_skill_comes_with_its_files(registry, drinks, make_skill):
    folder = make_skill(
        drinks,
        "chai",
        "Cook chai.",
        body="# Chai\n\nCook it.\n",
        license="MIT",
        compatibility="Needs a pot.",
        metadata={"author": "me"},
        **{"allowed-tools": "Read Bash"},
    ).parent
    files = {
        "references/deep/milk.md": b"Whole milk.",
        "assets/cup.png": b"\x89PNG\x00",
        "scripts/cook.sh": b"echo cook\n",
        "scripts/cook.bin": b"\xff\x00",
        "notes.md": b"x",
    }
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    skill = get(registry(), "chai")
    assert skill.instructions == "# Chai\n\nCook it."
    assert skill.frontmatter.model_dump(by_alias=True) == {
        "name": "chai",
        "description": "Cook chai.",
        "license": "MIT",
        "compatibility": "Needs a pot.",
        "allowed-tools": "Read Bash",
        "metadata": {"author": "me"},
    }
    assert skill.resources.references == {"deep/milk.md": "Whole milk."}
    assert skill.resources.assets == {"cup.png": b"\x89PNG\x00"}
    assert {name: script.src for name, script in skill.resources.scripts.items()} == {
        "cook.sh": "echo cook\n"
    }


def test_links_are_no_files_of_a_skill(registry, drinks):
    (drinks / "brew-coffee" / "references").mkdir()
    (drinks / "brew-coffee" / "references" / "passwd").symlink_to("/etc/passwd")
    assert get(registry(), "brew-coffee").resources.references == {}


def test_files_beyond_the_limit_of_adk_are_left_out_and_logged(registry, drinks, caplog):
    folder = drinks / "brew-coffee" / "references"
    folder.mkdir()
    for name in ("a.md", "b.md", "c.md"):
        (folder / name).write_text("12345")
    limited = registry(max_bytes=10)
    assert sorted(get(limited, "brew-coffee").resources.references) == ["a.md", "b.md"]
    assert "references/c.md" in caplog.text


def test_a_name_is_shown_in_the_form_that_adk_accepts(registry, drinks, make_skill):
    path = drinks / "odd" / "SKILL.md"
    path.parent.mkdir()
    path.write_text("---\nname: Whisk_Matcha Tea\ndescription: Whisk matcha.\n---\nSlowly.\n")
    assert hit_names(registry(n=1), "whisk matcha") == ["whisk-matcha-tea"]
    assert get(registry(), "whisk-matcha-tea").instructions == "Slowly."


def test_a_skill_that_no_such_name_means_is_left_out_and_logged(
    registry, drinks, make_skill, caplog
):
    make_skill(drinks, "抹茶", "Brew filter coffee or matcha.")
    assert "brew-coffee" in hit_names(registry())
    assert "抹茶" in caplog.text
    with pytest.raises(SkillError, match="ADK does not accept the name"):
        get(registry(), "抹茶")


def test_metadata_that_adk_does_not_understand_is_left_out(registry, drinks, make_skill):
    make_skill(drinks, "chai", "Cook chai.", metadata={"adk_additional_tools": "all"})
    assert get(registry(), "chai").frontmatter.metadata == {}


def test_an_unknown_skill_is_an_error_with_the_nearest_names(registry):
    with pytest.raises(SkillNotFoundError, match="brew-coffee"):
        get(registry(), "brew-cofee")


def test_the_toolset_of_adk_works_with_it(registry, drinks):
    from google.adk.sessions.state import State
    from google.adk.tools.skill_toolset import SkillToolset

    (drinks / "brew-coffee" / "references").mkdir()
    (drinks / "brew-coffee" / "references" / "grind.md").write_text("Medium.")
    context = SimpleNamespace(state=State({}, {}), agent_name="barista", invocation_id="1")

    async def go():
        tools = {t.name: t for t in await SkillToolset(registry=registry()).get_tools()}

        async def call(name, **arguments):
            return await tools[name].run_async(args=arguments, tool_context=context)

        return [
            tools["search_skills"].description,
            await call("search_skills", query="brew filter coffee"),
            await call("load_skill", skill_name="brew-coffee"),
            await call(
                "load_skill_resource", skill_name="brew-coffee", file_path="references/grind.md"
            ),
            await call("load_skill", skill_name="nonsense"),
        ]

    description, hits, loaded, resource, error = asyncio.run(go())
    assert "proven instructions" in description
    assert hits[0]["name"] == "brew-coffee"
    assert loaded["instructions"].startswith("# Coffee")
    assert resource["content"] == "Medium."
    assert "No skill is named 'nonsense'" in error["error"]
