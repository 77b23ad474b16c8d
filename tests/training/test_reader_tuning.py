"""Tuning a reader on a user's judged requests: better, not better, interrupted, refused."""

import itertools
import json
import random
from dataclasses import replace

import pytest

from skillsearch.errors import TrainingError
from skillsearch.evaluation.collection import save_collection
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.index.search.reading import READ_MOST
from skillsearch.readers.loading import load_reader
from skillsearch.training.material import is_measured
from skillsearch.training.model_folders import begin_weights, export
from skillsearch.training.queries import SkillText
from skillsearch.training.tuning import TuneOptions

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]
for _name in ("torch", "transformers", "sentence_transformers", "onnx"):
    pytest.importorskip(_name)
reader_tuning = pytest.importorskip("skillsearch.training.reader_tuning")

COUNT = 30
WORKERS = {"bearer": "Anna", "holder": "Bert", "keeper": "Carl", "lifter": "Dora", "packer": "Emil"}
ALL = [
    (f"{kind}-{number}", f"Sees to crate{number} of depot{number} with the {sign} of {name}.")
    for number in range(COUNT)
    for kind, name in (WORKERS | {"sorter": "Fred"}).items()
    for sign in ("tea" if kind == "sorter" else "cup",)
]
"""Skills, six for a crate, of which `tea` says that it is the right one."""
WORDS = ("the", "with", "tea", "cup", "Sees", "to", "of", "crate", "depot", *WORKERS.values())
"""What the readers know of all that."""
LEARNS = replace(
    reader_tuning.SETTINGS,
    learning_rate=3e-3,
    head_rate=1.0,
    epochs=6.0,
    average=0.8,
    groups=4,
    frozen_layers=0,
)
"""Lets a reader of so few weights learn something in so few steps."""


@pytest.fixture
def root(tmp_path, make_skill):
    for name, description in ALL:
        make_skill(tmp_path / "root", name, description, f"Begin at belt{name}.\n")
    return tmp_path / "root"


@pytest.fixture
def model(tmp_path, make_reader):
    folder = tmp_path / "tiny"
    export(
        make_reader(8, words=WORDS),
        folder,
        name="tiny",
        notice="A tiny reader.\n",
        licence="Do as you like.\n",
    )
    return folder


@pytest.fixture
def options(root, model, log, tmp_path):
    """The options of the runs, with a log of judged requests."""
    lines = [
        {"query": f"{verb} crate{number} of depot{number}", "skill": f"sorter-{number}"}
        for number in range(COUNT)
        for verb in ("see to", "handle", "mind", "sort out")
    ]
    out, queries = tmp_path / "out" / "tuned", log(*lines)
    return TuneOptions((root,), out, "hashing", queries=queries, reader=str(model))


@pytest.mark.slow
def test_a_reader_that_got_better_is_written_and_can_be_used(options, model, silent):
    """It tells apart what the search cannot."""
    messages = []
    tuned = reader_tuning.tune_reader(
        options, progress=silent, tell=messages.append, settings=LEARNS
    )
    assert tuned.is_better
    assert tuned.folder == options.out
    measured = tuned.measured["judged"]
    assert tuned.skills == measured.documents == len(ALL)
    reader, hybrid = measured.changes["reader"], measured.changes["hybrid"]
    assert reader.after["AUROC"] > max(0.9, reader.before["AUROC"] + 0.1)
    assert hybrid.after["Success@1"] > hybrid.before["Success@1"] + 0.1
    files = {path.name for path in options.out.iterdir()}
    assert files == {
        *("LICENSE", "NOTICE", "reader.json", "reader.onnx", "reader.onnx_data"),
        "words.bin",
    }
    assert (options.out / "NOTICE").read_text().startswith("A tiny reader.\n")
    assert [path.name for path in options.out.parent.iterdir()] == ["tuned"]
    assert messages[0].startswith("Tuning on ")
    loaded, old = load_reader(str(options.out)), load_reader(str(model))
    assert loaded.name == "tiny (tuned)"
    request, texts = "handle crate7", [text for _, text in ALL[42:48]]
    assert loaded.read(request, texts).argmax() == 5
    assert loaded.read(request, texts).tolist() != old.read(request, texts).tolist()
    assert json.loads(json.dumps(tuned.to_dict()))["measured"]["judged"]["reader"]["before"]


@pytest.mark.slow
def test_a_reader_that_did_not_is_not_written(options, silent):
    settings = replace(LEARNS, learning_rate=1e-12, epochs=1.0)
    tuned = reader_tuning.tune_reader(options, progress=silent, tell=silent, settings=settings)
    assert not tuned.is_better
    assert tuned.folder is None
    assert list(options.out.parent.iterdir()) == []
    written = reader_tuning.tune_reader(
        replace(options, keep=True), progress=silent, tell=silent, settings=settings
    )
    assert not written.is_better
    assert written.folder == options.out
    assert begin_weights(str(options.out), "reader").is_reader


@pytest.mark.slow
def test_an_interrupted_tuning_writes_no_reader(options, silent):
    """What it leaves is an index, which the next one uses."""

    def interrupt(stage, done, _total):
        if stage == "train" and done == 2:
            raise KeyboardInterrupt

    settings = replace(LEARNS, epochs=1.0)
    with pytest.raises(KeyboardInterrupt):
        reader_tuning.tune_reader(options, progress=interrupt, tell=silent, settings=settings)
    (left,) = options.out.parent.iterdir()
    assert [path.name for path in left.iterdir()] == ["index"]
    reader_tuning.tune_reader(options, progress=silent, tell=silent, settings=settings)
    assert not left.exists()


def test_too_little_time_is_told_with_what_is_needed(options, silent):
    with pytest.raises(TrainingError, match=r"0\.0001 minutes are too few .* --minutes \d+"):
        reader_tuning.tune_reader(replace(options, minutes=0.0001), progress=silent, tell=silent)
    assert list(options.out.parent.iterdir()) == []


def test_too_few_judged_requests_are_refused(options, log, silent):
    lines = [
        {"query": f"see to {number}", "skill": f"sorter-{number}"} for number in range(COUNT + 20)
    ]
    log(*lines[5:])
    with pytest.raises(TrainingError, match=r"^25 judged requests .* at least 30 are needed"):
        reader_tuning.tune_reader(options, progress=silent, tell=silent)
    assert list(options.out.parent.iterdir()) == []


def collection():
    """Return a judged collection of the skills, with requests that nothing answers."""
    queries = [JudgedQuery(f"q{number}", f"see to crate{number}") for number in range(COUNT)]
    return Collection(
        "crates",
        tuple(JudgedDocument(name, name, description) for name, description in ALL),
        tuple(queries),
        {query.query_id: {f"sorter-{number}": 1} for number, query in enumerate(queries)},
        negatives=tuple(
            JudgedQuery(f"n{number}", f"burn crate{number} of depot{number}")
            for number in range(20)
        ),
    )


def test_what_is_measured_is_learned_by_no_one(log, tmp_path):
    """Requests are divided by their texts, as `tune` divides them; those of one text are one."""
    save_collection(collection(), tmp_path / "crates")
    library = {f"root:{name}": SkillText(name, text, "") for name, text in ALL}
    parts = reader_tuning.Requests.gather(tmp_path / "crates", library, 0)
    texts = [[request.text for request in part] for part in parts[:3]]
    queries = (*collection().queries, *collection().negatives)
    assert sorted(itertools.chain(*texts)) == sorted({query.text for query in queries})
    assert all(map(is_measured, texts[2]))
    assert not any(map(is_measured, texts[0] + texts[1]))
    right = {request.text: request.right for part in parts[:3] for request in part}
    assert right["see to crate3"] == {"root:sorter-3"}
    assert right["burn crate3 of depot3"] == frozenset()
    lines = [
        {"query": query, "skill": f"{kind}-{number}"}
        for number in range(COUNT)
        for query, kind in ((f"see to {number}", "sorter"), (f"See  to {number}", "packer"))
    ]
    parts = reader_tuning.Requests.gather(log(*lines), library, 0)
    right = {request.text: request.right for part in parts[:3] for request in part}
    assert len(right) == COUNT
    assert right["see to 3"] == {"root:sorter-3", "root:packer-3"}


def test_groups_have_the_right_skills_and_hard_wrong_ones(options, tmp_path, silent):
    searched = reader_tuning._Searched(options, tmp_path / "index", silent)
    requests = [
        reader_tuning.Request("see to crate3 of depot3", frozenset({"root:sorter-3"})),
        reader_tuning.Request("nothing but zebras", frozenset({"root:sorter-4"})),
        reader_tuning.Request("burn crate5 of depot5", frozenset()),
    ]
    hard, *others = searched.groups(requests, random.Random(1))
    assert (hard.grades[0], hard.texts[0][:8]) == (2, "sorter 3")
    assert all("crate3 " in text for text in hard.texts[:READ_MOST])
    assert set(hard.grades[1:]) == {0}
    assert len(hard.texts) in (READ_MOST, READ_MOST + 1)
    assert [group.request for group in others] == [request.text for request in requests[1:]]
    assert others[0].grades[0] == 2
    assert set(others[1].grades) == {0}
    (seen,) = searched.groups(requests[:1])
    assert sorted(seen.grades) == [*[0] * (READ_MOST - 1), 2]
