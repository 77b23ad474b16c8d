"""How much is gained by skills that are written for the search? Attacks on judged collections.

Usage: python scripts/attack.py COLLECTION... [--background COLLECTION...] [--ordinary FILE]
       [--kinds KIND...] [--trust vetted fetched] [--attackers 150] [--queries 330]
       [--reader auto] [--json FILE] [--work DIR] [--seed 0]

The requests of the collections are asked: attackers know one half of a sample, with the skills that
are right for it, and the other half is measured. No model of the package may have learned from
them. All their skills, and those of the background, stand honestly in the first root; attackers
write skills into a later root whose ids sort first, indexed with each of the trusts given.

Kinds of attack are those of `attacks.texts`, ``adaptive`` of `attacks.adaptive`, and two controls:
``ordinary`` adds as many real skills instead, held out from the last collection of the background
or taken from a file of JSON lines; ``none`` adds nothing. What more an attack has of the first
fives than ordinary skills is its gain. The probes of `attacks.probes` measure single honest skills,
the kinds of `attacks.victims` what attackers in the victim's own root take from it: exits with 1 if
they make a victim lost.

Intervals are of 95 %, by bootstrap over requests.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from attacks.adaptive import adaptive
from attacks.ground import TRUSTS, UNSET, Ground, Outcome, Request, texts_of
from attacks.probes import PROBES, Effect
from attacks.tables import TABLES, AttackRow, ProbeRow, Report, VictimRow
from attacks.texts import KINDS, Known, Text
from attacks.victims import RIVALS, WRITERS, Toll, find_victims, tolls
from benchmark.measures import save_report

from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import embed
from skillsearch.errors import EvaluationError, SkillSearchError
from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.comparison import interval
from skillsearch.evaluation.pools import pool_collections
from skillsearch.evaluation.types import Collection, JudgedQuery

NONE, ORDINARY, ADAPTIVE, CLONES = "none", "ordinary", "adaptive", "clones"
ATTACKS = (NONE, ORDINARY, *KINDS, ADAPTIVE)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line, which say of themselves what they are."""

    collections: Sequence[Path]
    background: Sequence[Path]
    ordinary: Path | None
    kinds: Sequence[str]
    trust: Sequence[str]
    attackers: int
    queries: int
    reader: str
    json: Path | None
    work: Path | None
    seed: int


@dataclass(frozen=True, slots=True)
class Setting:
    """Honest and ordinary skills, and requests.

    Attributes:
        requests: All those of the collections.
        known: Those that attackers know.
        measured: As many others.
    """

    honest: Mapping[str, Text]
    ordinary: Sequence[Text]
    requests: Sequence[Request]
    known: Sequence[Request]
    measured: Sequence[Request]


def make_setting(
    collections: Sequence[Collection],
    background: Sequence[Collection],
    pool: Sequence[Text],
    *,
    queries: int,
    attackers: int,
    rng: random.Random,
) -> Setting:
    """Pool the collections, sample requests, and find ordinary skills that are not honest ones.

    These come from `pool` or, if that is empty, from the last collection of the background.
    """
    pooled = pool_collections([*collections, *background])
    honest = {
        document.doc_id: Text(document.name, document.description, document.body, version="1.0.0")
        for document in pooled[0].documents
    }
    requests = [
        _request(collection, query)
        for collection in pooled[: len(collections)]
        for query in collection.queries
    ]
    sample = rng.sample(requests, min(queries, len(requests)))
    half = len(sample) // 2
    if not half:
        raise EvaluationError(f"{len(requests)} requests cannot be halved; give more (--queries).")
    if pool:
        ordinary = _others(pool, honest, attackers, rng)
    else:
        last = f"{background[-1].name}/" if background else "/"
        ordinary = _hold_out(honest, last, requests, attackers, rng)
    if len(ordinary) < attackers:
        raise EvaluationError(
            f"There are {len(ordinary)} ordinary skills for the control, not {attackers}; name "
            "a larger --background, or --ordinary FILE."
        )
    return Setting(honest, ordinary, requests, sample[:half], sample[half:])


def _request(collection: Collection, query: JudgedQuery) -> Request:
    grades = collection.qrels[query.query_id]
    return Request(query.text, {key: grade for key, grade in grades.items() if grade > 0})


def _others(
    pool: Sequence[Text], honest: Mapping[str, Text], count: int, rng: random.Random
) -> list[Text]:
    """Draw skills of a pool that have neither the name nor the body of an honest one."""
    taken = {part for text in honest.values() for part in (text.name.casefold(), text.body)}
    free = [text for text in pool if taken.isdisjoint((text.name.casefold(), text.body))]
    return rng.sample(free, min(count, len(free)))


def _hold_out(
    honest: dict[str, Text],
    prefix: str,
    requests: Sequence[Request],
    count: int,
    rng: random.Random,
) -> list[Text]:
    """Take skills whose ids begin so, and that no request is judged with, from the honest ones."""
    judged = {key for request in requests for key in request.grades}
    free = [key for key in honest if key.startswith(prefix) and key not in judged]
    return [honest.pop(key) for key in rng.sample(free, min(count, len(free)))]


def read_texts(path: Path) -> list[Text]:
    """Read skills from JSON lines with name, description and body, maybe gzipped."""
    open_text = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "rt", encoding="utf-8") as file:
        return [
            Text(skill["name"], skill["description"], skill.get("body", ""))
            for skill in map(json.loads, file)
        ]


def know(setting: Setting) -> Known:
    """Return what attackers know."""
    model = load_embedder("onnx")
    requests = texts_of(setting.known)
    best_skills = [setting.honest[min(request.best_skills)] for request in setting.known]
    vectors = embed(model, requests)
    return Known(requests, best_skills, lambda texts: embed(model, texts), vectors)


class Attacks:
    """All attacks on one setting, by kind and trust."""

    def __init__(self, setting: Setting, ground: Ground, attackers: int, seed: int) -> None:
        """Let attackers know what they may."""
        self._setting, self._ground = setting, ground
        self._count, self._seed = attackers, seed
        self._known = know(setting)
        self._written: dict[str, Sequence[Text]] = {NONE: (), ORDINARY: setting.ordinary}

    def texts(self, kind: str, trust: str) -> Sequence[Text]:
        """Return what attackers of a kind write; the same for each trust but ``adaptive``."""
        rng = random.Random(self._seed)
        if kind == ADAPTIVE:
            return adaptive(self._known, self._ground, self._count, rng, trust)
        if kind not in self._written:
            self._written[kind] = KINDS[kind](self._known, self._count, rng)
        return self._written[kind]

    def run(self, kind: str, trust: str) -> Outcome:
        """Measure an attack."""
        return self._ground.measure(self._setting.measured, self.texts(kind, trust), trust)

    def rows(self, kinds: Sequence[str], trusts: Sequence[str]) -> Iterator[AttackRow]:
        """Measure kinds of attack with each trust, compared with ordinary skills of that trust."""
        controls: dict[str, Outcome] = {}
        for kind in sorted(kinds, key=ATTACKS.index):
            for trust in trusts[:1] if kind == NONE else trusts:
                with _timed(f"{kind}, {trust}"):
                    outcome = self.run(kind, trust)
                if kind == ORDINARY:
                    controls[trust] = outcome
                yield attack_row(kind, trust, outcome, controls.get(trust))


@contextmanager
def _timed(step: str) -> Iterator[None]:
    """Tell on stderr how long a step took."""
    started = time.perf_counter()
    yield
    print(f"{step}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)


def attack_row(kind: str, trust: str, outcome: Outcome, control: Outcome | None) -> AttackRow:
    """Return what an attack won, as shares of requests."""
    row: AttackRow = {
        "kind": kind,
        "trust": "" if kind == NONE else trust,
        "first_five": float(outcome.taken.mean()),
        "first": float(outcome.first.mean()),
        "ndcg": float(outcome.ndcg.mean()),
    }
    if control is not None and control is not outcome:
        gains = outcome.taken - control.taken
        row["gain"], row["gain_interval"] = float(gains.mean()), interval(gains)
    return row


def probe_row(effect: Effect) -> ProbeRow:
    """Return what became of honest skills, as means over requests."""
    change = effect.after - effect.before
    return {
        "measure": effect.measure,
        "trust": effect.trust,
        "requests": len(change),
        "before": float(effect.before.mean()),
        "after": float(effect.after.mean()),
        "change": float(change.mean()),
        "change_interval": interval(change),
    }


def toll_row(toll: Toll) -> VictimRow:
    """Return what became of victims, as shares of their requests, and the ids of those lost."""
    return {
        "kind": toll.kind,
        "root": toll.root,
        "victims": toll.victims,
        "requests": len(toll.before.five),
        "five_before": float(toll.before.five.mean()),
        "five_after": float(toll.after.five.mean()),
        "first_before": float(toll.before.first.mean()),
        "first_after": float(toll.after.first.mean()),
        "lost": list(toll.lost),
    }


def show(report: Report) -> None:
    """Print the tables as Markdown."""
    for name, make in TABLES.items():
        if report[name]:
            print("\n".join(["", *make(report)]))


def run(options: Options, work: Path) -> Report:
    """Run the attacks and probes of the options."""
    setting = make_setting(
        list(map(load_collection, options.collections)),
        list(map(load_collection, options.background)),
        read_texts(options.ordinary) if options.ordinary else [],
        queries=options.queries,
        attackers=options.attackers,
        rng=random.Random(options.seed),
    )
    ground = Ground(work, setting.honest, reader=options.reader)
    report: Report = {
        "settings": {
            "honest": len(setting.honest),
            "attackers": options.attackers,
            "known": len(setting.known),
            "measured": len(setting.measured),
            "reader": options.reader,
            "seed": options.seed,
        },
        "attacks": [],
        "probes": [],
        "victims": [],
    }
    kinds = [kind for kind in options.kinds if kind in ATTACKS]
    if set(kinds) - {NONE}:
        kinds = [*dict.fromkeys([ORDINARY, *kinds])]
    if kinds:
        attacks = Attacks(setting, ground, options.attackers, options.seed)
        report["attacks"] = list(attacks.rows(kinds, options.trust))
    for name in filter(options.kinds.__contains__, PROBES):
        requests = setting.requests if name == CLONES else setting.measured
        with _timed(name):
            effects = PROBES[name](ground, requests, options.trust, random.Random(options.seed))
            report["probes"] += map(probe_row, effects)
    if aimed := [kind for kind in WRITERS if kind in options.kinds]:
        victims = find_victims(setting.honest, setting.requests, random.Random(options.seed))
        with _timed("victims"):
            report["victims"] = list(map(toll_row, tolls(ground, victims, aimed, options.seed)))
    return report


def main() -> None:
    """Run attacks and print what they gained."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("collections", type=Path, nargs="+", help="whose requests are asked")
    parser.add_argument("--background", type=Path, nargs="*", default=[], help="more honest skills")
    parser.add_argument("--ordinary", type=Path, help="JSON lines of skills for the control")
    names = (*ATTACKS, *PROBES, *WRITERS)
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=names,
        default=names,
        metavar="KIND",
        help=f"some of: {', '.join(names)} (default: all)",
    )
    parser.add_argument(
        "--trust",
        nargs="+",
        choices=(*TRUSTS, UNSET),
        default=TRUSTS,
        help="in the attackers' root, in turn (default: vetted fetched)",
    )
    parser.add_argument("--attackers", type=int, default=150, help="skills that attackers write")
    parser.add_argument("--queries", type=int, default=330, help="known and measured together")
    parser.add_argument("--reader", default="auto")
    parser.add_argument("--json", type=Path, help="write all numbers to a file too")
    parser.add_argument("--work", type=Path, help="keep the index here for the next run")
    parser.add_argument("--seed", type=int, default=0)
    options = Options(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory() as temporary:
        try:
            report = run(options, (options.work or Path(temporary)).absolute())
        except SkillSearchError as exc:
            parser.error(str(exc))
    show(report)
    if options.json:
        save_report(report, options.json)
    lost = [row["kind"] for row in report["victims"] if row["lost"] and row["kind"] not in RIVALS]
    if lost:
        sys.exit(f"Victims of {', '.join(dict.fromkeys(lost))} are lost.")


if __name__ == "__main__":
    main()
