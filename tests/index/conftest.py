"""Small real skills and indexes for the tests of this folder."""

import os
from collections import Counter
from pathlib import Path

import pytest

from skillsearch.index.skill_index import SkillIndex

LONG_AGO_NS = 1_700_000_000_000_000_000
SKILLS = {
    "pdf-forms": ("Fill in PDF forms and flatten them.", "# Fields\nList every form field first."),
    "video-trim": ("Cut and join video clips.", "# Cutting\nUse ffmpeg without encoding again."),
    "key-rotation": ("Rotate API keys that leaked.", "# Revoke\nRevoke the credential at once."),
    "sql-tuning": ("Make slow SQL queries fast.", "# Plans\nRead the query plan, add an index."),
    "tea-timer": ("Remind somebody when the tea is ready.", "Green tea takes two minutes."),
}


def write_skill(folder, name, description, body="", **more):
    """Write a SKILL.md into a folder, made if need be, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"name: {name}", f"description: {description}"]
    lines += [f"{key.replace('_', '-')}: {value}" for key, value in more.items()]
    path = folder / "SKILL.md"
    path.write_text("---\n" + "\n".join(lines) + f"\n---\n{body}\n", encoding="utf-8")
    return path


def age(root, at_ns=LONG_AGO_NS):
    """Make all below a folder look long unchanged, so that its stat can be trusted."""
    for path in [*sorted(root.rglob("*"), reverse=True), root]:
        os.utime(path, ns=(at_ns, at_ns), follow_symlinks=False)


@pytest.fixture
def add_skill():
    """The function `write_skill`."""
    return write_skill


@pytest.fixture
def settle():
    """The function `age`."""
    return age


@pytest.fixture
def root(tmp_path):
    """A folder with the five skills above, long unchanged."""
    folder = tmp_path / "skills"
    for name, (description, body) in SKILLS.items():
        write_skill(folder / name, name, description, body)
    age(folder)
    return folder


@pytest.fixture
def build(tmp_path):
    """Build an index of roots without a model, in ``index`` unless another folder is named."""

    def build(*roots, index_dir="index", **options):
        options.setdefault("model", "hashing")
        return SkillIndex.from_roots(list(roots), index_dir=tmp_path / index_dir, **options)

    return build


@pytest.fixture
def index(root, build):
    """An index of the five skills."""
    return build(root)


@pytest.fixture
def files_of():
    """Return the bytes of every file below a folder, by relative path."""

    def files_of(folder):
        paths = (path for path in Path(folder).rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}

    return files_of


@pytest.fixture
def counted():
    """Count terms given as text, split at spaces."""
    return lambda text: Counter(text.split())
