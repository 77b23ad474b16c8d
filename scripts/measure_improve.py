"""Measures what ``skillsearch improve`` proposes on judged collections, by requests it never saw.

Usage: python scripts/measure_improve.py FOLDER COLLECTION... [--skills N] [--examples FILE]

Of each collection skills are drawn that have two judged requests or more for which no other skill
is as right, until N of them have room to improve: they are not the first hit for all that is
measured. Proposals are made from the skill's example requests in FILE if it has some there, else
from every second of its judged requests, and measured on the other judged ones and on those of its
rivals. ``chosen`` is what the command does: the best proposal by the requests that it is measured
on. ``fixed`` is what one kind of proposal does, without a choice. ``blind`` is the strictest: the
best is chosen by a part of the requests that it is made from, and the rest has no say.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import markdown_tables

from skillsearch.errors import SkillSearchError
from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.judged_index import RememberingEmbedder, write_skills
from skillsearch.evaluation.types import Collection
from skillsearch.index.documents.document import Document
from skillsearch.index.indexing.trial import Trial
from skillsearch.index.skill_index import SkillIndex
from skillsearch.readers.remembering import RememberingReaders
from skillsearch.reports.proposal_trials import Improvement, Improver, split
from skillsearch.reports.proposals import Proposal
from skillsearch.skills.example_requests import ExampleBook

READERS = RememberingReaders()
FIXED = ("requests", "words")
Row = dict[str, object]
CHANGES = ("proposed", "any", "lowered")


@dataclass(frozen=True)
class Judged:
    """A collection as skills in a trial, and the requests for which each is right."""

    collection: Collection
    trial: Trial
    index: SkillIndex
    ids: Mapping[str, str]
    examples: Mapping[str, Sequence[str]]
    reader: str

    @classmethod
    def open(
        cls, path: Path, work: Path, examples: Mapping[str, Sequence[str]], reader: str
    ) -> Judged:
        """Index a collection below a folder."""
        collection = load_collection(path)
        folders = write_skills(collection, work)
        roots, book = folders.roots, ExampleBook.empty()
        index = SkillIndex.from_roots(roots, index_dir=work / f"{path.name}-index", examples=book)
        trial = Trial.begin(index.opened, Path(tempfile.mkdtemp(dir=work)))
        trial = replace(trial, embedder=RememberingEmbedder(trial.embedder))
        return cls(collection, trial, index, folders.ids, examples, reader)

    def requests(self, least: int, *, alone: bool = False) -> dict[str, list[str]]:
        """Return the requests of each skill that is judged at least so right for them.

        Of some it may have to be `alone` in this.
        """
        texts = {query.query_id: query.text for query in self.collection.queries}
        held: defaultdict[str, list[str]] = defaultdict(list)
        for query_id, judgments in self.collection.qrels.items():
            cut = min(least, max(judgments.values()))
            right = [doc_id for doc_id, grade in judgments.items() if grade >= cut]
            for doc_id in right if not alone or len(right) == 1 else ():
                held[doc_id].append(texts[query_id])
        return held

    def drawn(self) -> Iterator[tuple[Document, list[str], list[str]]]:
        """Yield skills, the same each time, with what to make of and what to measure on."""
        held = self.requests(2, alone=True)

        def rank(doc_id: str) -> str:
            return hashlib.sha256(doc_id.encode()).hexdigest()

        enough = sorted((doc_id for doc_id, texts in held.items() if len(texts) > 1), key=rank)
        indexed = {self.ids[document.doc_id]: document for document in self.index.documents()}
        for doc_id in filter(indexed.__contains__, enough):
            examples, texts = list(self.examples.get(doc_id, ())), held[doc_id]
            own = set(examples)
            measured = [text for text in texts if text not in own] if examples else texts[1::2]
            yield indexed[doc_id], examples or texts[::2], measured[:8]

    def improver(self, document: Document, measured: Sequence[str]) -> Improver:
        """Return what tries descriptions.

        A rival's requests are the judged ones that are not ours too, and its examples.
        """
        helped = self.requests(1)
        ours = {*helped[self.ids[document.doc_id]], *measured}
        held = self.requests(2)

        def requests_of(rival: Document) -> list[str]:
            doc_id = self.ids[rival.doc_id]
            judged = [text for text in held[doc_id] if text not in ours]
            return [*judged, *self.examples.get(doc_id, ())]

        data = Path(document.path).read_bytes()
        return Improver(self.trial, document, data, requests_of, self.reader, READERS)


def measure(judged: Judged, count: int, modes: Container[str]) -> Iterator[dict[str, object]]:
    """Yield a row for each skill that is drawn, until so many of them had room to improve."""
    for document, made_from, measured in judged.drawn():
        improver = judged.improver(document, measured)
        before, _ = improver.measure(improver.base, document, measured)
        row: dict[str, object] = {"collection": judged.collection.name, "name": document.name}
        row |= {"from": len(made_from), "on": len(measured), "before": before.counts}
        row["room"] = before.first < len(measured)
        if row["room"]:
            try:
                row |= {
                    mode: how(improver, made_from, measured)
                    for mode, how in MODES.items()
                    if mode in modes
                }
            except SkillSearchError as exc:
                row["refused"] = str(exc)
        yield row
        count -= bool(row["room"])
        if not count:
            return


def _chosen(improver: Improver, made_from: Sequence[str], measured: Sequence[str]) -> Row:
    return _row(improver.improve(made_from, measured))


def _fixed(improver: Improver, made_from: Sequence[str], measured: Sequence[str]) -> Row:
    proposal = improver.material(made_from).made(FIXED)
    attempts = improver.attempts([proposal], measured)
    return {"kinds": FIXED, "after": attempts[0].after.counts} if attempts else {"kinds": ()}


def _blind(improver: Improver, made_from: Sequence[str], measured: Sequence[str]) -> Row:
    half, other, is_split = split(made_from)
    if not is_split:
        return {"kinds": ()}
    blind = improver.improve(half, other)
    (tried,) = improver.attempts([Proposal((), blind.description)], measured)
    return _row(blind) | {"after": tried.after.counts}


MODES = {"chosen": _chosen, "fixed": _fixed, "blind": _blind}


def _row(improvement: Improvement) -> Row:
    costs = [[*of.before.counts, *of.after.counts] for of in improvement.rivals]
    keys = {
        "kinds": improvement.kinds,
        "after": improvement.own.after.counts,
        "costly": improvement.costly,
    }
    return keys | {
        "tried": improvement.tried,
        "rivals": costs,
        "description": improvement.description,
    }


def summary(rows: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """Yield the table of the rows, a line for each collection and one for all."""
    figures = ["first", "five", "fits", "any", "95 %", "fixed: raised, lowered"]
    figures.append("blind: proposed, raised, lowered")
    yield from markdown_tables.table(["collection", "skills", "with room", *figures])
    names = list(dict.fromkeys(str(row["collection"]) for row in rows))
    for name in (*names, "all"):
        some = [row for row in rows if name in (row["collection"], "all")]
        room = [row for row in some if row["room"]]
        counts: Counter[str] = sum((Counter(_changes(row)) for row in room), Counter())
        shown = [counts[f"chosen {figure}"] for figure in ("first", "five", "fits", "any")]
        low, high = wilson(counts["chosen any"], len(room))
        fixed, blind = (
            ", ".join(str(counts[f"{mode} {what}"]) for what in changes)
            for mode, changes in (("fixed", CHANGES[1:]), ("blind", CHANGES))
        )
        interval = f"{low:.0%} to {high:.0%}"
        cells = (name, len(some), len(room), *shown, interval, fixed, blind)
        yield markdown_tables.line(map(str, cells))


def _changes(row: Mapping[str, object]) -> Iterator[str]:
    """Yield what each mode did to a skill."""
    for mode in MODES:
        result = row.get(mode)
        if isinstance(result, dict) and result["kinds"]:
            before, after = row["before"], result["after"]
            pairs = list(zip(before, after, strict=True))  # type: ignore[call-overload]
            yield f"{mode} proposed"
            for figure, (was, now) in zip(("first", "five", "fits"), pairs, strict=True):
                if now > was:
                    yield f"{mode} {figure}"
            if any(now < was for was, now in pairs):
                yield f"{mode} lowered"
            elif any(now > was for was, now in pairs):
                yield f"{mode} any"


def wilson(count: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, by Wilson's formula."""
    if not of:
        return 0.0, 1.0
    z = 1.96
    share, size = count / of, 1 + z * z / of
    middle = share + z * z / (2 * of)
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max((middle - half) / size, 0.0), min((middle + half) / size, 1.0)


def main() -> None:
    """Measure, print a line of JSON for each skill, and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--skills", type=int, default=10, help="with room, of each collection")
    parser.add_argument("--examples", type=Path)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=[*MODES])
    parser.add_argument("--reader", default="auto", help="auto or off")
    options = parser.parse_args()
    data = gzip.decompress(options.examples.read_bytes()) if options.examples else b""
    records = [json.loads(line) for line in data.splitlines()]
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as work:
        for name in options.collections:
            mine = {r["_id"]: r["examples"] for r in records if r["collection"] == name}
            judged = Judged.open(options.folder / name, Path(work), mine, options.reader)
            for row in measure(judged, options.skills, options.modes):
                rows.append(row)
                if options.results:
                    options.results.write_text("\n".join(map(json.dumps, rows)) + "\n")
    print("\n".join(summary(rows)))


if __name__ == "__main__":
    main()
