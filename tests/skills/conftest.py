"""A skill on disk, for tests that read its files, and one that is parsed from its text."""

from pathlib import Path

import pytest

from skillsearch.skills.parser import parse_skill


@pytest.fixture
def skill_dir(tmp_path):
    """A skill with a document, a script, and a secret beside its folder."""
    folder = tmp_path / "root" / "tea"
    (folder / "references").mkdir(parents=True)
    (folder / "scripts").mkdir()
    (folder / "SKILL.md").write_text("---\ndescription: Tea\n---\n", encoding="utf-8")
    (folder / "references" / "guide.md").write_text("steep", encoding="utf-8")
    (folder / "scripts" / "brew.sh").write_text("echo tea", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def parse():
    """Parse a SKILL.md; return the skill and its diagnostics."""

    def read(data, folder="tea-timer"):
        data = data.encode() if isinstance(data, str) else data
        root = Path("skills")
        path = root / folder / "SKILL.md"
        return parse_skill(data, doc_id=f"skills:{folder}", path=path, root=root)

    return read


@pytest.fixture(scope="session")
def parse_fields(parse):
    """Parse a SKILL.md with these lines of frontmatter below its name."""
    return lambda lines: parse(f"---\nname: tea-timer\n{lines}\n---\nSteep, then pour.\n")
