"""`scripts/bench_scale.py`: an index in Milvus answers as one on disk, and Ray is timed."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import skillsearch
from skillsearch.evaluation.collection import EXAMPLE

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "bench_scale.py"
EXAMPLES = Path(skillsearch.__file__).parent / "examples"
NEEDED = ("pymilvus", "milvus_lite", "ray")


@pytest.mark.milvus
@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_milvus_answers_as_a_local_index_and_ray_is_timed(tmp_path):
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    shutil.copytree(EXAMPLES, tmp_path / "skills" / "root")
    results = tmp_path / "scale.json"
    command = [sys.executable, str(SCRIPT), str(tmp_path / "skills"), "--queries", str(EXAMPLE)]
    command += ["--per-collection", "6", "--embedded", "4", "--results", str(results)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    report = json.loads(results.read_bytes())
    milvus, ray = report["milvus"], report["ray"]
    assert milvus["requests"] == 6
    assert milvus["same_hits"] == milvus["same_state"] == 1
    # Below the threshold a part of a word counts, in a local index alone.
    assert 0.5 < milvus["same_first"] <= 1
    assert 0.5 < milvus["same_shown"] <= 1
    assert 0 <= milvus["score_gap_p99"] < 0.3
    assert milvus["search_s"] <= milvus["search_s_p95"]
    assert ray["skills"] == 4
    assert all(ray["skills_per_s"][workers] > 0 for workers in ("1", "2"))
