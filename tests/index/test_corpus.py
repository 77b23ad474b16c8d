"""All parts of an index together."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from skillsearch.errors import CacheError
from skillsearch.index.corpus import (
    Corpus,
    IndexSettings,
    OpenedIndex,
    open_current,
    save_diagnostics,
)
from skillsearch.index.dense.query_embedder import ModelSettings
from skillsearch.index.storage.cache import Generation, IndexFolder
from skillsearch.types.skills import Diagnostic, Root

SETTINGS = IndexSettings(
    roots=(Root(Path("/a/skills"), "a/skills"), Root(Path("/b/数据"), "b/数据")),
    model=ModelSettings("onnx", "onnx 12", "0123456789abcdef", 384),
    with_body=True,
    analysis=(1, 2),
)

MODEL = SETTINGS.to_dict()["model"]


@pytest.mark.parametrize("settings", [SETTINGS, replace(SETTINGS, with_body=False, roots=())])
def test_settings_come_back_from_json(settings):
    values = json.loads(json.dumps(settings.to_dict()))
    assert IndexSettings.from_dict(values) == settings
    assert IndexSettings.from_dict(values).to_dict() == settings.to_dict()


@pytest.mark.parametrize(
    "change",
    [
        {"roots": 3},
        {"roots": [["/a"]]},
        {"roots": [[3, "a"]]},
        {"roots": [[*root[:2], "odd", *root[3:]] for root in SETTINGS.to_dict()["roots"]]},
        {"model": []},
        {"model": 7},
        {"model": MODEL | {"dimensions": "many"}},
        {"model": MODEL | {"dimensions": None}},
        {"model": MODEL | {"fingerprint": 7}},
        {"analysis": [1]},
        {"analysis": ["x", "y"]},
        *({"model": {key: MODEL[key] for key in MODEL if key != name}} for name in MODEL),
        *({name: ...} for name in SETTINGS.to_dict()),
    ],
)
def test_settings_of_another_form_are_a_cache_error(change):
    """What is ... is left out."""
    values = SETTINGS.to_dict() | change
    with pytest.raises(CacheError, match="unknown form"):
        IndexSettings.from_dict({key: value for key, value in values.items() if value is not ...})


def test_a_corpus_of_metadata_alone_has_no_parts_of_bodies(root, build):
    index = build(root, with_body=False)
    assert len(index.opened.corpus.lexical) == 1
    assert len(index.opened.corpus.dense.segments[0].fields) == 1
    assert not [path.name for path in index.opened.folder.iterdir() if "body" in path.name]
    assert not index.opened.settings.with_body


@pytest.mark.parametrize(
    "part", ["documents", "lexical-metadata", "lexical-full", "dense", "chunks"]
)
def test_parts_of_different_sizes_are_a_cache_error(root, add_skill, build, tmp_path, part):
    add_skill(root / "tools", "tools", "Work with tools.", "<chunk id=saw>Saw planks.</chunk>")
    index = build(root)
    (root / "tea-timer" / "SKILL.md").unlink()
    smaller = build(root, index_dir="smaller")
    shutil.copytree(index.opened.folder, tmp_path / "copy")
    for path in smaller.opened.folder.glob(f"{part}*"):
        (tmp_path / "copy" / path.name).write_bytes(path.read_bytes())
    with pytest.raises(CacheError, match="differ in size"):
        Corpus.load(tmp_path / "copy", with_body=True)


def test_diagnostics_come_back(tmp_path):
    diagnostics = (
        Diagnostic("yaml-invalid", "error", "Line 3: 数据 \udcff", "/a/SKILL.md", 3),
        Diagnostic("root-empty", "warning", "Nothing", "/b"),
    )
    save_diagnostics(tmp_path, diagnostics)
    opened = OpenedIndex(Generation("name", tmp_path, {}, {}), SETTINGS, None)
    assert opened.diagnostics() == diagnostics


@pytest.mark.parametrize("data", [b"", b"{", b"[3]", b"3", b'[{"code": "x"}]', b"\xff"])
def test_diagnostics_of_another_form_are_a_cache_error(tmp_path, data):
    opened = OpenedIndex(Generation("name", tmp_path, {}, {}), SETTINGS, None)
    with pytest.raises(CacheError, match="diagnostics"):
        opened.diagnostics()
    (tmp_path / "diagnostics.json").write_bytes(data)
    with pytest.raises(CacheError, match="diagnostics"):
        opened.diagnostics()


def test_open_current_is_none_without_a_usable_index(tmp_path):
    folder = IndexFolder(tmp_path)
    assert open_current(folder) is None
    folder.write(lambda _target: None, {"another": "version"})
    assert open_current(folder) is None
    with pytest.raises(CacheError):
        OpenedIndex.load(Generation("name", tmp_path, {}, {}))
