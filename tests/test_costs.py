"""What a query costs, in counts: a busy machine blurs times, and no count.

Each bound is what was counted when it was written, and a tenth more. Whoever needs more says why.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import skillsearch
from skillsearch import SkillIndex
from skillsearch.index.lexical.postings import LexicalSegment
from skillsearch.readers.mapped_reader import MappedReader

REQUESTS = (
    "My pod restarts every few minutes and the logs are empty",
    "fill in the form in application.pdf with the data of our customer",
    "which commit broke the login? It worked last week",
    "make a chart of these sales figures",
    "write the release notes",
    "Our queries became slow after we added a column; find out why",
    "translate this contract",
    "something about a meeting next week",
)
COLD_QUERY = """
import dataclasses, hashlib, json, os, re, sys

counts = dict.fromkeys(["expressions", "dataclasses", "stats", "hashed_bytes"], 0)

def count(module, name, key):
    function = getattr(module, name)
    def counted(*args, **options):
        counts[key] += 1
        return function(*args, **options)
    setattr(module, name, counted)

before = len(sys.modules)
count(re._compiler, "compile", "expressions")
count(dataclasses, "_process_class", "dataclasses")

def count_stats(name):
    function = getattr(os, name)
    def counted(path, *args, **options):
        counts["stats"] += str(path).startswith(root)
        return function(path, *args, **options)
    setattr(os, name, counted)

count_stats("stat")
count_stats("lstat")
root = sys.argv.pop(1)

def sha256(data=b"", **options):
    hashed = hashes(data, **options)
    counts["hashed_bytes"] += len(data)
    class Hash:
        def update(self, data):
            counts["hashed_bytes"] += len(data)
            hashed.update(data)
        def __getattr__(self, name):
            return getattr(hashed, name)
    return Hash()

hashes, hashlib.sha256 = hashlib.sha256, sha256
from skillsearch.cli import main
try:
    main()
finally:
    counts["modules"] = len(sys.modules) - before
    print(json.dumps(counts), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples") / "index"
    examples = Path(skillsearch.__file__).parent / "examples"
    return SkillIndex.from_roots(examples, index_dir=folder)


def test_a_cold_query_that_is_read_does_little_but_load(index, home):
    """Its models were hashed when they were first loaded; it compiles what it needs."""
    folder = Path(skillsearch.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(folder), "SKILLSEARCH_DAEMON": "off"}
    query = ["query", "something about a meeting next week", "--json", "--reader", "always"]
    examples = str(index.opened.settings.roots[0].path)
    options = ["--index-dir", str(index.folder)]
    program = [sys.executable, "-c", COLD_QUERY, examples, *query, *options]
    for _ in range(2):
        run = subprocess.run(program, capture_output=True, text=True, env=environment, check=True)
    assert json.loads(run.stdout)
    counts = json.loads(run.stderr.splitlines()[-1])
    most = {"modules": 370, "expressions": 77, "dataclasses": 125, "stats": 86}
    most["hashed_bytes"] = 12_000
    assert {name: count for name, count in counts.items() if count > most[name]} == {}


def test_a_query_looks_few_terms_up_among_postings(index, monkeypatch):
    """Most are scored by reading postings; only what few documents need is looked up."""
    calls, find = [], LexicalSegment.find

    def counted(segment, row, documents):
        calls.append(row)
        return find(segment, row, documents)

    monkeypatch.setattr(LexicalSegment, "find", counted)
    for request in REQUESTS:
        index.search(request, reader="off")
    assert len(calls) <= 40 * len(REQUESTS)


def test_few_passages_are_read_and_none_where_the_answer_is_clear(index, monkeypatch):
    texts, read = [], MappedReader.read

    def counted(reader, request, passages):
        texts.extend(passages)
        return read(reader, request, passages)

    monkeypatch.setattr(MappedReader, "read", counted)
    for request in REQUESTS:
        index.search(request, reader="auto")
    assert 0 < len(texts) <= 1.5 * len(REQUESTS)
