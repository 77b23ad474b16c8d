"""Where a training run stands, written and read."""

import numpy as np
import pytest

from skillsearch.errors import TrainingError
from skillsearch.training.checkpoint import RunState

STATE = RunState(
    key="k",
    step=7,
    weights={"layer.weight": np.arange(6, dtype=np.float32).reshape(2, 3)},
    moments={"0/exp_avg": np.ones(3, np.float32), "0/step": np.array(7, np.float32)},
    best={},
    values={3: 0.5, 6: 0.25},
)


def test_a_state_comes_back_as_it_was(tmp_path):
    """Arrays with their names, types and shapes; of the file before nothing is left."""
    STATE.save(tmp_path / "run")
    found = RunState.load(tmp_path / "run", "k")
    assert (found.key, found.step, found.values, found.best) == ("k", 7, {3: 0.5, 6: 0.25}, {})
    for part in ("weights", "moments"):
        before, after = getattr(STATE, part), getattr(found, part)
        assert before.keys() == after.keys()
        for name, one in before.items():
            np.testing.assert_array_equal(after[name], one, strict=True)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["state.npz"]


def test_the_state_of_another_run_is_none(tmp_path):
    """Nor is one where none was written."""
    STATE.save(tmp_path)
    assert RunState.load(tmp_path, "other") is None
    assert RunState.load(tmp_path / "nothing", "k") is None


def test_a_damaged_state_is_refused(tmp_path):
    """It says which file to remove."""
    STATE.save(tmp_path)
    path = tmp_path / "state.npz"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(TrainingError, match=r"state\.npz is damaged"):
        RunState.load(tmp_path, "k")


def test_a_pickle_in_a_state_is_never_loaded(tmp_path):
    """It could run code."""
    with (tmp_path / "state.npz").open("wb") as file:
        np.savez(file, key=np.array({"k": 1}, dtype=object), step=np.array(1))
    with pytest.raises(TrainingError, match="damaged"):
        RunState.load(tmp_path, "k")


def test_a_state_that_cannot_be_written_is_told(tmp_path):
    """A file is where its folder should be."""
    (tmp_path / "run").write_text("")
    with pytest.raises(TrainingError, match="cannot be written"):
        STATE.save(tmp_path / "run")
