"""Tuning on a user's skills: what is refused, what is held out, and how it is decided."""

import sys

import numpy as np
import pytest

from skillsearch.embedders.embedding import HashingEmbedder, embed
from skillsearch.errors import EmbedderError, MissingDependencyError, TrainingError
from skillsearch.training.material import TrainingMaterial, read_library
from skillsearch.training.plan import QueryRows
from skillsearch.training.queries import SkillText
from skillsearch.training.tuning import TuneOptions, learn_from, make_work_dir, tune


@pytest.mark.parametrize("count", [0, 1, 49])
def test_too_few_skills_are_refused(count, make_texts):
    with pytest.raises(TrainingError, match=rf"^{count} skills .* at least 50 are"):
        TrainingMaterial.gather(make_texts(count), [], 0)


def test_skills_that_say_nothing_of_their_uses_are_refused():
    texts = [
        SkillText(f"s{number}", f"Depot {number}, shelves and belts of it", "")
        for number in range(80)
    ]
    with pytest.raises(TrainingError, match="say too little"):
        TrainingMaterial.gather(texts, [], 0)


def test_nothing_that_is_measured_is_trained(make_texts):
    texts = make_texts(60)
    chosen = [QueryRows(f"query {number}", (number,)) for number in range(60)]
    material = TrainingMaterial.gather(texts, chosen, 0)
    trained = {pair.query for pair in material.judged}
    kept_back = {query for query, _ in material.judged_test}
    assert trained.isdisjoint(kept_back)
    assert trained | kept_back == {query.query for query in chosen}
    assert len(material.validation) == len(material.test) == 12
    corpus = "\n".join(f"{skill.about}\n{skill.body}" for skill in material.skills)
    for query in (*material.validation, *material.test):
        assert query.query not in corpus


def test_what_is_measured_is_a_collection_of_the_skills_left(make_texts):
    texts = [*make_texts(60), make_texts(1)[0]]
    chosen = [QueryRows(f"query {number}", (0, 60)) for number in range(9)]
    material = TrainingMaterial.gather(texts, chosen, 0)
    held, judged = material.collections().values()
    assert len(held.documents) == len(judged.documents) == 60
    for query, held_out in zip(held.queries, material.test, strict=True):
        (document,) = held.qrels[query.query_id]
        assert held.documents[int(document)].name == texts[held_out.rows[0]].name
    assert {tuple(grades) for grades in judged.qrels.values()} == {("0",)}


def test_a_library_is_read_with_the_texts_and_ids_of_its_index(drinks, make_skill, silent):
    make_skill(drinks, "no-description", description="")
    make_skill(drinks, "brew: mocha", "Brew mocha.", body="Boil.\n", tags=["cacao"])
    library = read_library([drinks], silent)
    names = ("brew-coffee", "brew: mocha", "squeeze-lemons", "steep-tea")
    assert sorted(library) == [f"drinks:{name}" for name in names]
    assert sorted(text.name for text in library.values()) == list(names)
    assert library["drinks:brew: mocha"] == SkillText("brew: mocha", "Brew mocha.\ncacao", "Boil.")


def test_a_library_is_read_with_what_its_scripts_say_of_themselves(
    drinks, make_skill, tmp_path, silent
):
    folder = make_skill(drinks, "roast", "Roast beans.").parent
    secret = tmp_path / "secret.py"
    secret.write_text('"""Never to be read by anyone."""\n')
    said = '"""Cools the beans after the second crack."""\n'
    for name in ("scripts/cool.py", "scripts/again.py", "other/heat.py", "scripts/100%.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(said)
    (folder / "scripts" / "100%.py").write_text("# Tells how dark they are.\n")
    (folder / "scripts" / "link.py").symlink_to(secret)
    (folder / "scripts" / "large.sh").write_text("# This one is far too large.\n" + "#" * 300_000)
    (folder / "scripts" / "deep.py").mkdir()
    library = read_library([drinks], silent)
    assert next(text for text in library.values() if text.name == "roast").scripts == (
        "Tells how dark they are.",
        "Cools the beans after the second crack.",
    )


def test_a_run_works_beside_the_folder_of_the_model(tmp_path):
    """The state of an interrupted run is found again."""
    out = tmp_path / "models" / "mine"
    work_dir = make_work_dir(out)
    assert work_dir == tmp_path / "models" / ".mine.unfinished"
    (work_dir / "planned.json").write_text("{}")
    out.mkdir()
    assert [path.name for path in make_work_dir(out).iterdir()] == ["planned.json"]


@pytest.mark.parametrize("taken", ["file", "folder"])
def test_a_folder_of_a_model_that_is_taken_is_refused(tmp_path, taken):
    out = tmp_path / "mine"
    if taken == "file":
        out.write_text("")
    else:
        (out / "inside").mkdir(parents=True)
    with pytest.raises(TrainingError, match=f"{out} already exists"):
        make_work_dir(out)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_teacher_embeds_each_text_once(embedded_texts):
    teacher = learn_from("hashing")
    texts = ["green tea", "black coffee", "green tea"]
    first, second = teacher(texts), teacher([*texts, "lemons"])
    assert embedded_texts == ["green tea", "black coffee", "lemons"]
    expected = embed(HashingEmbedder(), [*texts, "lemons"])
    np.testing.assert_array_equal(second, expected)
    np.testing.assert_array_equal(first, expected[:3])
    with pytest.raises(EmbedderError):
        learn_from("nothing-of-that-name")


def test_without_its_extra_it_says_what_to_install(tmp_path, monkeypatch, silent):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    options = TuneOptions((tmp_path,), tmp_path / "out")
    with pytest.raises(MissingDependencyError, match=r"install .*\[train\]"):
        tune(options, progress=silent, tell=silent)
    assert list(tmp_path.iterdir()) == []
