"""Which device embeds: asked for where no model can use it, and batches that suit one."""

import sys
from types import SimpleNamespace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.embedders.embedder import require_device
from skillsearch.embedders.embedding import HashingEmbedder, embed
from skillsearch.embedders.sentence_transformer_embedder import MAX_BATCH, length_batches
from skillsearch.errors import ConfigError
from skillsearch.index.skill_index import SkillIndex


@pytest.mark.parametrize("spec", ["onnx", "skillsearch-e5", "hashing", "multilingual", "onnx:m"])
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps"])
def test_a_device_without_effect_is_refused(spec, device):
    with pytest.raises(ConfigError, match=r"--model st:.*install .*\[st\]") as info:
        require_device(spec, device)
    assert repr(spec) in str(info.value)
    assert repr(device) in str(info.value)


@pytest.mark.parametrize(
    ("spec", "device"),
    [
        *(("onnx", device) for device in (None, "auto", "cpu")),
        *((spec, "cuda:1") for spec in ("st:some/model", "sentence-transformers/some-model")),
    ],
)
def test_every_model_runs_on_the_cpu_and_one_of_sentence_transformers_anywhere(spec, device):
    require_device(spec, device)


def test_index_refuses_a_device_before_it_writes_anything(cli, drinks, index_dir):
    """A wrong use, told in one line; the device of a file or variable waits for its model."""
    arguments = ("index", drinks, "--index-dir", index_dir, "--model", "hashing")
    result = cli(*arguments, "--device", "cuda")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'hashing' runs on the CPU only" in result.stderr
    assert not index_dir.exists()


def test_a_device_in_the_settings_is_only_for_models_that_can_use_it(cli, drinks, monkeypatch):
    monkeypatch.setenv("SKILLSEARCH_DEVICE", "cuda")
    assert cli("index", drinks, "--model", "hashing").exit_code == 0
    assert cli("query", "green tea").exit_code == 0


class Sentences:
    """In place of a model of sentence-transformers; `loaded` are the devices of all.

    It cuts nothing, and embeds as the hashing embedder does.
    """

    loaded: ClassVar[list] = []
    max_seq_length = None

    def __init__(self, path, *, device, **_):
        self.loaded.append(device)
        self.device = SimpleNamespace(type=device.partition(":")[0])

    def encode(self, texts, **_):
        return embed(HashingEmbedder(64), texts)


@pytest.fixture
def model(tmp_path, monkeypatch):
    """The spec of a model, with libraries that know it and have two CUDA devices."""
    cuda = SimpleNamespace(is_available=lambda: True, device_count=lambda: 2)
    mps = SimpleNamespace(is_available=lambda: False)
    torch = SimpleNamespace(cuda=cuda, backends=SimpleNamespace(mps=mps))
    library = SimpleNamespace(SentenceTransformer=Sentences)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    folder = tmp_path / "tea"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    Sentences.loaded.clear()
    return f"st:{folder}"


def test_every_load_of_an_index_gets_its_device(drinks, index_dir, model):
    options = {"index_dir": index_dir, "model": model, "device": "cuda:1"}
    SkillIndex.from_roots(drinks, **options)
    again = SkillIndex.from_roots(drinks, **options)
    assert again.search("green tea", 1)[0].name == "steep-tea"
    again.refresh(verify=True)
    assert Sentences.loaded == ["cuda:1"] * 3


def test_the_device_changes_nothing_of_an_index(drinks, tmp_path, model):
    names = {
        SkillIndex.from_roots(
            drinks, index_dir=tmp_path / device, model=model, device=device
        ).generation
        for device in ("cpu", "cuda")
    }
    assert len(names) == 1
    assert Sentences.loaded == ["cpu", "cuda"]


@given(
    st.lists(st.integers(0, 5_000), max_size=3_000),
    st.sampled_from([None, 8, 256, 8_192]),
    st.sampled_from([512, 4_096, 65_536]),
)
def test_batches_hold_every_text_once_within_their_bounds(lengths, limit, tokens):
    """Short ones first, so that little is padded; only a text alone may be too long."""
    batches = list(length_batches(lengths, limit, tokens))
    order = [position for batch in batches for position in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[position] for position in order] == sorted(lengths)
    for batch in batches:
        longest = min(max(lengths[position] for position in batch), limit or 1 << 15)
        assert len(batch) <= MAX_BATCH
        assert len(batch) == 1 or len(batch) * longest <= tokens


def test_a_batch_is_filled_as_far_as_it_may_be():
    """A third of the texts that fit would leave a device idle."""
    assert [len(batch) for batch in length_batches([256] * 40, 256, 4_096)] == [16, 16, 8]
    assert [len(batch) for batch in length_batches([1] * 2_000, 256, 65_536)] == [1_024, 976]
