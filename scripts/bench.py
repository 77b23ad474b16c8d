"""Benchmark skillsearch: cold and warm queries, rank-bm25 in the same run, loading, indexing.

Usage: python scripts/bench.py [--skills DIR] [--sizes 1000,10000] [--work DIR] [--json]

Corpora of any size are made from the skills of a folder (the examples of the package by default):
words of each copy are exchanged for others of the corpus, rare ones are made up, and the vectors of
the copies are those of the originals with noise, so that 100,000 skills need no hours of embedding.
Everything else is what a user runs: SKILL.md files on disk, the index, the command line.

CPU seconds are of whole processes or of the calling thread; medians unless named p95.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rank_bm25 import BM25Okapi

import skillsearch
from skillsearch.index.embedder import load_embedder, multilingual_is_installed
from skillsearch.index.embedding import embed
from skillsearch.index.embedding_cache import EmbeddingCache
from skillsearch.index.fields import field_texts
from skillsearch.index.fitted import default_calibration
from skillsearch.index.query_form import QueryForm, QueryView
from skillsearch.index.ranker import best_first, find_candidates, score
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.tokenizer import terms
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.parser import parse_skill
from skillsearch.types import Skill

EXAMPLES = Path(skillsearch.__file__).parent / "examples"
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
EXCHANGED_WORDS = 0.2
NOISE = 0.35
"""Length of the noise added to a unit vector: copies are near, but no duplicates (cosine ~ .94)."""
COLD_RUNS = 5
WARM_ROUNDS = 5
LOADED_SKILLS = 100
SLOW_REFERENCE = 2.0
"""Stop timing rank-bm25 after this many seconds a size; it needs no more for a median."""

Record = dict[str, Any]


def read_skills(folder: Path, limit: int) -> list[Skill]:
    """Read up to a number of skills below a folder."""
    roots, _ = make_roots([folder])
    skills = []
    for file in discover(roots).files[:limit]:
        try:
            data = file.path.read_bytes()
            skills.append(
                parse_skill(data, doc_id=file.doc_id, path=file.path, root=file.root.path)[0]
            )
        except (skillsearch.SkillSearchError, OSError):
            continue
    return skills


def perturb(text: str, words: Sequence[str], rng: random.Random) -> str:
    """Exchange some words of a text, one in ten of them for a word that no other text has."""
    changed = []
    for word in text.split(" "):
        if rng.random() >= EXCHANGED_WORDS:
            changed.append(word)
        elif rng.random() < 0.1:
            changed.append(f"{rng.choice(words)}{rng.randrange(10**6)}")
        else:
            changed.append(rng.choice(words))
    return " ".join(changed)


def copies(originals: Sequence[Skill], size: int) -> Iterator[tuple[int, str, str]]:
    """Yield the original's number, the name and the SKILL.md of each copy."""
    rng = random.Random(0)
    words = [word for skill in originals for word in skill.body.split() if word.isalpha()]
    for number in range(size):
        source = number % len(originals)
        skill = originals[source]
        name = f"{skill.name[:40].strip()}-{number}"
        about = json.dumps(perturb(skill.description, words, rng), ensure_ascii=False)
        body = perturb(skill.body, words, rng)
        yield source, name, f"---\nname: {json.dumps(name)}\ndescription: {about}\n---\n\n{body}\n"


def make_corpus(originals: Sequence[Skill], size: int, work: Path) -> Path:
    """Write the copies as skill folders and put their vectors into the cache of the index."""
    root, index_dir = work / f"skills-{size}", work / f"index-{size}"
    index_dir.mkdir(parents=True, exist_ok=True)
    embedder = load_embedder("onnx")
    own = [field_texts(skill, [embedder.scripts]).embedded[0] for skill in originals]
    metadata = embed(embedder, [texts.metadata for texts in own]).vectors
    bodies = embed(embedder, [texts.body_head for texts in own]).vectors
    rng = np.random.default_rng(0)

    def noisy(vector: np.ndarray) -> np.ndarray:
        noise = rng.standard_normal(len(vector)).astype(np.float32)
        moved = vector + NOISE * noise / np.linalg.norm(noise)
        return np.asarray(moved / np.linalg.norm(moved), np.float32)

    with EmbeddingCache(index_dir, embedder.fingerprint, embedder.dimensions) as cache:
        for number, (source, name, text) in enumerate(copies(originals, size)):
            path = root / f"{number // 1000:03}" / name / "SKILL.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            skill, _ = parse_skill(text.encode(), doc_id=name, path=path, root=root)
            keys = field_texts(skill, [embedder.scripts]).document.keys[0]
            for key, vector in zip(keys, (metadata[source], bodies[source]), strict=True):
                if cache.get(bytes.fromhex(key)) is None:
                    cache.add(bytes.fromhex(key), noisy(vector))
    # Younger than two seconds, a file's time proves nothing; a user's skills are older.
    subprocess.run(["find", str(root), "-exec", "touch", "-d", "1 hour ago", "{}", "+"], check=True)
    return root


LAUNCHER = """
import json, os, sys, time
started = time.perf_counter()
pid = os.posix_spawn(sys.executable, [sys.executable, "-m", "skillsearch", *sys.argv[1:]],
    os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, status, usage = os.wait4(pid, 0)
wall = time.perf_counter() - started
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, wall,
    usage.ru_maxrss / 1024]))
"""
"""Starts a command from a small process: the kernel counts the size of whoever starts a program as
the program's own peak."""


def indexing(root: Path, index_dir: str, languages: str = "english") -> list[str]:
    """Return the command that indexes a root; by default with the packaged model alone."""
    return ["index", str(root), "--index-dir", index_dir, "--languages", languages, "--json"]


def run_command(*args: str) -> Record:
    """Run the command line in a process of its own; return its CPU seconds, wall time and RSS."""
    launched = subprocess.run(
        [sys.executable, "-S", "-E", "-c", LAUNCHER, *args],
        stdout=subprocess.PIPE,
        check=True,
    )
    code, cpu, wall, rss = json.loads(launched.stdout)
    if code:
        raise SystemExit(f"skillsearch {' '.join(args)} ended with {code}")
    return {"cpu_s": cpu, "wall_s": wall, "rss_mb": rss}


def repeat_command(*args: str) -> Record:
    """Run a command several times; return the median of each figure."""
    runs = [run_command(*args) for _ in range(COLD_RUNS)]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def time_calls(call: Callable[[str], object], texts: Sequence[str] = QUERIES) -> Record:
    """Time a call over all texts, warmed up; milliseconds of CPU and wall time."""
    for text in texts:
        call(text)
    cpu, wall = [], []
    for text in [*texts] * WARM_ROUNDS:
        cpu_before, wall_before = time.thread_time(), time.perf_counter()
        call(text)
        cpu.append(1000 * (time.thread_time() - cpu_before))
        wall.append(1000 * (time.perf_counter() - wall_before))
    return {
        "cpu_ms": statistics.median(cpu),
        "cpu_ms_p95": statistics.quantiles(cpu, n=20)[-1],
        "wall_ms": statistics.median(wall),
        "wall_ms_p90": statistics.quantiles(wall, n=10)[-1],
        "wall_ms_p95": statistics.quantiles(wall, n=20)[-1],
    }


def bench_search(index: SkillIndex) -> Record:
    """Time warm searches, with and without embedding the query."""
    corpus = index.opened.corpus
    embedder = load_embedder("onnx")
    vectors = dict(zip(QUERIES, embed(embedder, QUERIES).vectors, strict=True))

    def without_embedding(query: str) -> None:
        view = QueryView(vectors[query], 1.0)
        form = QueryForm(query, "en", Counter(terms(query)), (view,))
        candidates = find_candidates(corpus, form, 5)
        scores = score(corpus, form, candidates, "hybrid", default_calibration())
        best_first(scores, candidates.documents)

    return {
        "all": time_calls(lambda query: index.search(query)),
        "without_embedding": time_calls(without_embedding),
    }


def bench_loading(index: SkillIndex) -> Record:
    """Time loading bodies by name: more skills than the library keeps parsed, so each is parsed."""
    library = SkillLibrary.of_index(index)
    step = max(1, len(index) // LOADED_SKILLS)
    names = [document.doc_id for document in index.documents()][::step][:LOADED_SKILLS]
    return {
        "body": time_calls(library.get, names),
        "body_and_files": time_calls(library.load, names),
        "again": time_calls(library.get, names[:1]),
    }


def bench_bm25(index: SkillIndex, root: Path) -> Record:
    """Time rank-bm25 and our matrix over the same metadata texts, and compare their scores."""
    path_texts = []
    for document in index.documents():
        path = Path(document.path)
        skill, _ = parse_skill(path.read_bytes(), doc_id=document.doc_id, path=path, root=root)
        path_texts.append(field_texts(skill, [None]).metadata_terms)
    okapi = BM25Okapi(path_texts)
    ours = index.opened.corpus.lexical_metadata
    theirs_ms, difference = [], 0.0
    started = time.perf_counter()
    for query in QUERIES:
        before = time.thread_time()
        expected = okapi.get_scores(terms(query))
        theirs_ms.append(1000 * (time.thread_time() - before))
        found = ours.scores(Counter(terms(query)))
        difference = max(difference, float(np.abs(expected - found).max()))
        if time.perf_counter() - started > SLOW_REFERENCE and len(theirs_ms) >= 3:
            break
    own = time_calls(lambda query: ours.scores(Counter(terms(query))))
    return {
        "rank_bm25_cpu_ms": statistics.median(theirs_ms),
        "ours_cpu_ms": own["cpu_ms"],
        "ratio": statistics.median(theirs_ms) / own["cpu_ms"],
        "largest_difference": difference,
    }


def bench_size(originals: Sequence[Skill], size: int, work: Path) -> Record:
    """Measure everything at one corpus size."""
    root = make_corpus(originals, size, work)
    index_dir = str(work / f"index-{size}")
    shutil.rmtree(work / f"index-{size}" / "generations", ignore_errors=True)
    first = run_command(*indexing(root, index_dir))
    index = SkillIndex.open(index_dir)
    query = (QUERIES[0], "--index-dir", index_dir, "--json")
    return {
        "skills": len(index),
        "index_without_embedding": first,
        "no_op_index": repeat_command(*indexing(root, index_dir)),
        "cold_query": repeat_command("query", *query),
        "cold_query_no_refresh": repeat_command("query", *query, "--no-refresh"),
        "warm_query": bench_search(index),
        "loading": bench_loading(index),
        "bm25": bench_bm25(index, root),
    }


def bench_throughput(originals: Sequence[Skill], work: Path) -> Record:
    """Measure how many skills are indexed in a second, embedding included.

    Where the extra ``multilingual`` is installed, once more with both dense channels; and how fast
    queries in English and in other languages are answered by either index.
    """
    root = work / "throughput"
    count = min(len(originals), 300)
    for number, skill in enumerate(originals[:count]):
        folder = root / f"{number:04}"
        folder.mkdir(parents=True, exist_ok=True)
        head = f"---\nname: s{number}\ndescription: {json.dumps(skill.description)}\n---\n"
        (folder / "SKILL.md").write_text(f"{head}\n{skill.body}\n", encoding="utf-8")
    choices = ["english"]
    if multilingual_is_installed():
        load_embedder("multilingual")  # converts the weights, once for each user
        choices.append("all")
    found = {}
    for languages in choices:
        with tempfile.TemporaryDirectory(dir=work) as index_dir:
            run = run_command(*indexing(root, index_dir, languages))
            index = SkillIndex.open(index_dir)
            found[languages] = {
                **run,
                "skills_per_s": count / run["wall_s"],
                "english_queries": time_calls(index.search),
                "other_queries": time_calls(index.search, OTHER_QUERIES),
            }
    return {"skills": count, "languages": found}


def bench_evaluation(collection: Path, work: Path) -> Record:
    """Measure a comparison of two systems on a judged collection whose index is there already."""
    command = ["eval", str(collection), "--system", "hybrid", "--system", "bm25", "--json"]
    command += ["--work", str(work / "evaluation")]
    run_command(*command)
    queries = sum(bool(line.strip()) for line in (collection / "queries.jsonl").open("rb"))
    return {"collection": collection.name, "queries": queries, **run_command(*command)}


def print_report(report: Record) -> None:
    """Print the figures as tables, ratios first."""
    for row in report["evaluation"]:
        print(
            f"eval of two systems on {row['collection']}: {row['queries']} queries, "
            f"{row['wall_s']:.1f} s, {row['cpu_s']:.1f} CPU s, {row['rss_mb']:.0f} MB"
        )
    found = report["throughput"]["languages"]
    for languages, row in found.items():
        print(
            f"--languages {languages}: {row['skills_per_s']:.1f} skills/s with embedding, "
            f"{row['cpu_s']:.0f} CPU s ({row['cpu_s'] / found['english']['cpu_s']:.2f}x); queries "
            + "; ".join(
                f"{kind}: p50 {row[kind]['wall_ms']:.1f}, p90 {row[kind]['wall_ms_p90']:.1f} ms"
                for kind in ("english_queries", "other_queries")
            )
        )
    print()
    columns: dict[str, Callable[[Record], str]] = {
        "skills": lambda r: f"{r['skills']}",
        "rank-bm25 / ours": lambda r: f"{r['bm25']['ratio']:.0f}x",
        "score diff": lambda r: f"{r['bm25']['largest_difference']:.1e}",
        "cold CPU s": lambda r: f"{r['cold_query']['cpu_s']:.2f}",
        "cold RSS MB": lambda r: f"{r['cold_query']['rss_mb']:.0f}",
        "warm p50 ms": lambda r: f"{r['warm_query']['all']['wall_ms']:.1f}",
        "warm p95 ms": lambda r: f"{r['warm_query']['all']['wall_ms_p95']:.1f}",
        "search CPU ms": lambda r: f"{r['warm_query']['without_embedding']['cpu_ms']:.2f}",
        "load p50 ms": lambda r: f"{r['loading']['body']['wall_ms']:.2f}",
        "load p95 ms": lambda r: f"{r['loading']['body']['wall_ms_p95']:.2f}",
        "no-op CPU s": lambda r: f"{r['no_op_index']['cpu_s']:.2f}",
    }
    print(*(f"{name:>16}" for name in columns))
    for row in report["sizes"]:
        print(*(f"{cell(row):>16}" for cell in columns.values()))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skills", type=Path, default=EXAMPLES, help="folder of real skills")
    parser.add_argument("--originals", type=int, default=1000, help="read at most so many of them")
    parser.add_argument("--sizes", default="1000,10000", help="corpus sizes, comma-separated")
    parser.add_argument("--eval", type=Path, nargs="*", default=[], help="judged collections")
    parser.add_argument("--work", type=Path, help="keep the corpora here for the next run")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    originals = read_skills(args.skills, args.originals)
    with tempfile.TemporaryDirectory() as temporary:
        work = (args.work or Path(temporary)).absolute()
        report = {
            "throughput": bench_throughput(originals, work),
            "evaluation": [bench_evaluation(place.absolute(), work) for place in args.eval],
            "sizes": [bench_size(originals, int(size), work) for size in args.sizes.split(",")],
        }
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        print_report(report)


if __name__ == "__main__":
    main()
