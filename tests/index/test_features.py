"""The table of ranking features, and what adding one takes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import skillsearch
from skillsearch.index.search import features
from skillsearch.index.search.candidates import count_candidates
from skillsearch.index.search.evidence import EVIDENCE
from skillsearch.index.search.features import FEATURES, LEXICAL, Feature, features_of
from skillsearch.index.search.query import QueryForm

PACKAGE = Path(skillsearch.__file__).parent
SEARCH = Path("index", "search")
SCRIPTS = PACKAGE.parent / "scripts"


def test_each_row_stands_under_its_own_name():
    for table in (FEATURES, EVIDENCE):
        assert [row.name for row in table.values()] == list(table)
    assert set(features_of("words", "dense", "skill")) == set(FEATURES)
    assert set(LEXICAL) < set(features_of("words"))


def test_evidence_without_a_value_of_its_own_is_a_feature_of_the_same_sign():
    shared = [row for row in EVIDENCE.values() if row.compute is None]
    assert shared
    assert all(row.sign == FEATURES[row.name].sign for row in shared)


def test_a_feature_is_computed_once_and_those_against_a_skill_rest_on_those_for_it(monkeypatch):
    """Each row of the matrix is a candidate, with the features in the order of the table."""
    calls = []

    def compute(measured):
        calls.append(1)
        return measured.metadata * 2

    rows = {
        "excluded": Feature("excluded", -1, "skill", lambda measured: measured.nearness * 3),
        "bm25_metadata": Feature("bm25_metadata", 1, "words", compute),
        "name": Feature("name", 1, "words", lambda measured: measured.metadata + 1.0),
    }
    monkeypatch.setattr(features, "FEATURES", rows)
    half = np.full(2, 0.5)
    query = QueryForm("", "", {}, ())
    measured = features.MeasuredCandidates(None, query, np.arange(2), [], half, half)
    assert measured.matrix().tolist() == [[7.5, 1.0, 1.5]] * 2
    assert len(calls) == 1


@pytest.mark.parametrize(("n", "expected"), [(1, 50), (12, 50), (13, 52), (100, 400)])
def test_each_channel_nominates_four_candidates_a_hit_and_fifty_at_least(n, expected):
    assert count_candidates(n) == expected


NEW_FEATURE = """
    Feature("is_terse", 1, "skill", lambda m: np.array(
        [1.0 * (len(m.corpus.documents[int(n)].description) < 40) for n in m.documents]
    )),
"""
NEW_EVIDENCE = '\n    Evidence("is_terse", "terseness", 1),\n'
PROGRAM = """
import sys
from pathlib import Path

from skillsearch import SkillIndex
from skillsearch.index.search import calibration_file

root, work, scripts = map(Path, sys.argv[1:])
index = SkillIndex.from_roots(root, index_dir=work / "index", model="hashing")
hits = index.search("brew a pot of tea", explain=True, threshold=0.0, reader="off").hits
print([(hit.name, hit.explain.features["is_terse"]) for hit in hits])
print(hits[0].explain.contributions["is_terse"], hits[0].explain.log_odds["is_terse"])

sys.path.insert(0, str(scripts))
import fit_fusion
from fusion import calibration, samples

fit_fusion.PACKAGED_COLLECTIONS = fit_fusion.PACKAGED_COLLECTIONS[:1]
samples.VARIANTS = calibration.VARIANTS = {"whole": samples.VARIANTS["whole"]}
output = work / "fitted.json"
output.write_bytes(calibration_file.PACKAGED.read_bytes())
sys.argv = ["fit_fusion.py", "--packaged", "--only", "is_terse", "--queries", "8"]
sys.argv += ["--work", str(work / "fit"), "--output", str(output)]
fit_fusion.main()
before = calibration_file.default_calibration().to_dict()
after = calibration_file.load_calibration(output).to_dict()
moved = {
    (part, name)
    for part in ("weights", "alone", "read")
    for name, value in after[part].items()
    if value != before[part][name]
}
print(sorted(moved - {(part, "is_terse") for part in ("weights", "alone", "read")}))
print({part: "is_terse" in after[part] for part in ("weights", "alone", "read")})
"""


@pytest.fixture
def scratch(package_copy):
    for module, row in (("features", NEW_FEATURE), ("evidence", NEW_EVIDENCE)):
        path = package_copy / SEARCH / f"{module}.py"
        head, table, rest = path.read_text(encoding="utf-8").partition("_TABLE = (")
        path.write_text(head + table + row + rest, encoding="utf-8")
    return package_copy


def run(scratch, *argv):
    done = subprocess.run(
        [sys.executable, *map(str, argv)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(scratch.parent)},
        cwd=scratch.parent,
        check=False,
    )
    return done.stdout if done.returncode == 0 else done.stderr


def set_weight(scratch, value):
    path = scratch / SEARCH / "calibration.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    for part in ("weights", "alone", "read"):
        values[part]["is_terse"] = value
    path.write_text(json.dumps(values), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(not SCRIPTS.is_dir(), reason="an installed copy has no scripts")
def test_a_row_and_its_weight_add_a_feature_that_ranks_explains_and_is_fitted(
    scratch, make_skill, tmp_path
):
    set_weight(scratch, 2.0)
    root = tmp_path / "skills"
    make_skill(root, "tea", "Brews tea.")
    make_skill(root, "kettle", "Heats water for a pot of tea and for anything else there is.")
    lines = run(scratch, "-c", PROGRAM, root, tmp_path, SCRIPTS).splitlines()
    assert lines[:2] == ["[('tea', 1.0), ('kettle', 0.0)]", "2.0 2.0"], "\n".join(lines)
    assert lines[-2:] == ["[]", "{'weights': True, 'alone': True, 'read': True}"]
