"""Tests of an index in Milvus: indexing, searching, reading by name, deleting."""

from dataclasses import replace

import numpy as np
import pytest

from skillsearch.errors import ConfigError, EmbedderError, IndexNotFoundError, VersionNotFoundError
from skillsearch.index.roots.request import IndexRequest
from skillsearch.remote.generations import find_current
from skillsearch.remote.remote_index import RemoteIndex
from skillsearch.remote.rows import HEAD

pytestmark = pytest.mark.milvus


def names(result):
    return [hit.name for hit in result]


@pytest.fixture(scope="module")
def shared(module_home, milvus, kitchen):
    """Index the kitchen once for all tests that only ask."""
    request = IndexRequest((kitchen,), "hashing", True)
    index, _ = RemoteIndex.build(request, milvus, collection="shared_kitchen")
    with index:
        yield index


def test_the_first_indexing_sends_every_skill(build, root):
    index, report = build()
    assert (report.indexed, report.embedded, report.reused, report.removed) == (5, 5, 0, 0)
    assert len(index) == 5
    assert report.generation == index.generation
    assert sorted(document.name for document in index.documents()) == sorted(
        folder.name for folder in root.iterdir()
    )
    _, again = build()
    assert (again.embedded, again.reused, again.generation) == (0, 5, report.generation)


def test_only_what_changed_is_embedded(build, root, make_skill):
    build()
    make_skill(root, "fry-eggs", "Fry eggs sunny side up.", "# Pan\n\nUse olive oil.\n")
    make_skill(root, "steep-tea", "Steep black tea.", "# Water\n\nUse water of 80 degrees.\n")
    index, report = build()
    assert (report.embedded, report.reused, report.removed) == (1, 3, 0)
    assert report.generation.endswith("@2")
    assert names(index.search("olive oil", threshold=0.0))[0] == "fry-eggs"


def test_a_stub_follows_its_other_files(build, root, make_skill):
    make_skill(root, "kitchen", "Helps at home.", "See the guide.")
    guide = root / "kitchen" / "guide.md"
    guide.write_text("Boil quince marmalade. " * 200)
    index, _ = build()
    assert names(index.search("marmalade of quinces", threshold=0, system="bm25"))[:1] == [
        "kitchen"
    ]
    guide.write_text("Pickle gherkins. " * 300)
    index, report = build()
    assert report.reused == 5
    assert not names(index.search("marmalade of quinces", threshold=0, system="bm25"))
    assert build()[1].reused == 6


def test_a_skill_that_is_gone_from_disk_goes(build, root):
    build()
    (root / "bake-bread" / "SKILL.md").unlink()
    index, report = build()
    assert (report.indexed, report.removed) == (4, 1)
    assert "bake-bread" not in names(index.search("bake sourdough bread", threshold=0.0))


def test_an_opened_index_sees_what_others_write(build, milvus, collection, root, make_skill):
    build()
    with RemoteIndex.open(milvus, collection=collection) as reader:
        make_skill(root, "carve-spoons", "Carve spoons from green wood.")
        build()
        assert names(reader.search("carve a spoon from wood")) == ["carve-spoons"]


def test_other_settings_make_another_generation(build, server, collection):
    """The alias stands for the new one; the one before is kept for who still reads it."""
    _, first = build()
    index, second = build(with_body=False)
    assert first.generation == f"{collection}_g000001@1"
    assert second.generation == f"{collection}_g000002@1"
    assert second.embedded == 5
    assert names(index.search("brew filter coffee")) == ["brew-coffee"]
    build()
    left = [name for name in server.collections() if name.startswith(f"{collection}_")]
    assert sorted(left) == [
        f"{collection}_g00000{number}{part}" for number in (2, 3) for part in ("", "_terms")
    ]


def test_hidden_and_excluded_skills_are_left_out(shared):
    query = "print labels for jars"
    assert names(shared.search(query)) == ["label-jars"]
    assert shared.search(query, include_hidden=False).abstained
    assert shared.search(query, exclude=["kitchen:label-jars"]).abstained


def test_copies_take_one_place(build, root, tmp_path):
    copy = tmp_path / "copy" / "brew-coffee" / "SKILL.md"
    copy.parent.mkdir(parents=True)
    copy.write_bytes((root / "brew-coffee" / "SKILL.md").read_bytes())
    index, _ = build(root, tmp_path / "copy")
    (hit,) = index.search("brew filter coffee")
    assert len(hit.duplicates) == 1


def test_a_chunk_is_named_that_fits_best(build, root, make_skill):
    body = (
        '<chunk id="boil" description="Boil water">Boil a litre.</chunk>\n'
        '<chunk id="salt" description="Add salt">Stir in a spoon of salt.</chunk>\n'
    )
    make_skill(root, "cook-pasta", "Cook pasta.", body)
    index, _ = build()
    hits = index.search("cook pasta, add salt", threshold=0.0)
    assert (hits[0].name, hits[0].chunk) == ("cook-pasta", "salt")


def test_a_skill_is_read_as_it_was_indexed(build, root):
    index, _ = build()
    (root / "fry-eggs" / "SKILL.md").unlink()
    skill = index.get("FRY eggs")
    assert (skill.doc_id, skill.body) == ("kitchen:fry-eggs", "# Pan\n\nHeat butter in a pan.")


def test_a_name_that_several_roots_have_means_the_first(build, root, tmp_path, make_skill):
    other = tmp_path / "cafe"
    make_skill(other, "brew-coffee", "Brew espresso.", version="1.4")
    index, _ = build(root, other)
    assert index.find("brew-coffee").doc_id == "kitchen:brew-coffee"
    assert index.find("cafe:brew-coffee").description == "Brew espresso."
    assert index.find("brew-coffee@>=1.2").doc_id == "cafe:brew-coffee"
    with pytest.raises(VersionNotFoundError):
        index.find("brew-coffee@>=2")


def test_documents_are_deleted_by_id(build):
    index, _ = build()
    assert index.delete(["kitchen:fry-eggs", "kitchen:boil-stones"]) == 1
    assert len(index) == 4
    assert "fry-eggs" not in names(index.search("fry eggs", threshold=0.0))
    _, report = build()
    assert (report.indexed, report.reused) == (5, 4)


def test_an_index_of_nothing_finds_nothing(build, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    index, report = build(empty)
    assert (report.indexed, [item.code for item in report.diagnostics]) == (0, ["root-empty"])
    assert index.search("anything").abstained


def test_what_cannot_be_parsed_is_reported_and_skipped(build, root):
    broken = root / "broken" / "SKILL.md"
    broken.parent.mkdir()
    broken.write_bytes(b"")
    index, report = build()
    assert (report.indexed, report.skipped, index.skipped) == (5, 1, 1)
    assert str(broken) in [item.path for item in report.diagnostics]


def test_a_long_skill_is_indexed_and_read(build, tmp_path, make_skill):
    """More distinct terms than a text field of Milvus holds, and bytes that compress badly."""
    noise = np.random.default_rng(7).integers(0x4E00, 0x9FFF, 12_000)
    body = "".join(map(chr, noise)) + " zanzibar" * 20_000
    make_skill(tmp_path / "long", "long-one", "Sails to Zanzibar.", body)
    index, report = build(tmp_path / "long")
    assert report.indexed == 1
    assert names(index.search("sail to zanzibar", threshold=0.0)) == ["long-one"]
    assert index.get("long-one").body == body


def test_an_index_that_is_not_there_is_named_with_the_command_that_makes_it(milvus):
    with pytest.raises(IndexNotFoundError, match=rf"--uri {milvus} --collection nowhere"):
        RemoteIndex.open(milvus, collection="nowhere")


def test_a_foreign_collection_is_left_alone(build, milvus, server, collection):
    build()
    server.point(f"{collection}_other", f"{collection}_g000001", is_new=True)
    for name in (f"{collection}_g000001", f"{collection}_other"):
        with pytest.raises(ConfigError, match="does not belong to skillsearch"):
            RemoteIndex.from_roots(".", uri=milvus, collection=name, model="hashing")


def test_a_head_of_another_format_is_named_and_made_anew(build, server, collection):
    """A reader says what to do; a writer does it."""
    index, _ = build()
    server.upsert(f"{collection}_g000001_terms", [{"id": HEAD, "note": []}], partial=True)
    with pytest.raises(IndexNotFoundError, match=r"cannot be used.*To fix: run"):
        index.search("tea")
    _, report = build()
    assert report.generation == f"{collection}_g000002@1"


def test_an_index_of_another_version_of_the_analysis_cannot_be_searched(build, server, collection):
    index, _ = build()
    opened = find_current(server, collection)
    head = replace(opened.head, settings=replace(opened.head.settings, analysis=(0, 0)))
    server.upsert(opened.generation.terms, [head.to_row()])
    with pytest.raises(IndexNotFoundError, match="another version of skillsearch"):
        index.search("tea")


def test_a_collection_that_was_released_is_loaded_again(build, server, collection):
    index, _ = build()
    for part in ("", "_terms"):
        server._client.release_collection(f"{collection}_g000001{part}")
    assert names(index.search("brew filter coffee")) == ["brew-coffee"]


def test_an_embedder_that_changed_is_an_error_with_the_next_step(build, server, collection):
    index, _ = build()
    opened = find_current(server, collection)
    model = replace(opened.head.settings.model, fingerprint="0123456789abcdef")
    other = replace(opened.head.settings, model=model)
    server.upsert(opened.generation.terms, [replace(opened.head, settings=other).to_row()])
    with pytest.raises(EmbedderError, match="index FOLDER --backend milvus --model hashing"):
        index.search("tea")
