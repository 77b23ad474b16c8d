"""Tests of what readers see of an index in Milvus while it is written, and after a cut-off run."""

import threading
import time

import numpy as np
import pytest

from skillsearch.errors import IndexNotFoundError, LockTimeoutError
from skillsearch.index.lexical.okapi import average_idf
from skillsearch.index.skill_index import SkillIndex
from skillsearch.remote import claims, row_writer
from skillsearch.remote.claims import Claim
from skillsearch.remote.client import MilvusServer
from skillsearch.remote.generations import find_current
from skillsearch.remote.remote_index import RemoteIndex
from skillsearch.remote.row_writer import RowWriter
from skillsearch.remote.rows import counts_of
from skillsearch.remote.view import View
from skillsearch.remote.vocabulary import FIELDS, frequencies_at
from skillsearch.text.tokenizer import term_hash

pytestmark = pytest.mark.milvus
QUERIES = ("brew coffee", "bake sourdough bread", "carve spoons", "steep tea", "80 degrees")


class CutOffError(Exception):
    """Stands for a kill."""


@pytest.fixture
def server(milvus):
    """Connect beside the indexes of a test."""
    connection = MilvusServer(milvus)
    yield connection
    connection.close()


@pytest.fixture
def cut_off(monkeypatch):
    """Have every writing call to the server fail from the n-th on, until told otherwise."""
    left = [None]
    calls = {name: getattr(MilvusServer, name) for name in ("insert", "upsert", "delete", "point")}

    def guard(name):
        def call(self, *args, **options):
            if left[0] is not None:
                left[0] -= 1
                if left[0] < 0:
                    raise CutOffError
            return calls[name](self, *args, **options)

        return call

    for name in calls:
        monkeypatch.setattr(MilvusServer, name, guard(name))
    # A process that is killed gives nothing up; its claim would have to run out first.
    monkeypatch.setattr(claims, "EXPIRES_S", 0)

    def allow(number):
        left[0] = number

    return allow


def answers(index):
    """Return what an index answers, scores and all."""
    found = [index.search(query, threshold=0.0) for query in QUERIES]
    return [[(hit.doc_id, round(hit.score, 9)) for hit in result] for result in found]


def change(root, make_skill):
    """Change one skill, remove one, add one."""
    make_skill(root, "steep-tea", "Steep black tea.", "# Water\n\nUse boiling water.\n")
    (root / "bake-bread" / "SKILL.md").unlink()
    make_skill(root, "carve-spoons", "Carve spoons from green wood.", "# Knife\n\nBe careful.\n")


def expected_totals(rows):
    """Count terms anew: by hash in how many documents, by field; and what BM25 has to know."""
    counted = [counts_of(row) for row in rows]
    frequencies = {}
    for one in counted:
        for place, column in enumerate((one.metadata, one.full)):
            for term in one.hashes[column > 0].tolist():
                frequencies.setdefault(term, [0, 0])[place] += 1
    means = [
        average_idf(np.array([n[place] for n in frequencies.values() if n[place]]), len(counted))
        for place in (0, 1)
    ]
    lengths = [sum(one.lengths[place] for one in counted) for place in (0, 1)]
    return frequencies, means, lengths


def check_statistics(server, collection):
    """Hold all that the index keeps of its terms against its documents."""
    current = find_current(server, collection)
    view = View(server, current.generation, current.head, {})
    frequencies, means, lengths = expected_totals(list(view.rows(["counts"])))
    kept = {}
    for page in server.iterate(current.generation.terms, "kind == 0", FIELDS, 1_000):
        for row in page:
            kept[int(row["id"], 16)] = list(frequencies_at(row, current.head.version))
    assert {term: numbers for term, numbers in kept.items() if any(numbers)} == frequencies
    totals = [current.head.totals[field] for field in ("metadata", "full")]
    assert [one.length for one in totals] == lengths
    assert [one.average_idf for one in totals] == pytest.approx(means, abs=1e-12)


def test_statistics_stay_exact_through_updates(build, server, collection, root, make_skill):
    """Whatever comes, changes and goes, they are those of a count from the beginning."""
    build()
    check_statistics(server, collection)
    change(root, make_skill)
    index, _ = build()
    check_statistics(server, collection)
    index.delete(["kitchen:carve-spoons"])
    check_statistics(server, collection)
    build()
    check_statistics(server, collection)


def test_an_updated_index_answers_as_one_made_at_once(build, milvus, root, make_skill):
    """To the last digits that are shown."""
    build()
    change(root, make_skill)
    index, _ = build()
    with RemoteIndex.from_roots(
        root, uri=milvus, collection="made_at_once", model="hashing"
    ) as anew:
        assert answers(index) == answers(anew)


def test_readers_see_the_version_before_until_the_next_is_complete(
    build, root, make_skill, monkeypatch
):
    """All rows and terms of the next one are written by then."""
    index, _ = build()
    before = answers(index)
    change(root, make_skill)

    def stop(self, settings, skipped):
        raise CutOffError

    with monkeypatch.context() as patch:
        patch.setattr(RowWriter, "finish", stop)
        with pytest.raises(CutOffError):
            build()
    assert answers(index) == before
    build()
    assert answers(index) != before


def test_a_cut_off_first_indexing_shows_nothing_and_is_taken_up(
    build, milvus, collection, monkeypatch
):
    """What was sent is not embedded again."""
    monkeypatch.setattr(row_writer, "BATCH_SKILLS", 2)
    sent = []
    send = RowWriter.send

    def stop(self):
        if len(sent) == 2:
            raise KeyboardInterrupt
        sent.append(1)
        send(self)

    with monkeypatch.context() as patch:
        patch.setattr(RowWriter, "send", stop)
        with pytest.raises(KeyboardInterrupt):
            build()
    with pytest.raises(IndexNotFoundError), RemoteIndex.open(milvus, collection=collection):
        pass
    index, report = build()
    assert (report.indexed, report.reused, report.embedded) == (5, 4, 1)
    assert index.search("steep green tea")[0].name == "steep-tea"


@pytest.mark.slow
def test_a_run_cut_off_anywhere_leaves_the_old_or_the_new_and_the_next_completes_it(
    build, server, collection, root, make_skill, cut_off
):
    """At every single call that writes."""
    index, _ = build()
    old = answers(index)
    sources = {path: path.read_bytes() for path in root.rglob("SKILL.md")}
    change(root, make_skill)
    changed = {path: path.read_bytes() for path in root.rglob("SKILL.md")}
    build()
    new = answers(index)
    seen, number, done = [], 0, False
    while not done:
        restore(root, sources)
        build()
        assert answers(index) == old
        restore(root, changed)
        cut_off(number)
        try:
            build()
            done = True
        except CutOffError:
            pass
        cut_off(None)
        found = answers(index)
        assert found in (old, new)
        seen.append(found == new)
        check_statistics(server, collection)
        if number % 2:
            build()
            assert answers(index) == new
            check_statistics(server, collection)
        number += 1
    assert seen == sorted(seen)
    assert number > 8


def restore(root, sources):
    """Bring a root back to what it was."""
    for path in root.rglob("SKILL.md"):
        if path not in sources:
            path.unlink()
    for path, data in sources.items():
        path.write_bytes(data)


@pytest.mark.slow
def test_searches_during_updates_see_one_version(build, milvus, collection, root, make_skill):
    """Two readers ask without a pause while five versions are written."""
    index, _ = build()
    texts = {number: f"# Water\n\nUse water of {number} degrees.\n" for number in range(5)}
    valid, wrong, count = [answers(index)], [], [0]
    stop = threading.Event()

    def ask():
        with RemoteIndex.open(milvus, collection=collection) as reader:
            while not stop.is_set():
                found = [reader.search(query, threshold=0.0) for query in QUERIES[:2]]
                wrong.append([[(h.doc_id, round(h.score, 9)) for h in one] for one in found])
                count[0] += 1

    readers = [threading.Thread(target=ask) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number, body in texts.items():
        make_skill(root, "steep-tea", f"Steep tea number {number}.", body)
        if number % 2:
            make_skill(root, f"extra-{number}", f"Do extra work {number}.")
        build()
        valid.append(answers(index))
    stop.set()
    for reader in readers:
        reader.join()
    allowed = [[one[place] for one in valid] for place in (0, 1)]
    assert count[0] > 5
    for found in wrong:
        assert found[0] in allowed[0]
        assert found[1] in allowed[1]


def test_a_reader_knows_when_its_version_may_have_been_removed(
    build, server, collection, root, make_skill
):
    """One version later all of it is there still, two later it is not."""
    build()
    view = View.open(server, collection)
    assert view.still_holds()
    for number, holds in ((1, True), (2, False)):
        make_skill(root, "steep-tea", f"Steep tea number {number}.")
        build()
        assert view.still_holds() is holds


def test_a_reader_finds_the_frequencies_of_its_version_while_the_next_is_written(
    build, server, collection, root, make_skill, monkeypatch
):
    """A term has a row for both."""
    build()
    make_skill(root, "iron-shirts", "Brew steam.")
    before = View.open(server, collection, ["brew"]).frequencies
    write = MilvusServer.upsert

    def all_but_the_head(self, name, rows, **options):
        if any(row["id"] == "head" for row in rows):
            raise CutOffError
        write(self, name, rows, **options)

    with monkeypatch.context() as patch:
        patch.setattr(MilvusServer, "upsert", all_but_the_head)
        with pytest.raises(CutOffError):
            build()
    assert View.open(server, collection, ["brew"]).frequencies == before
    build()
    metadata, _ = View.open(server, collection, ["brew"]).frequencies[term_hash("brew")]
    assert metadata == before[term_hash("brew")][0] + 1


def test_two_writers_do_not_meet(build, server, collection, root, make_skill):
    """The second is told who is there, and how long that can last at most."""
    build()
    make_skill(root, "iron-shirts", "Iron shirts.")
    generation = find_current(server, collection).generation
    with (
        Claim(server, generation),
        pytest.raises(LockTimeoutError, match=r"Another process is writing.*ends in 1[12]\d s"),
    ):
        build()
    _, report = build()
    assert report.indexed == 6


def test_the_claim_of_a_writer_that_was_killed_runs_out(
    build, server, collection, root, make_skill, monkeypatch
):
    """It is removed by the next writer."""
    build()
    generation = find_current(server, collection).generation
    Claim(server, generation).__enter__()
    later = time.time() + claims.EXPIRES_S + 1
    monkeypatch.setattr(claims.time, "time", lambda: later)
    make_skill(root, "iron-shirts", "Iron shirts.")
    assert build()[1].indexed == 6
    assert server.query(generation.terms, "kind == 2", ["version"], 10) == []


def test_a_writer_whose_claim_was_taken_stops(build, server, collection):
    """Before it makes anything visible."""
    build()
    generation = find_current(server, collection).generation
    with Claim(server, generation) as claim:
        server.delete(generation.terms, [claim._id])
        with pytest.raises(LockTimeoutError, match="run the command again"):
            claim.check()


def test_what_is_shadowed_follows_the_roots_and_their_skills(build, root, tmp_path, make_skill):
    """Copies count for nothing, come into view and go out of it, as in a local index."""
    copies = tmp_path / "a-copies"
    for name in ("Steep Tea", "brew_coffee"):
        make_skill(copies, name, "Steep green tea. Brew filter coffee.", "# Tea\n\nTea, tea.\n")

    def compare(*roots):
        """Compare the answers of both indexes, and return what is found."""
        remote, _ = build(*roots)
        local = SkillIndex.from_roots(roots, index_dir=tmp_path / "local", model="hashing")
        found = []
        for query in ("steep green tea", "brew filter coffee", "bread"):
            hits = [(one.doc_id, one.score) for one in remote.search(query, 9, 0.0)]
            assert hits == [
                (one.doc_id, pytest.approx(one.score, abs=1e-5))
                for one in local.search(query, 9, 0.0)
            ]
            found.append(hits)
        assert len(remote) == len(local)
        return found

    alone = compare(root)
    assert compare(root, copies) == [
        [(one, pytest.approx(score, abs=1e-6)) for one, score in hits] for hits in alone
    ]
    assert compare(copies, root)[0][0][0] == "a-copies:Steep Tea"
    (root / "steep-tea" / "SKILL.md").unlink()
    assert compare(root, copies)[0][0][0] == "a-copies:Steep Tea"
