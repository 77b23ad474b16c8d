"""The state of a training run, written and read."""

import numpy as np
import pytest

from skillsearch.errors import TrainingError

pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")
run_state = pytest.importorskip("skillsearch.training.run_state")
load_checkpoint, save_checkpoint = run_state.load_checkpoint, run_state.save_checkpoint

pytestmark = pytest.mark.torch

ARRAYS = {
    "step": np.array(7),
    "looks": np.array([3, 6], np.int64),
    "weights/layer.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "moments/0/exp_avg": np.ones(3, np.float32),
    "moments/0/step": np.array(7, np.float32),
}


def test_a_state_comes_back_as_it_was(tmp_path):
    save_checkpoint(tmp_path / "run", "k", {"other": np.zeros(9)})
    save_checkpoint(tmp_path / "run", "k", ARRAYS)
    state = load_checkpoint(tmp_path / "run", "k")
    assert state.keys() == {"key", *ARRAYS}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(state[name], array, strict=True)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["state.npz"]


def test_the_state_of_another_run_is_none(tmp_path):
    save_checkpoint(tmp_path, "k", ARRAYS)
    assert load_checkpoint(tmp_path, "other") is None
    assert load_checkpoint(tmp_path / "nothing", "k") is None


@pytest.mark.parametrize("size", [0, 2, 200, -30])
def test_a_damaged_state_is_refused(tmp_path, size):
    save_checkpoint(tmp_path, "k", ARRAYS)
    path = tmp_path / "state.npz"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(TrainingError, match=r"state\.npz is damaged"):
        load_checkpoint(tmp_path, "k")


def test_a_pickle_in_a_state_and_one_without_a_key_are_refused(tmp_path):
    hostile = np.array({"k": 1}, dtype=object)
    others = {"key": hostile}, {"key": np.array("k"), "step": hostile}, {"step": np.array(1)}
    for arrays in others:
        with (tmp_path / "state.npz").open("wb") as file:
            np.savez(file, **arrays)
        with pytest.raises(TrainingError, match="damaged"):
            load_checkpoint(tmp_path, "k")


def test_a_state_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(TrainingError, match="cannot be written"):
        save_checkpoint(tmp_path / "run", "k", ARRAYS)


def test_a_state_that_could_not_be_replaced_stays(tmp_path):
    save_checkpoint(tmp_path, "k", ARRAYS)
    (tmp_path / "state.npz.new").mkdir()
    with pytest.raises(TrainingError, match="free some space"):
        save_checkpoint(tmp_path, "k", {"step": np.array(8)})
    assert int(load_checkpoint(tmp_path, "k")["step"]) == 7
