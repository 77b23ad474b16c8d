"""The record that the map draws, and the projection that is kept for it."""

import json

import numpy as np
import pytest

from skillsearch.index.skill_index import SkillIndex
from skillsearch.settings.user_folders import cache_dir
from skillsearch.ui import skill_map
from skillsearch.ui.skill_map import FOLDER, make_map


@pytest.fixture
def opened(drinks, make_skill, index_dir):
    """Index drinks, one of them in another root too."""
    other = drinks.parent / "other"
    make_skill(
        other,
        "brew-coffee",
        "Brew filter coffee with a scale. Use for espresso and roasting questions.",
    )
    make_skill(other, "hostile", "a\u202eb\x1b[31m <b> " + 300 * "x")
    return SkillIndex.from_roots([drinks, other], index_dir=index_dir, model="hashing")


def saved_maps():
    return list((cache_dir() / FOLDER).iterdir())


def test_the_record_names_each_skill_with_its_repository_language_and_family(opened):
    record = json.loads(make_map(opened))
    documents = list(opened.documents())
    assert record["ids"] == [document.doc_id for document in documents]
    assert [record["repositories"][i] for i in record["repository"]] == [
        document.alias for document in documents
    ]
    assert [record["languages"][i] for i in record["language"]] == [
        document.language for document in documents
    ]
    by_id = dict(zip(record["ids"], record["family"], strict=True))
    assert by_id["drinks:brew-coffee"] == by_id["other:brew-coffee"] >= 0
    assert by_id["drinks:steep-tea"] == by_id["drinks:squeeze-lemons"] == -1
    about = record["about"][record["ids"].index("other:hostile")]
    assert about.startswith("ab [31m <b> xxx")
    assert len(about) == 200
    assert all(0 <= document <= 65_535 for point in record["xy"] for document in point)


@pytest.mark.slow
def test_a_map_is_computed_once_for_a_generation(opened, monkeypatch):
    first = make_map(opened)
    assert len(saved_maps()) == 1
    monkeypatch.setattr(skill_map, "project", None)
    assert make_map(opened) == first
    (opened.opened.settings.roots[0].path / "steep-tea" / "SKILL.md").unlink()
    opened.refresh()
    with pytest.raises(TypeError):
        make_map(opened)


@pytest.mark.parametrize("damage", [b"x", b"\x00" * 999])
@pytest.mark.slow
def test_a_damaged_map_is_computed_anew(opened, damage):
    first = make_map(opened)
    (path,) = saved_maps()
    sound = path.read_bytes()
    path.write_bytes(damage + sound[len(damage) + 1 :])
    assert make_map(opened) == first
    assert path.read_bytes() == sound


@pytest.mark.slow
def test_a_map_of_other_skills_is_not_believed(opened):
    first = make_map(opened)
    (path,) = saved_maps()
    for record in ({"xy": [[0, 0]], "pairs": []}, {"xy": first[:9].decode(), "pairs": [[1]]}):
        skill_map.write_record(path, record)
        assert make_map(opened) == first
    points = json.loads(first)["xy"]
    skill_map.write_record(path, {"xy": points, "pairs": [[0, 99]]})
    assert make_map(opened) == first


def test_a_map_that_cannot_be_kept_is_shown(opened, caplog):
    cache_dir().mkdir(parents=True, exist_ok=True)
    (cache_dir() / FOLDER).write_text("a file", encoding="utf-8")
    assert len(json.loads(make_map(opened))["xy"]) == 5
    assert "cannot be kept" in caplog.text


def test_islands_count_near_copies_once(make_skill, tmp_path, index_dir):
    """Else the words of one skill that many have copied would name the island."""
    root = tmp_path / "skills"
    for number in range(6):
        make_skill(
            root, f"rebase-{number * 'x'}", f"Rebase commits {number} in git. {number * 'y '}"
        )
        make_skill(root / f"copy-{number}", "rebase-copied", "Rebase copied commits in git.")
    record = json.loads(make_map(SkillIndex.from_roots(root, index_dir=index_dir, model="hashing")))
    families = set(record["family"]) - {-1}
    apart = len(families) + record["family"].count(-1)
    assert apart < len(record["ids"]) == 12
    assert all(5 <= island["size"] <= apart for island in record["islands"])


def test_confusable_skills_of_two_families_are_joined(make_skill, tmp_path, index_dir):
    root = tmp_path / "skills"
    scan = "Security scanner for Clawdbot skills: finds malicious patterns before installation."
    make_skill(root, "clawguard", scan)
    make_skill(
        root, "skill-flag", "Scan Clawdbot skills for malicious patterns, backdoors and risks."
    )
    make_skill(root, "steep-tea", "Steep green tea at the right temperature.")
    make_skill(tmp_path / "copies", "steep-tea", "Steep green tea at the right temperature.")
    roots = [root, tmp_path / "copies"]
    index = SkillIndex.from_roots(roots, index_dir=index_dir)
    record = json.loads(make_map(index))
    joined = [{record["names"][i] for i in pair} for pair in record["pairs"]]
    assert joined == [{"clawguard", "skill-flag"}]
    assert np.array(record["xy"]).shape == (4, 2)
