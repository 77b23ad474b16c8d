"""Tests of an index in Milvus with a second dense channel, for other languages than English."""

import pytest

from skillsearch.embedders.embedder import load_embedder
from skillsearch.index.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.remote.client import MilvusServer
from skillsearch.remote.indexing import Indexing
from skillsearch.remote.remote_index import RemoteIndex

pytestmark = pytest.mark.milvus


@pytest.fixture
def make(milvus, collection, mixed, two_models):
    """Index the mixed skills for some languages."""
    server, opened = MilvusServer(milvus), []

    def run(languages="auto"):
        request = IndexRequest((mixed,), "hashing", True, languages=languages)
        Indexing(server, collection, request, load_embedder).run()
        opened.append(RemoteIndex.open(milvus, collection=collection))
        return opened[-1]

    yield run
    for connection in (server, *opened):
        connection.close()


def models(index):
    """Return what the channels of an index are loaded by."""
    return [channel.model for channel in index.settings.channels]


def test_a_second_channel_is_added_where_the_skills_need_it(make):
    """A share of them is enough, as in a local index; and only where it is wanted."""
    assert models(make()) == ["hashing", "multilingual"]
    assert models(make("english")) == ["hashing"]


def test_a_channel_that_is_there_is_kept(make, mixed):
    make()
    for path in mixed.rglob("SKILL.md"):
        if not path.parent.name.isascii():
            path.unlink()
    assert models(make()) == ["hashing", "multilingual"]


def test_the_channels_vote_as_in_a_local_index(make, mixed, index_dir):
    remote = make("all")
    local = SkillIndex.from_roots(mixed, index_dir=index_dir, model="hashing", languages="all")
    for query in ("회의 요점 정리", "把表格做成图表", "brew filter coffee"):
        options = {"explain": True, "threshold": 0.0}
        ours, theirs = (index.search(query, **options) for index in (remote, local))
        assert ours.channels == theirs.channels
        assert [hit.doc_id for hit in ours] == [hit.doc_id for hit in theirs]
        scores = [hit.score for hit in theirs]
        assert [hit.score for hit in ours] == pytest.approx(scores, abs=1e-6)
