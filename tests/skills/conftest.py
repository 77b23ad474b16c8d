"""A skill on disk, for tests that read its files."""

import pytest


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
