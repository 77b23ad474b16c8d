"""`scripts/embed_ray.py`: workers of a real Ray fill the embedding cache, and may die of it."""

import importlib.util
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from skillsearch.embedders.embedding_cache import FOLDER
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.roots.root_change import EXAMPLES
from skillsearch.index.skill_index import SkillIndex
from skillsearch.settings.user_folders import cache_dir

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "embed_ray.py"
RAY_THREADS = 185
"""A little more than Ray starts on one machine for two workers; each takes a process id."""


def free_process_ids():
    """Count the ids that new processes and threads can get; those below 300 are not used again."""
    try:
        limit = int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
    except OSError:
        return 1 << 15
    taken = 0
    for tasks in Path("/proc").glob("[0-9]*/task"):
        try:
            taken += sum(int(task.name) > 300 for task in tasks.iterdir())
        except OSError:  # it has ended
            continue
    return limit - 301 - taken


def needs_ray(function):
    if importlib.util.find_spec("ray") is None:
        function = pytest.mark.skip(reason="needs Ray: pip install ray")(function)
    for mark in (pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(300)):
        function = mark(function)
    return function


@contextmanager
def started(*args):
    """Start the script; it is killed at the end unless it has ended."""
    patience = time.monotonic() + 120
    while free_process_ids() < RAY_THREADS:
        if time.monotonic() > patience:
            pytest.skip("this machine has too few process ids left for Ray")
        time.sleep(1)
    command = [sys.executable, SCRIPT, *args, "--json"]
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            list(map(str, command)),
            # Without rotation of its logs, each process of Ray has two to four threads less.
            env={**os.environ, "TMPDIR": folder, "RAY_ROTATION_MAX_BYTES": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def run(*args):
    with started(*args) as process:
        out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    return json.loads(out), err


def index(roots, index_dir, model):
    return SkillIndex.build(IndexRequest((roots,), model, True), index_dir)[1]


def wait_for_vectors(process, count_saved):
    """Wait until the first shard is in the cache."""
    while process.poll() is None and not count_saved():
        time.sleep(0.01)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Make a root of skills whose long descriptions keep the hashing embedder busy for a while."""
    root = tmp_path_factory.mktemp("many")
    chance = random.Random(4)
    for number in range(600):
        folder = root / f"skill-{number}"
        folder.mkdir()
        words = " ".join(f"{chance.getrandbits(48):x}" for _ in range(350))
        text = f"---\nname: skill-{number}\ndescription: About {number}. {words}\n---\n"
        (folder / "SKILL.md").write_text(text, encoding="utf-8")
    return root


def test_without_ray_it_says_what_to_install(drinks, index_dir):
    code = (
        "import runpy, sys\n"
        "sys.modules['ray'] = None\n"
        "sys.path.insert(0, sys.argv[1].rpartition('/')[0])\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    command = [sys.executable, "-c", code, SCRIPT.as_posix(), drinks, "--index-dir", index_dir]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert result.returncode == 2
    assert "pip install ray" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (cache_dir() / FOLDER).exists()


@needs_ray
def test_the_index_after_it_embeds_nothing_and_has_the_vectors_of_a_plain_one(tmp_path):
    report, errors = run(EXAMPLES, "--index-dir", tmp_path / "ray", "--workers", 2, "--shard", 16)
    after = index(EXAMPLES, tmp_path / "ray", "onnx")
    shutil.rmtree(cache_dir() / FOLDER)
    plain = index(EXAMPLES, tmp_path / "plain", "onnx")
    assert (report["skills"], report["embedded"]) == (plain.indexed, plain.embedded)
    assert (after.indexed, after.embedded) == (plain.indexed, 0)
    assert after.generation == plain.generation
    if sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1:
        # On a busy machine the first worker may do all before the second has started.
        cpus = re.findall(r"CPU (\d+)", errors)
        assert 0 < len(set(cpus)) == len(cpus) <= 2


@needs_ray
def test_what_a_dying_worker_had_is_done_again(many, index_dir, tmp_path, count_saved):
    listing = tmp_path / "roots.txt"
    listing.write_text(f"\n{many}\n", encoding="utf-8")
    options = ("--listing", listing, "--index-dir", index_dir, "--model", "hashing")
    with started(*options, "--shard", 32) as process:
        victim = int(re.search(r"worker \d: pid (\d+)", process.stderr.readline())[1])
        wait_for_vectors(process, count_saved)
        os.kill(victim, signal.SIGKILL)
        out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert re.search(r"worker \d died.*; starting another one", err)
    report = json.loads(out)
    assert (report["skills"], report["embedded"], report["deaths"]) == (600, 600, 1)
    after = index(many, index_dir, "hashing")
    assert (after.indexed, after.embedded) == (600, 0)
