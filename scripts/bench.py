"""Benchmark skillsearch: building, disk, cold and warm queries, updates; rivals in the same run.

Usage: python scripts/bench.py [--skills DIR] [--sizes 1000,10000,100000] [--work DIR]
                               [--results FILE]

Corpora of any size are made of the skills of a folder, by default those of the written collection:
each takes parts of three, and some words are exchanged for others of the corpus, rare ones made up.
Their vectors are made of the originals' vectors with noise, so that 100,000 skills need no hours of
embedding. They differ as real skills do; how many families of near-copies they form is reported.
From 300,000 skills on they have no bodies and are indexed with ``--fields metadata``: a million
whole ones would be 8 GB of files. Everything else is what a user runs: SKILL.md files on disk, the
index, the command line.

Results are written after each size and join those in the file, so that sizes can be measured one by
one; `benchmark.report` makes the tables of the READMEs of them. CPU seconds are of whole
processes or of the calling thread; medians unless named p95 or p99.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from time import process_time
from unittest.mock import patch

import numpy as np
from benchmark.corpus import Text, write_file
from benchmark.measures import (
    disk_bytes,
    machine,
    median_of,
    repeat_command,
    run_command,
    save_report,
    time_calls,
)
from benchmark.report import print_report
from benchmark.rivals import compare
from benchmark.rows import (
    Bm25,
    Calls,
    Cost,
    Evaluation,
    ExampleCost,
    ExampleCosts,
    Loading,
    Recall,
    Report,
    SizeRow,
    Throughput,
    WarmQuery,
)
from benchmark.search import break_down, recall
from benchmark.vectors import make_corpus, noisy
from compare import WRITTEN

import skillsearch
from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import embed
from skillsearch.evaluation.collection import load_collection
from skillsearch.index.documents.document import field_texts
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.candidates import find_candidates
from skillsearch.index.search.evidence import find_evidence
from skillsearch.index.search.query import QueryForm, weigh_terms
from skillsearch.index.search.ranker import judge, rank
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.example_requests import ExampleBook, digest_of_skill
from skillsearch.skills.parser import parse_skill
from skillsearch.text.tokenizer import terms

READER = {"off": "off", "on": "auto"}
"""The settings of the reader that are measured."""
QUERIES = (
    "my pod keeps restarting and I do not know why",
    "turn this table of sales into a chart for the report",
    "find the commit that broke the build",
    "fill in the tax form and save it as a PDF",
    "which index would make this slow query fast",
    "write release notes from the merged pull requests",
    "remove a password from the git history",
    "check our page with a screen reader",
    "group similar lines of this huge log",
    "the API answers 429 too many requests",
)
OTHER_QUERIES = (
    "내 파드가 왜 계속 다시 시작하는지 모르겠어",
    "把这份销售表格做成报告里的图表",
    "ビルドを壊したコミットを見つけたい",
    "rellenar el formulario de impuestos y guardarlo como PDF",
    "какой индекс ускорит этот медленный запрос",
    "rédiger les notes de version à partir des demandes fusionnées",
    "احذف كلمة المرور من تاريخ المستودع",
    "ตรวจสอบหน้าเว็บของเราด้วยโปรแกรมอ่านหน้าจอ",
    "ähnliche Zeilen dieser riesigen Protokolldatei zusammenfassen",
    "API बहुत ज़्यादा अनुरोध की त्रुटि देता है",
)
LOADED_SKILLS = 100
HEAD_CHARS = 4096
"""Characters of a body that tell its language."""
EMBEDDED = 0.05
"""Most texts a skill that may have to be embedded: of skills with chunks, or not in English."""
METADATA_FROM = 300_000
"""Corpora of so many skills have no bodies."""
SEARCH_ROUNDS = 10
JUDGED = 10
"""Hits that a search for five judges."""
RECALL_QUERIES = 50
UPDATES = 3
INDEX = "index {root} --index-dir {index} --fields {fields} --json"
UPDATE = {"all": INDEX, "only": "index --index-dir {index} --only={path} --json"}
"""Commands that index a changed skill: by looking at all, and at it alone."""


def read_skills(folder: Path | None, limit: int) -> list[Text]:
    """Read the texts of up to a number of skills below a folder, or of the written collection."""
    if folder is None:
        documents = load_collection(WRITTEN).documents[:limit]
        return [Text(skill.name, skill.description, skill.body) for skill in documents]
    roots, _ = make_roots([folder])
    texts = []
    for file in discover(roots).files[:limit]:
        try:
            data = file.path.read_bytes()
            skill, _ = parse_skill(data, doc_id=file.doc_id, path=file.path, root=file.root.path)
        except (skillsearch.SkillSearchError, OSError):
            continue
        texts.append(Text(skill.name, skill.description, skill.body))
    return texts


def indexing(root: Path, index_dir: str) -> list[str]:
    """Return the command that indexes a root with the packaged model."""
    return ["index", str(root), "--index-dir", index_dir, "--json"]


def bench_search(index: SkillIndex) -> WarmQuery:
    """Time warm searches, with and without embedding the query."""
    corpus = index.opened.corpus
    embedder = load_embedder("onnx")
    vectors = dict(zip(QUERIES, embed(embedder, QUERIES), strict=True))

    def with_reader(reader: str) -> Calls:
        return time_calls(partial(index.search, reader=reader), QUERIES, SEARCH_ROUNDS)

    def without_embedding(query: str) -> None:
        counts = Counter(terms(query))
        form = QueryForm(query, "en", counts, vectors[query], weigh_terms(corpus, counts))
        (candidates,) = find_candidates(corpus, [form], 5)
        ranked = rank(corpus, candidates, "hybrid", default_calibration())
        rows = ranked.best[:JUDGED].tolist()
        judge(find_evidence(corpus, form, ranked, rows), rows, default_calibration())

    return {
        "reader": {"off": with_reader(READER["off"]), "on": with_reader(READER["on"])},
        "without_embedding": time_calls(without_embedding, QUERIES, SEARCH_ROUNDS),
        "steps_ms": break_down(index, QUERIES, SEARCH_ROUNDS),
    }


def bench_recall(index: SkillIndex, originals: Sequence[Text]) -> Recall:
    """Compare dense retrieval with an exact scan, by our queries and by noisy descriptions."""
    embedder = load_embedder("onnx")
    descriptions = [text.description for text in originals[:RECALL_QUERIES]]
    vectors = noisy(embed(embedder, descriptions), np.random.default_rng(1))
    return {
        "queries": recall(index, embed(embedder, QUERIES)),
        "noisy_descriptions": recall(index, vectors),
    }


def bench_loading(index: SkillIndex) -> Loading:
    """Time loading bodies by name: more skills than the library keeps parsed, so each is parsed."""
    library = SkillLibrary.of_index(index)
    step = max(1, len(index) // LOADED_SKILLS)
    names = [document.doc_id for document in index.documents()][::step][:LOADED_SKILLS]
    return {
        "body": time_calls(library.get, names),
        "body_and_files": time_calls(library.load, names),
        "again": time_calls(library.get, names[:1]),
    }


def bench_bm25(index: SkillIndex, root: Path) -> Bm25:
    """Compare our matrix over the metadata texts with rank-bm25 and bm25s."""
    corpus = index.opened.corpus
    with_body = len(corpus.lexical) > 1
    texts, numbers = [], np.sort(corpus.documents.counted)
    for document in map(corpus.documents.__getitem__, numbers.tolist()):
        path = Path(document.path)
        skill, _ = parse_skill(path.read_bytes(), doc_id=document.doc_id, path=path, root=root)
        # The head of a body tells its language, by which the metadata is stemmed.
        head = replace(skill, body=skill.body[:HEAD_CHARS])
        texts.append(list(field_texts(head, with_body=with_body).metadata_terms))
    return compare(texts, corpus.lexical[0], numbers, QUERIES)


def bench_update(template: str, index: SkillIndex, root: Path, fields: str) -> Cost:
    """Change one skill a few times and have it indexed; in the end it is as it was."""
    middle = len(index) // 2
    document = next(islice(index.documents(), middle, None))
    path = Path(document.path)
    before, age = path.read_bytes(), path.stat().st_mtime_ns
    names = {"root": root, "index": index.folder, "path": path, "fields": fields}
    command = [word.format(**names) for word in template.split()]
    runs = []
    for number in range(UPDATES):
        about = json.dumps(f"{document.description} Changed the {number}th time.")
        head, _, body = before.decode("utf-8", "replace").partition("\n---\n")
        name = head.split("\n")[1]
        text = f"---\n{name}\ndescription: {about}\n---\n{body}"
        write_file(str(path), text.encode("utf-8", "replace"))
        runs.append(run_command(*command))
    changed = SkillIndex.open(index.folder).find(document.doc_id)
    if changed.description == document.description:
        raise SystemExit(f"{' '.join(command)} did not index the changed {path}")
    write_file(str(path), before, age)
    run_command(*command)
    return median_of(runs)


def bench_hook(index_dir: str, work: Path) -> Cost:
    """Measure the prompt hook as a whole process, with a daemon that has answered before."""
    event = json.dumps({"hook_event_name": "UserPromptSubmit", "prompt": QUERIES[0]})
    command = ("hook", "--client", "text", "--index-dir", index_dir)
    with (
        tempfile.TemporaryDirectory(prefix="ss") as runtime,  # a socket needs a short path
        patch.dict(os.environ, XDG_RUNTIME_DIR=runtime, XDG_CACHE_HOME=str(work / "cache")),
    ):
        run_command("daemon", "start")
        try:
            run_command(*command, stdin=event)
            return repeat_command(*command, stdin=event)
        finally:
            run_command("daemon", "stop")


def bench_size(originals: Sequence[Text], size: int, work: Path) -> SizeRow:
    """Measure everything at one corpus size."""
    with_body = size < METADATA_FROM
    fields = "full" if with_body else "metadata"
    root, folder = make_corpus(originals, size, work, with_body=with_body)
    index_dir = str(folder)
    command = [*indexing(root, index_dir), "--fields", fields]
    output = work / "report.json"
    first = run_command(*command, output=str(output))
    report = json.loads(output.read_bytes())
    output.unlink()
    if report["indexed"] != size:
        raise SystemExit(f"Of {size:,} skills {report['indexed']:,} were indexed.")
    if report["embedded"] > EMBEDDED * size:
        raise SystemExit(f"{report['embedded']:,} texts had no vector in the cache.")
    index = SkillIndex.open(index_dir)
    query = (QUERIES[0], "--index-dir", index_dir, "--json")
    return {
        "skills": len(index),
        "fields": fields,
        "families": len(index.families()),
        "index_without_embedding": {**first, "embedded": report["embedded"]},
        "disk_bytes": disk_bytes(folder),
        "no_op_index": repeat_command(*command),
        "cold_query": {
            "off": repeat_command("query", *query, "--reader", READER["off"]),
            "on": repeat_command("query", *query, "--reader", READER["on"]),
        },
        "hook": bench_hook(index_dir, work),
        "warm_query": bench_search(index),
        "recall_at_10": bench_recall(index, originals),
        "loading": bench_loading(index),
        "bm25": bench_bm25(index, root),
        "update": {
            "all": bench_update(UPDATE["all"], index, root, fields),
            "only": bench_update(UPDATE["only"], index, root, fields),
        },
    }


def bench_throughput(originals: Sequence[Text], work: Path) -> Throughput:
    """Measure how many skills are indexed in a second, embedding included.

    And how fast queries in English and in other languages are answered.
    """
    root = work / "throughput"
    count = min(len(originals), 300)
    for number, skill in enumerate(originals[:count]):
        folder = root / f"{number:04}"
        folder.mkdir(parents=True, exist_ok=True)
        head = f"---\nname: s{number}\ndescription: {json.dumps(skill.description)}\n---\n"
        (folder / "SKILL.md").write_text(f"{head}\n{skill.body}\n", encoding="utf-8")
    with tempfile.TemporaryDirectory(dir=work) as scratch:
        index_dir = f"{scratch}/index"
        # The user's cache would have the vectors of the run before.
        with patch.dict(os.environ, XDG_CACHE_HOME=f"{scratch}/cache"):
            run = run_command(*indexing(root, index_dir))
        index = SkillIndex.open(index_dir)
        return {
            "date": machine()["date"],
            "skills": count,
            **run,
            "skills_per_s": count / run["wall_s"],
            "english_queries": time_calls(index.search, QUERIES),
            "other_queries": time_calls(index.search, OTHER_QUERIES),
        }


def bench_examples(originals: Sequence[Text], work: Path) -> ExampleCosts:
    """Measure what example requests cost: the same skills, all with four each, and without any.

    Both indexes are asked in turn, without a reader; a first round warms them.
    """
    root = work / "examples" / "skills"
    for number, skill in enumerate(originals):
        folder = root / f"{number:04}"
        folder.mkdir(parents=True, exist_ok=True)
        fields = (f"{key}: {json.dumps(getattr(skill, key))}\n" for key in ("name", "description"))
        text = f"---\n{''.join(fields)}---\n\n{skill.body}\n"
        (folder / "SKILL.md").write_text(text, encoding="utf-8")
    requests = [f"{text} ({skill.name})" for skill in originals for text in QUERIES[:4]]
    given = {
        digest_of_skill(skill.name, skill.description): tuple(requests[4 * row : 4 * row + 4])
        for row, skill in enumerate(originals)
    }
    indexes, measures = {}, dict[str, ExampleCost]()
    for name, examples in (("without", {}), ("with", given)):
        folder = work / "examples" / name
        book = ExampleBook(None, packaged=False, own=False, extra=examples)
        request = IndexRequest((root,), "onnx", with_body=True)
        index, report = SkillIndex.build(request, folder, IndexOptions(examples=book))
        indexes[name] = partial(index.search, reader="off")
        disk = sum(disk_bytes(folder).values())
        measures[name] = {
            "skills": len(index),
            "embedded": report.embedded,
            "disk_bytes": disk,
            "warm_cpu_ms": 0.0,
        }
    spent: dict[str, list[float]] = {name: [] for name in indexes}
    for query in QUERIES * (1 + SEARCH_ROUNDS):
        for name, search in indexes.items():
            started = process_time()
            search(query)
            spent[name].append(1000 * (process_time() - started))
    for name, times in spent.items():
        measures[name]["warm_cpu_ms"] = float(np.median(times[len(QUERIES) :]))
    return {"without": measures["without"], "with": measures["with"]}


def bench_evaluation(collection: Path, work: Path) -> Evaluation:
    """Measure a comparison of two systems on a judged collection whose index is there already."""
    command = ["eval", str(collection), "--system", "hybrid", "--system", "bm25", "--json"]
    command += ["--work", str(work / "evaluation")]
    run_command(*command)
    lines = (collection / "queries.jsonl").read_bytes().splitlines()
    queries = sum(bool(line.strip()) for line in lines)
    return {"collection": collection.name, "queries": queries, **run_command(*command)}


def joined(report: Report, sizes: Sequence[SizeRow]) -> Report:
    """Return a report with the sizes measured before; of one size the later figures stay."""
    by_size = {row["skills"]: row for row in [*sizes, *report["sizes"]]}
    return {**report, "sizes": [by_size[size] for size in sorted(by_size)]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--skills", type=Path, help="folder of real skills")
    parser.add_argument("--originals", type=int, default=1000, help="read at most so many of them")
    parser.add_argument("--sizes", default="1000,10000", help="corpus sizes, comma-separated")
    parser.add_argument("--eval", type=Path, nargs="*", default=[], help="judged collections")
    parser.add_argument("--work", type=Path, help="keep the corpora here for the next run")
    parser.add_argument("--results", type=Path, help="file that takes the figures, or joins them")
    args = parser.parse_args(arguments)
    originals = read_skills(args.skills, args.originals)
    if not originals:
        parser.error(f"no skills lie below {args.skills}")
    before: Sequence[SizeRow] = ()
    if args.results and args.results.exists():
        before = json.loads(args.results.read_bytes())["sizes"]
    with tempfile.TemporaryDirectory() as temporary:
        work = (args.work or Path(temporary)).absolute()
        report: Report = {
            "machine": machine(),
            "originals": len(originals),
            "throughput": bench_throughput(originals, work),
            "examples": bench_examples(originals, work),
            "evaluation": [bench_evaluation(folder.absolute(), work) for folder in args.eval],
            "sizes": [],
        }
        for size in map(int, args.sizes.split(",")):
            report["sizes"].append(bench_size(originals, size, work))
            if args.results:
                save_report(joined(report, before), args.results)
    print_report(joined(report, before))


if __name__ == "__main__":
    main()
