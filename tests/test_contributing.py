"""Carries out the recipes of CONTRIBUTING.md in a copy of the package."""

import re
import runpy
from pathlib import Path

import pytest

import skillsearch
from skillsearch.index.skill_index import SkillIndex

PACKAGE = Path(skillsearch.__file__).parent
PAGE = PACKAGE.parent / ".github" / "CONTRIBUTING.md"
blocks = runpy.run_path(str(Path(__file__).with_name("page_blocks.py")))
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="an installed copy has no CONTRIBUTING")
RECIPE = re.compile(
    r"^## (?P<title>.+?)\n.*?^```diff\n(?P<diff>.*?)^```\n+```console\n(?P<console>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
RECIPES = {
    match["title"]: match
    for match in (RECIPE.finditer(PAGE.read_text("utf-8")) if PAGE.exists() else ())
}


def apply(diff, tree):
    """Change files as a diff without line numbers says; a block of added lines follows a line."""
    for part in re.split(r"^\+\+\+ ", diff, flags=re.MULTILINE)[1:]:
        name, _, body = part.partition("\n")
        path = tree / name
        text = path.read_text("utf-8") if path.exists() else ""
        for context, added in re.findall(r"((?:^ .*\n)?)((?:^\+.*\n)+)", body, re.MULTILINE):
            lines = re.sub(r"^\+", "", added, flags=re.MULTILINE)
            before = context[1:] or text
            assert text.count(before) == 1 or not text, (name, before)
            text = text.replace(before, before + lines, 1) if before else lines
        path.write_text(text, "utf-8")


def test_there_is_a_recipe_for_all_that_grows():
    assert len(RECIPES) == 4
    assert len(PAGE.read_text("utf-8").splitlines()) <= 120


@pytest.mark.parametrize("title", RECIPES)
def test_what_a_recipe_lists_is_enough(title, package_copy, make_skill, home):
    recipe = RECIPES[title]
    apply(recipe["diff"], package_copy.parent)
    terminal = blocks["Terminal"](
        home / "recipe",
        package_copy,
        SKILLSEARCH_INDEX_DIR=str(home / "index"),
        SKILLSEARCH_MODEL="hashing",
        SKILLSEARCH_DAEMON="off",
        SKILLSEARCH_READER="off",
        SKILLSEARCH_THRESHOLD="0",
    )
    skills = terminal.folder / "skills"
    make_skill(skills, "brew-tea", "Brews a pot of tea.")
    make_skill(skills, "boil-water", "Heats water for coffee, soup and all else that wants it hot.")
    SkillIndex.from_roots(skills, index_dir=home / "index", model="hashing")
    for command, shown in blocks["commands_of"](f"```console\n{recipe['console']}```"):
        assert blocks["is_printed"](terminal.run(command)[1], shown), command
    changed = " ".join(re.findall(r"^\+\+\+ (.*\.py)$", recipe["diff"], re.MULTILINE))
    if changed:
        config = PACKAGE.parent / "pyproject.toml"
        check = f"cd {package_copy.parent} && python -m ruff check --config {config} {changed}"
        assert terminal.run(check)[1] == "All checks passed!\n"
