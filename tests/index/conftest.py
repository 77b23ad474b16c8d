"""Small real skills and indexes for the tests of this folder."""

import itertools
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skillsearch.index.freshness import MAX_REFRESHED_FILES
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.indexing.writers import SegmentLimits
from skillsearch.index.lexical.builder import LexicalWriter
from skillsearch.index.lexical.postings import LexicalSegment
from skillsearch.index.skill_index import SkillIndex
from skillsearch.types.answers import SYSTEMS

LONG_AGO_NS = 1_700_000_000_000_000_000
YEAR_NS = 365 * 86_400 * 10**9
SKILLS = {
    "pdf-forms": ("Fill in PDF forms and flatten them.", "# Fields\nList every form field first."),
    "video-trim": ("Cut and join video clips.", "# Cutting\nUse ffmpeg without encoding again."),
    "key-rotation": ("Rotate API keys that leaked.", "# Revoke\nRevoke the credential at once."),
    "sql-tuning": ("Make slow SQL queries fast.", "# Plans\nRead the query plan, add an index."),
    "tea-timer": ("Remind somebody when the tea is ready.", "Green tea takes two minutes."),
}


class SmallIndex(SkillIndex):
    """Takes four skills for many, and twenty changes; searches more than ten vectors by codes."""

    limits = SegmentLimits(least_documents=4, most_changed=20, most_flat=10)

    @classmethod
    def build(cls, change, index_dir, options=None):
        options = replace(options or IndexOptions(), limits=cls.limits)
        return super().build(change, index_dir, options)


class Disk:
    """The files and folders touched while a test runs, by the interpreter's audit events.

    Attributes:
        opened: The folders of the SKILL.md files that were opened, by name.
        listed: The paths of the folders that were listed.
    """

    watching = None

    def __init__(self):
        self.opened, self.listed = [], []

    def forget(self):
        self.__init__()


_WATCHERS = []


def _reads(mode, flags):
    """Say whether a file is opened to be read, by `open` or by `os.open`."""
    return "r" in mode if mode else not flags & (os.O_WRONLY | os.O_RDWR | os.O_DIRECTORY)


def _note(event, args):
    if event == "open" and isinstance(args[0], str | os.PathLike) and _reads(*args[1:]):
        for watcher in tuple(_WATCHERS):
            watcher(Path(args[0]))
    if Disk.watching is None or event not in ("open", "os.scandir"):
        return
    path = args[0]
    if event == "os.scandir":
        Disk.watching.listed.append(str(path))
    elif isinstance(path, str | os.PathLike) and Path(path).name == "SKILL.md":
        Disk.watching.opened.append(Path(path).parent.name)


sys.addaudithook(_note)


def write_skill(folder, name, description, body="", **more):
    """Write a SKILL.md into a folder, made if need be, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"name: {name}", f"description: {description}"]
    lines += [f"{key.replace('_', '-')}: {value}" for key, value in more.items()]
    path = folder / "SKILL.md"
    path.write_text("---\n" + "\n".join(lines) + f"\n---\n{body}\n", encoding="utf-8")
    return path


def write_skills(root):
    """Write the five skills above into a root, long unchanged, and return it."""
    for name, (description, body) in SKILLS.items():
        write_skill(root / name, name, description, body)
    age(root)
    return root


def age(root, at_ns=LONG_AGO_NS):
    """Make all below a folder look long unchanged, so that its stat can be trusted."""
    for path in [*sorted(root.rglob("*"), reverse=True), root]:
        os.utime(path, ns=(at_ns, at_ns), follow_symlinks=False)


class Kitchen:
    """Two roots below a folder, and an index of both."""

    def __init__(self, base, make_skill):
        self.base, self.make_skill = base, make_skill
        self.drinks, self.tools, self.away = base / "drinks", base / "tools", base / "away"
        self.index_dir = base.parent / "index"
        self.write(self.drinks, "steep-tea", "Steep green tea at the right temperature.", "80 C")
        self.write(self.drinks, "brew-coffee", "Brew filter coffee with a scale.", "Bloom first")
        self.write(self.drinks / "hot", "boil-cocoa", "Boil cocoa powder with milk.", "Stir well")
        self.write(self.tools, "sharpen-knife", "Sharpen a kitchen knife.", "Use a stone")
        self.write(self.tools, "polish-shoes", "Polish leather shoes with wax.", "Brush them")
        self.roots = (self.drinks, self.tools)
        self.index()

    def write(self, folder, name, description, body):
        self.make_skill(folder, name, description, body=f"{body}\n")

    def mull_wine(self):
        self.write(self.drinks, "mull-wine", "Mull red wine with cinnamon.", "Do not boil")

    def mix_many(self):
        """Write one more skill than are indexed at once."""
        for number in range(MAX_REFRESHED_FILES + 1):
            self.write(self.drinks, f"mix-{number}", f"Mix cocktail number {number}.", "Shake")

    def lose_tools(self):
        self.tools.rename(self.away)

    def return_tools(self):
        self.away.rename(self.tools)

    def index(self):
        SkillIndex.from_roots(self.roots, index_dir=self.index_dir, model="hashing")


class Tree:
    """Skills on disk; what was changed since `settle` looks long unchanged after it."""

    words = "tea coffee kettle index query 数据 résumé chart report release branch commit".split()

    def __init__(self, root):
        self.root = root
        self._now = time.time_ns() - 20 * YEAR_NS
        self.rng = random.Random(3)
        self.numbers = itertools.count()

    def text(self, count):
        return " ".join(self.rng.choices(self.words, k=count))

    def write(self, name):
        text = self.text(8)
        body = text.upper()
        if self.rng.random() < 0.3:
            body += f"\n<chunk id={self.rng.choice('ab')} description='{text[:9]}'>{text}</chunk>"
        return write_skill(self.root / name, name.rpartition("/")[2], text, body)

    def remove(self, name):
        shutil.rmtree(self.root / name)

    def settle(self):
        """Give all that is new a time of its own, long ago."""
        self._now += 10**12
        newest = time.time_ns() - YEAR_NS
        for path in [*self.root.rglob("*"), self.root]:
            if path.lstat().st_mtime_ns > newest:
                os.utime(path, ns=(self._now, self._now), follow_symlinks=False)


@pytest.fixture
def empty_tree(tmp_path):
    return Tree(tmp_path / "many")


@pytest.fixture
def disk(monkeypatch):
    """Tells which skills are opened and which folders listed from now on."""
    monkeypatch.setattr(Disk, "watching", Disk())
    return Disk.watching


@pytest.fixture
def kitchen(tmp_path, make_skill, monkeypatch):
    """Make two roots and their index, which the settings name."""
    kitchen = Kitchen(tmp_path / "base", make_skill)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(kitchen.index_dir))
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    return kitchen


@pytest.fixture
def clock(monkeypatch):
    """Stop the clock by which looks at the disk age; it goes on when it is told to."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr("skillsearch.index.freshness.monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def before_reading():
    """Call a function with the path of each file before it is read, until it returns True."""

    def watch(function):
        def watcher(path):
            _WATCHERS.remove(watcher)  # What it opens itself is not told.
            if not function(path):
                _WATCHERS.append(watcher)

        _WATCHERS.append(watcher)

    yield watch
    _WATCHERS.clear()


@pytest.fixture(scope="session")
def add_skill():
    return write_skill


@pytest.fixture
def settle():
    return age


@pytest.fixture
def root(tmp_path):
    """A folder with the five skills above, long unchanged."""
    return write_skills(tmp_path / "skills")


@pytest.fixture
def build(tmp_path):
    """Build an index of roots without a model, in ``index`` unless another folder is named."""

    def build(*roots, index_dir="index", **options):
        options.setdefault("model", "hashing")
        return SkillIndex.from_roots(list(roots), index_dir=tmp_path / index_dir, **options)

    return build


@pytest.fixture
def build_small(tmp_path):
    """Build a `SmallIndex` of roots without a model, with other limits if any are given."""

    def build_small(*roots, index_dir="index", limits=None, **options):
        limits = replace(SmallIndex.limits, **(limits or {}))
        limited = type("Limited", (SmallIndex,), {"limits": limits})
        folder = tmp_path / index_dir
        return limited.from_roots(list(roots), index_dir=folder, model="hashing", **options)

    return build_small


@pytest.fixture
def answers():
    """Return all that searches for tea, keys and releases tell, parts of the scores included."""
    queries = ("rotate the secret key", "tea kettle", "merge a release branch", "chart of an index")

    def answers(index, **options):
        return [
            [
                (hit.doc_id, pytest.approx(hit.score, abs=1e-6), hit.chunk, hit.duplicates)
                for hit in result
            ]
            for system in SYSTEMS
            for result in index.search_many(queries, n=30, threshold=0.0, system=system, **options)
        ]

    return answers


@pytest.fixture
def index(root, build):
    return build(root)


@pytest.fixture(scope="session")
def build_shared(tmp_path_factory):
    """Build an index that tests only read, of the skills that a function writes into a root."""

    def build_shared(write, model="hashing", **options):
        folder = tmp_path_factory.mktemp("shared")
        with pytest.MonkeyPatch.context() as patch:
            for name in ("HOME", *(f"XDG_{kind}_HOME" for kind in ("CACHE", "CONFIG", "DATA"))):
                patch.setenv(name, str(folder / "home"))
            write(folder / "skills")
            index_dir = folder / "index"
            return SkillIndex.from_roots(
                folder / "skills", index_dir=index_dir, model=model, **options
            )

    return build_shared


@pytest.fixture(scope="session")
def shared_index(build_shared):
    """An index of the five skills that tests only read."""
    return build_shared(write_skills)


@pytest.fixture
def files_of():
    """Return the bytes of every file below a folder, except for stat caches, by relative path."""

    def files_of(folder):
        files = (path for path in Path(folder).rglob("*") if path.is_file())
        paths = (path for path in files if path.name != "stat-cache.json")
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}

    return files_of


@pytest.fixture(scope="session")
def segment_of():
    """Index texts, each a list of terms, as a segment of one field."""

    def segment_of(texts, **options):
        with tempfile.TemporaryDirectory() as folder:
            writer = LexicalWriter(Path(folder), "field", **options)
            for number, text in enumerate(texts):
                writer.add(number, text)
            writer.finish(len(texts))
            return LexicalSegment.load(Path(folder), "field")

    return segment_of


@pytest.fixture(scope="session")
def zipf_texts():
    """Make texts of terms that are as rare as words are."""

    def zipf_texts(count, vocabulary=5000):
        random = np.random.default_rng(7)
        lengths = (random.integers(1, 60) for _ in range(count))
        return [
            [f"w{term}" for term in random.zipf(1.3, length) if term < vocabulary]
            for length in lengths
        ]

    return zipf_texts


@pytest.fixture
def counted():
    """Count terms given as text, split at spaces."""
    return lambda text: Counter(text.split())


@pytest.fixture
def clustered():
    """Make unit vectors around 50 centres, as texts of some 50 topics have them."""

    def make(size, dimensions=64, seed=3):
        random = np.random.default_rng(seed)
        centres = random.normal(size=(50, dimensions))
        rows = centres[random.integers(0, 50, size)] + 0.6 * random.normal(size=(size, dimensions))
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    return make
