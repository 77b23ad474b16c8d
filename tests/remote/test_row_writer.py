"""Tests of what readers see of an index in Milvus while it is written, and after a cut-off run."""

import threading
from itertools import count

import pytest

from skillsearch.embedders.embedder import load_embedder
from skillsearch.errors import IndexNotFoundError
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.remote.client import MilvusServer
from skillsearch.remote.indexing import Indexing
from skillsearch.remote.remote_index import RemoteIndex
from skillsearch.remote.row_writer import BATCH_SKILLS
from skillsearch.remote.rows import CLAIM, HEAD
from skillsearch.remote.view import RemoteView
from skillsearch.text.tokenizer import term_hash

pytestmark = pytest.mark.milvus
QUERIES = ("brew coffee", "bake sourdough bread", "carve spoons", "steep tea", "80 degrees")


class CutOffError(Exception):
    """Stands for a kill."""


class FlakyServer(MilvusServer):
    """Refuses to write, as a process that was killed does, if `refuses` says so of a call."""

    refuses = staticmethod(lambda name, rows: False)

    def insert(self, name, rows):
        self.attempt("insert", rows)
        super().insert(name, rows)

    def upsert(self, name, rows, *, partial=False):
        self.attempt("upsert", rows)
        super().upsert(name, rows, partial=partial)

    def delete(self, name, ids):
        self.attempt("delete", ids)
        super().delete(name, ids)

    def point(self, alias, collection, *, is_new):
        self.attempt("point", [])
        super().point(alias, collection, is_new=is_new)

    def attempt(self, name, rows):
        if self.refuses(name, rows):
            raise CutOffError


@pytest.fixture
def flaky(milvus):
    """Connect with a server that can be told to refuse."""
    connection = FlakyServer(milvus)
    yield connection
    connection.close()


@pytest.fixture
def interrupted(flaky, collection, root):
    """Index `root` with a server that refuses some calls; return whether the run completed."""

    def run(refuses, **options):
        flaky.refuses = refuses
        request = IndexRequest((root,), "hashing", True)
        try:
            Indexing(flaky, collection, request, load_embedder, **options).run()
        except (CutOffError, KeyboardInterrupt):
            return False
        finally:
            flaky.refuses = FlakyServer.refuses
            expire_claims(flaky, collection)
        return True

    return run


def expire_claims(server, collection):
    """Remove the claims of killed writers, which would otherwise have to run out."""
    for name in server.collections():
        if name.startswith(f"{collection}_g") and name.endswith("_terms"):
            rows = server.query(name, f"kind == {CLAIM}", ["version"], 10)
            server.delete(name, [row["id"] for row in rows])


def from_call(number):
    """Refuse every writing call from the n-th on."""
    calls = count()
    return lambda name, rows: next(calls) >= number


def is_head(name, rows):
    return name == "upsert" and any(row["id"] == HEAD for row in rows)


def rounded(result):
    return [(hit.doc_id, round(hit.score, 9)) for hit in result]


def answers(index):
    return [rounded(index.search(query, threshold=0.0)) for query in QUERIES]


def change(root, make_skill):
    make_skill(root, "steep-tea", "Steep black tea.", "# Water\n\nUse boiling water.\n")
    (root / "bake-bread" / "SKILL.md").unlink()
    make_skill(root, "carve-spoons", "Carve spoons from green wood.", "# Knife\n\nBe careful.\n")


def test_statistics_stay_exact_through_updates(
    check_statistics, build, server, collection, root, make_skill
):
    build()
    check_statistics(server, collection)
    change(root, make_skill)
    index, _ = build()
    check_statistics(server, collection)
    index.delete(["kitchen:carve-spoons"])
    check_statistics(server, collection)
    build()
    check_statistics(server, collection)


def test_readers_see_the_version_before_until_the_next_is_complete(
    build, root, make_skill, interrupted
):
    index, _ = build()
    before = answers(index)
    change(root, make_skill)

    assert not interrupted(is_head)
    assert answers(index) == before
    build()
    assert answers(index) != before


def test_an_interrupted_first_indexing_shows_nothing_and_is_resumed(
    build, milvus, collection, interrupted, root, make_skill
):
    def stop(stage, done, total):
        if done == total:
            raise KeyboardInterrupt

    for number in range(BATCH_SKILLS - 4):
        make_skill(root, f"sort-{number}", f"Sort parcel {number}.")
    refuse_nothing = FlakyServer.refuses
    assert not interrupted(refuse_nothing, progress=stop)
    with pytest.raises(IndexNotFoundError), RemoteIndex.open(milvus, collection=collection):
        pass
    index, report = build()
    assert (report.indexed, report.reused, report.embedded) == (BATCH_SKILLS + 1, BATCH_SKILLS, 1)
    assert index.search("steep green tea")[0].name == "steep-tea"


@pytest.mark.slow
def test_a_run_cut_off_anywhere_leaves_the_old_or_the_new_and_the_next_completes_it(
    check_statistics, build, server, collection, root, make_skill, interrupted
):
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
        done = interrupted(from_call(number))
        after = answers(index)
        assert after in (old, new)
        seen.append(after == new)
        check_statistics(server, collection)
        if number % 2:
            build()
            assert answers(index) == new
            check_statistics(server, collection)
        number += 1
    assert seen == sorted(seen)
    assert number > 8


def restore(root, sources):
    for path in root.rglob("SKILL.md"):
        if path not in sources:
            path.unlink()
    for path, data in sources.items():
        path.write_bytes(data)


@pytest.mark.slow
def test_searches_during_updates_see_one_version(build, milvus, collection, root, make_skill):
    index, _ = build()
    texts = {number: f"# Water\n\nUse water of {number} degrees.\n" for number in range(5)}
    valid, wrong, rounds = [answers(index)], [], [0]
    stop = threading.Event()

    def ask():
        with RemoteIndex.open(milvus, collection=collection) as reader:
            while not stop.is_set():
                results = [reader.search(query, threshold=0.0) for query in QUERIES[:2]]
                wrong.append([rounded(result) for result in results])
                rounds[0] += 1

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
    allowed = [[rankings[query] for rankings in valid] for query in (0, 1)]
    assert rounds[0] > 5
    for results in wrong:
        assert results[0] in allowed[0]
        assert results[1] in allowed[1]


def test_a_reader_knows_when_its_version_may_have_been_removed(
    build, server, collection, root, make_skill
):
    """One version later all of it is there still, two later it is not."""
    build()
    view = RemoteView.open(server, collection)
    assert view.still_holds()
    for number, holds in ((1, True), (2, False)):
        make_skill(root, "steep-tea", f"Steep tea number {number}.")
        build()
        assert view.still_holds() is holds


def test_a_reader_finds_the_frequencies_of_its_version_while_the_next_is_written(
    build, server, collection, root, make_skill, interrupted
):
    """A term has a row for both."""
    build()
    make_skill(root, "iron-shirts", "Brew steam.")
    before = RemoteView.open(server, collection, ["brew"]).frequencies
    assert not interrupted(is_head)
    assert RemoteView.open(server, collection, ["brew"]).frequencies == before
    build()
    metadata, _ = RemoteView.open(server, collection, ["brew"]).frequencies[term_hash("brew")]
    assert metadata == before[term_hash("brew")][0] + 1


def test_what_is_shadowed_follows_the_roots_and_their_skills(build, root, tmp_path, make_skill):
    copies = tmp_path / "a-copies"
    for name in ("Steep Tea", "brew_coffee"):
        make_skill(copies, name, "Steep green tea. Brew filter coffee.", "# Tea\n\nTea, tea.\n")

    def compare(*roots):
        remote, _ = build(*roots)
        local = SkillIndex.from_roots(roots, index_dir=tmp_path / "local", model="hashing")
        rankings = []
        for query in ("steep green tea", "brew filter coffee", "bread"):
            hits = [(hit.doc_id, hit.score) for hit in remote.search(query, 9, 0.0)]
            assert hits == [
                (hit.doc_id, pytest.approx(hit.score, abs=1e-5))
                for hit in local.search(query, 9, 0.0)
            ]
            rankings.append(hits)
        assert len(remote) == len(local)
        return rankings

    alone = compare(root)
    assert compare(root, copies) == [
        [(hit, pytest.approx(score, abs=1e-6)) for hit, score in hits] for hits in alone
    ]
    assert compare(copies, root)[0][0][0] == "a-copies:Steep Tea"
    (root / "steep-tea" / "SKILL.md").unlink()
    assert compare(root, copies)[0][0][0] == "a-copies:Steep Tea"
