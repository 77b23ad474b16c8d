"""Faults that an index survives: kills at any moment, a full disk, damage, other writers."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

from skillsearch.agents.default_tools import library_tools
from skillsearch.agents.tool import Toolset
from skillsearch.embedders.embedding_cache import FILE, FOLDER
from skillsearch.errors import CacheError
from skillsearch.index.corpus import open_current
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.reports.health import check_index
from skillsearch.settings.config import Settings
from skillsearch.settings.user_folders import cache_dir

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals and limits as on Linux")
PACKAGE_FOLDER = Path(sys.modules["skillsearch"].__file__).parents[1]
CHUNK = "<chunk id=cool description='How to cool it'>Wait for a while.</chunk>"
QUERIES = ("fill in a PDF form", "water the plants", "make green tea", "old")

BUILD = """
import sys
from skillsearch.index.skill_index import SkillIndex

try:
    index = SkillIndex.from_roots(sys.argv[1], index_dir=sys.argv[2], model="hashing")
except Exception as error:
    print(type(error).__name__, error, sep=": ")
else:
    print(index.generation)
"""

KILL_AT = """
import os, signal, sys
from pathlib import Path

def deadly(function):
    def call(*arguments, **options):
        deadly.left -= 1
        if deadly.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return call

deadly.left = int(sys.argv[3])
os.fsync = deadly(os.fsync)
Path.rename = deadly(Path.rename)
Path.replace = deadly(Path.replace)
import shutil
shutil.rmtree = deadly(shutil.rmtree)
from skillsearch.files.arrays import ArrayWriter
from skillsearch.embedders.embedding_cache import EmbeddingCache
EmbeddingCache.put = deadly(EmbeddingCache.put)
EmbeddingCache.close = deadly(EmbeddingCache.close)
ArrayWriter.append = deadly(ArrayWriter.append)
ArrayWriter.close = deadly(ArrayWriter.close)
"""

LIMIT_FILES = """
import resource, sys

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
"""


def run(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=PACKAGE_FOLDER,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def write_skill(root, name, description, body=""):
    (root / name).mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {name}\ndescription: {description}\n---\n{body}\n"
    (root / name / "SKILL.md").write_text(text)


def answers(index):
    """Return everything that some searches say, but for the time that they took."""
    return [dict(index.search(q, threshold=0.0).to_dict(), seconds=None) for q in QUERIES]


def build(root, folder):
    return SkillIndex.from_roots(root, index_dir=folder, model="hashing")


def change(root):
    write_skill(root, "plants", "Water the plants on the balcony.", "Not too much.")
    write_skill(root, "tea", "Make green tea, or black.", f"Boil more water. {CHUNK}")
    shutil.rmtree(root / "old")


@pytest.fixture
def root(tmp_path):
    """A folder of four skills, of which one has chunks and an example request."""
    folder = tmp_path / "skills"
    write_skill(folder, "pdf-forms", "Fill in PDF forms.", "Open the form. " * 40)
    write_skill(folder, "tea", "Make green tea.", "Boil water.")
    write_skill(folder, "sql", "Make slow queries fast.", f"Add an index. {CHUNK}")
    write_skill(folder, "old", "An old habit.", "It goes away.")
    (folder / "sql" / "evals").mkdir()
    cases = json.dumps([{"query": "the report takes minutes", "should_trigger": True}])
    (folder / "sql" / "evals" / "triggers.json").write_text(cases)
    return folder


@pytest.fixture
def folder(root, tmp_path):
    """The folder of an index of these skills, which change afterwards."""
    build(root, tmp_path / "index")
    change(root)
    return tmp_path / "index"


def copy_of(folder, name):
    return Path(shutil.copytree(folder, folder.with_name(name)))


def deadly_calls(root, folder):
    """Count the calls of an update at which it could be killed."""
    code = f"{KILL_AT}\n{BUILD}\nprint(10**6 - deadly.left)"
    done = run(code, root, copy_of(folder, "counted"), 10**6)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def killed_at(root, folder, point):
    """Kill an update of a copy of an index at a call, or at the last one that it makes.

    On a busy machine it was seen to make one call fewer than the one that was counted.
    """
    for call in range(point, point - 3, -1):
        index_dir = copy_of(folder, f"killed-{call}")
        killed = run(f"{KILL_AT}\n{BUILD}", root, index_dir, call)
        if killed.returncode:
            break
    assert killed.returncode == -signal.SIGKILL, (point, killed.stdout, killed.stderr)
    return index_dir


@pytest.mark.parametrize(
    "most", [pytest.param(6, marks=pytest.mark.slow), pytest.param(1_000, marks=pytest.mark.night)]
)
def test_a_kill_at_any_point_leaves_the_old_index_or_the_new_one(root, folder, tmp_path, most):
    """Points from the first vector to the last folder that is removed, or all of them.

    The index that is then on disk opens and answers as before or after the update, and the next
    run makes it equal to one built from scratch.
    """
    old = answers(SkillIndex.open(copy_of(folder, "before")))
    fresh = build(root, tmp_path / "fresh")
    new = answers(fresh)
    assert new != old
    calls = deadly_calls(root, folder)
    count = min(calls, most)
    points = sorted({1 + round(i * (calls - 1) / (count - 1)) for i in range(count)})
    assert len(points) == count
    seen = []
    for point in points:
        index_dir = killed_at(root, folder, point)
        after = answers(SkillIndex.open(index_dir))
        assert after in (old, new)
        seen.append(after == new)
        assert build(root, index_dir).generation == fresh.generation
        assert answers(SkillIndex.open(index_dir)) == new
        left = {path.name for path in (index_dir / "generations").iterdir()}
        assert fresh.generation in left
        assert not [name for name in left if name.startswith(".new-")]
    assert seen == sorted(seen)
    assert set(seen) == {False, True}


@pytest.mark.slow
def test_a_kill_during_the_first_run_leaves_no_index_but_its_vectors(root, tmp_path):
    index_dir = tmp_path / "index"
    for point in (1, 20):
        killed = run(f"{KILL_AT}\n{BUILD}", root, index_dir, point)
        assert killed.returncode == -signal.SIGKILL
        assert not IndexFolder(index_dir).exists()
    assert build(root, index_dir).generation == build(root, tmp_path / "fresh").generation


@pytest.mark.slow
@pytest.mark.parametrize("when", ["first run", "update"])
def test_a_full_disk_is_one_line_and_the_old_index_stays(root, folder, tmp_path, when):
    old = answers(SkillIndex.open(copy_of(folder, "before")))
    fresh = build(root, tmp_path / "fresh")
    largest = sorted({path.stat().st_size for path in fresh.opened.folder.iterdir()})
    limits = [1, largest[-1] - 1, largest[len(largest) // 2] - 1]
    for limit in limits:
        index_dir = (
            copy_of(folder, f"full-{limit}") if when == "update" else tmp_path / f"new-{limit}"
        )
        done = run(f"{LIMIT_FILES}\n{BUILD}", root, index_dir, limit)
        assert done.stdout.startswith("StorageError: "), (limit, done.stdout, done.stderr)
        assert done.stdout.count("\n") == 1
        assert "free some space" in done.stdout
        assert "Traceback" not in done.stderr
        if when == "update":
            assert answers(SkillIndex.open(index_dir)) == old
        else:
            assert not IndexFolder(index_dir).exists()
        assert build(root, index_dir).generation == fresh.generation


@pytest.mark.slow
def test_the_end_of_a_part_is_never_lost_silently(root, folder, tmp_path):
    """Vectors that are all known, and room for all but the last byte of the largest part.

    The C library notices that only when it closes the file, where numpy and faiss do not look.
    """
    write_skill(root, "tea", "Make green tea.", "Boil water.")
    shutil.rmtree(root / "plants")
    fresh = build(root, tmp_path / "fresh")
    sizes = {path.stat().st_size for path in fresh.opened.folder.iterdir()}
    old = answers(SkillIndex.open(copy_of(folder, "before")))
    for size in sorted(sizes)[-2:]:
        index_dir = copy_of(folder, f"room-{size}")
        done = run(f"{LIMIT_FILES}\n{BUILD}", root, index_dir, size - 1)
        assert done.stdout.startswith("StorageError: "), (size, done.stdout, done.stderr)
        assert answers(SkillIndex.open(index_dir)) == old


@contextlib.contextmanager
def small_disk(path, kilobytes):
    """Mount a file system of a few kilobytes in a process, if that is allowed."""
    path.mkdir()
    script = textwrap.dedent(f"""
        mount -t tmpfs -o size={kilobytes}k,mode=700 none {path} && exec "$@"
    """)
    prefix = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    try:
        works = subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        works = False
    if not works:
        pytest.skip("file systems cannot be mounted here")
    yield prefix


@pytest.mark.slow
def test_a_really_full_disk_is_one_line_too(root, tmp_path):
    code = textwrap.dedent("""
        import shutil, sys
        from pathlib import Path
        from skillsearch.index.skill_index import SkillIndex
        root, place = Path(sys.argv[1]), sys.argv[2]
        first = SkillIndex.from_roots(root, index_dir=place, model="hashing")
        for number in range(60):
            shutil.copytree(root / "tea", root / f"tea-{number}")
        try:
            SkillIndex.from_roots(root, index_dir=place, model="hashing")
        except Exception as error:
            print(type(error).__name__, error, sep=": ")
        opened = SkillIndex.open(place)
        print(opened.generation == first.generation, opened.search("make green tea")[0].name)
    """)
    with small_disk(tmp_path / "disk", kilobytes=320) as prefix:
        command = [*prefix, sys.executable, "-c", code, str(root), str(tmp_path / "disk")]
        done = subprocess.run(
            command, cwd=PACKAGE_FOLDER, capture_output=True, text=True, timeout=100, check=False
        )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("StorageError: "), (done.stdout, done.stderr)
    assert "No space left on device" in lines[0]
    assert lines[1:] == ["True tea"]


def flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(data)


@pytest.mark.slow
def test_a_flipped_bit_in_any_part_is_rebuilt(root, folder):
    """Opening answers as before the damage, and what is on disk is whole again.

    A third of the parts; that damage to each is noticed, the next but one test says.
    """
    index = build(root, folder)
    expected, generation = answers(index), index.generation
    parts = [path.name for path in index.opened.folder.iterdir()]
    assert len(parts) > 20
    for name in [*sorted(parts)[::3], "CURRENT"]:
        current = IndexFolder(folder).open().folder
        flipped(folder / name if name == "CURRENT" else current / name)
        opened = SkillIndex.open(folder)
        assert (opened.generation, answers(opened)) == (generation, expected)
        assert IndexFolder(folder).open().name == generation


def test_a_flipped_bit_beside_the_parts_costs_only_time(root, folder):
    generation = build(root, folder).generation
    for path in (folder / "snapshot.bin", cache_dir() / FOLDER / FILE):
        flipped(path)
        index = build(root, folder)
        assert index.generation == generation
        assert index.refresh(verify=True).generation == generation


def content(folder):
    """Return the bytes of the parts of an index and of its manifest, by name."""
    parts = IndexFolder(folder).open().folder
    return {
        path.name: path.read_bytes() for path in parts.iterdir() if path.name != "stat-cache.json"
    }


def trust(folder):
    """Have all parts of an index trusted by their stat: what was only just written is not."""
    hour_ago = time.time() - 3600
    current = folder / "generations" / IndexFolder(folder).current()
    for path in current.iterdir():
        os.utime(path, (hour_ago, hour_ago))
    IndexFolder(folder).open()


@pytest.mark.parametrize("rounds", [1, pytest.param(6, marks=pytest.mark.night)])
def test_rot_is_found_in_every_part_and_healed(root, folder, tmp_path, rot, rounds):
    """A bit of each part and of the manifest, of which no stat tells, in each round.

    The check of doctor names each, whoever reads it gets an answer or an error that names it, and
    `verify` makes the index equal to a fresh one, byte for byte, without embedding anything.
    """
    fresh = build(root, tmp_path / "fresh")
    expected, whole = everything(fresh), content(tmp_path / "fresh")
    build(root, folder)
    trust(folder)
    parts = IndexFolder(folder).open().folder
    files = sorted(name for name, data in whole.items() if data)
    assert len(files) == 42
    rng, seen = random.Random(0), Counter()

    def damage(name):
        rot(parts / name, rng.randrange(len(whole[name])), rng.randrange(8))

    for _ in range(rounds):
        for name in files:
            damage(name)
            seen[what_is_read(folder, name, expected)] += 1
            first = next(iter(check_index(Settings(index_dir=folder))))
            assert (first.name, first.verdict) == ("index", "error")
            assert first.detail.startswith(f"{name} of the index in {folder} is damaged")
            assert "skillsearch index --verify" in first.detail
            seen["found"] += 1
            (parts / name).write_bytes(whole[name])
            trust(folder)
        for damaged in (["manifest.json"], sorted(set(files) - {"manifest.json"})):
            for name in damaged:
                damage(name)
            request = fresh.opened.settings.request()
            index, report = SkillIndex.build(request, folder, IndexOptions(verify=True))
            assert report.healed == tuple(damaged)
            assert report.embedded == 0
            assert content(folder) == whole
            assert everything(index) == expected
            seen["healed"] += len(damaged)
            trust(folder)
    assert seen.keys() <= {"a miss", "right", "wrong", "an error that names it", "found", "healed"}
    assert seen["found"] == seen["healed"] == len(files) * rounds
    # About one bit in 15 leads to an error, so a single round may hit none.
    assert seen["an error that names it"] >= rounds // 2
    assert seen["a miss"] >= rounds


def test_rot_is_not_carried_over_into_the_next_generation(root, folder, tmp_path, rot):
    """Postings of skills that did not change are copied, but not damaged ones."""
    before = build(root, folder).generation
    trust(folder)
    postings = IndexFolder(folder).open().folder / "lexical-full-frequencies.npy"
    rot(postings)
    write_skill(root, "new", "Mend a bicycle.")
    index = build(root, folder)
    assert index.generation == build(root, tmp_path / "fresh").generation != before
    assert content(folder) == content(tmp_path / "fresh")


@pytest.mark.parametrize("name", ["CURRENT", "request.json", "snapshot.bin"])
def test_a_damaged_file_beside_the_parts_is_told_by_doctor_and_healed(root, folder, name, cli):
    generation = build(root, folder).generation
    request, whole = IndexRequest.load(folder), (folder / name).read_bytes()
    flipped(folder / name)
    first = next(iter(check_index(Settings(index_dir=folder))))
    assert (first.name, first.verdict) == ("index", "error")
    assert first.detail.startswith(f"{name} of the index in")
    done = cli("index", "--verify", "--index-dir", folder)
    assert done.exit_code == 0
    assert f"healed: {name} of the index" in done.stderr
    assert IndexFolder(folder).current() == generation
    assert IndexFolder(folder).damage(everything=True) == ()
    assert IndexRequest.load(folder) == request
    assert name != "CURRENT" or (folder / name).read_bytes() == whole


def test_rot_that_is_met_by_a_command_is_a_line_and_healed_by_the_next(root, folder, rot, cli):
    build(root, folder)
    trust(folder)
    records = IndexFolder(folder).open().folder / "documents-records.npy"
    rot(records, 128)
    for command in (["list"], ["query", "water the plants", "--no-refresh"], ["show", "pdf-forms"]):
        done = cli(*command, "--index-dir", folder)
        assert done.exit_code == 4, done
        assert "documents-records.npy of the index in" in done.stderr
        assert f"To fix: run `skillsearch index --verify --index-dir {folder}`" in done.stderr
    toolset = Toolset(library_tools(lambda: SkillLibrary.open(folder)))
    error = toolset.call("search_skills", {"query": "water the plants"})["error"]
    assert error["code"] == "storage"
    assert "skillsearch index --verify" in error["message"]
    done = cli("index", "--verify", "--index-dir", folder)
    assert "healed: documents-records.npy of the index" in done.stderr
    assert cli("query", "water the plants", "--index-dir", folder).stdout.startswith("1\t")


def test_rot_is_healed_by_the_runs_that_follow(root, folder, rot):
    """Each run reads some parts again, whatever else it finds; a few do for a small index."""
    generation = build(root, folder).generation
    trust(folder)
    part = IndexFolder(folder).open().folder / "dense-metadata.faiss"
    whole = part.read_bytes()
    rot(part)
    assert SkillIndex.open(folder).refresh().healed == (part.name,)
    assert part.read_bytes() == whole
    assert SkillIndex.open(folder).refresh().healed == ()
    assert IndexFolder(folder).current() == generation


def everything(index):
    """Return all that some searches explain, and all documents."""
    results = [index.search(q, threshold=0.0, explain=True).to_dict() for q in QUERIES]
    return [dict(result, seconds=None) for result in results], [*index.documents()]


def what_is_read(folder, name, expected):
    """Return what a reader that trusts the stat cache gets; fail on any foreign error."""
    opened = open_current(IndexFolder(folder))
    if opened is None:
        return "a miss"
    try:
        content = everything(SkillIndex(IndexFolder(folder), opened))
    except CacheError as exc:
        is_named = str(exc).startswith(f"{name} of the index in") and "index --verify" in str(exc)
        return "an error that names it" if is_named else str(exc)
    return "right" if content == expected else "wrong"


@pytest.mark.slow
def test_many_writers_at_once_all_end_well(root, folder, tmp_path):
    command = [sys.executable, "-c", BUILD, str(root), str(folder)]
    writers = [
        subprocess.Popen(command, cwd=PACKAGE_FOLDER, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    outputs = {writer.communicate(timeout=100)[0] for writer in writers}
    generation = build(root, tmp_path / "fresh").generation
    assert outputs == {f"{generation}\n"}
    assert SkillIndex.open(folder).generation == generation


@pytest.mark.slow
def test_readers_are_never_disturbed_by_a_writer(root, folder):
    code = textwrap.dedent("""
        import sys
        from pathlib import Path
        from skillsearch.index.skill_index import SkillIndex
        root, place = Path(sys.argv[1]), sys.argv[2]
        for number in range(12):
            (root / "tea" / "SKILL.md").write_text(f"---\\ndescription: Tea {number}.\\n---\\n")
            SkillIndex.from_roots(root, index_dir=place, model="hashing")
    """)
    build(root, folder)
    writer = subprocess.Popen([sys.executable, "-c", code, root, folder], cwd=PACKAGE_FOLDER)
    try:
        opened = 0
        while writer.poll() is None or opened < 20:
            index = SkillIndex.open(folder)
            assert index.search("fill in a PDF form")[0].name == "pdf-forms"
            opened += 1
    finally:
        assert writer.wait(120) == 0


def test_nothing_is_pickled(folder):
    for path in IndexFolder(folder).open().folder.iterdir():
        head = path.read_bytes()[:8]
        if path.suffix == ".npy":
            assert head.startswith(b"\x93NUMPY")
        elif path.suffix == ".faiss":
            assert head.startswith(b"Ix")
        elif path.name == "stat-cache.json":
            json.loads(path.read_bytes().partition(b"\n")[2])
        else:
            json.loads(path.read_bytes())
    (generation,) = (folder / "generations").iterdir()
    assert generation.name == IndexFolder(folder).current()
