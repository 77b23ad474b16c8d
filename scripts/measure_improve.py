"""Measures what ``skillsearch improve`` proposes on judged collections, by requests it never saw.

Usage: python scripts/measure_improve.py COLLECTION... [--skills N] [--examples FILE]
                                         [--results FILE]

Of each collection skills are drawn that have two judged requests or more for which no other skill
is as right, until N of them have room to improve: they are not the first hit for all that is
measured. Proposals are made from the skill's example requests in FILE if it has some there, else
from every second of its judged requests, and measured on the other judged ones and on those of its
rivals. ``chosen`` is what the command does: the best proposal by the requests that it is measured
on. ``fixed`` is what one kind of proposal does, without a choice. The result file has counts and no
texts.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NotRequired, TypedDict

import markdown_tables
from benchmark.measures import save_report
from benchmark.rows import Machine

from skillsearch.errors import SkillSearchError
from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.judged_index import RememberingEmbedder, write_skills
from skillsearch.evaluation.types import Collection
from skillsearch.index.documents.document import Document
from skillsearch.index.indexing.trial import Trial
from skillsearch.index.skill_index import SkillIndex
from skillsearch.readers.remembering import RememberingReaders
from skillsearch.reports.proposal_trials import Improver
from skillsearch.skills.example_requests import ExampleBook

READERS = RememberingReaders()
FIXED = ("requests", "words")
FIGURES = ("first", "five", "any")
Row = dict[str, object]
Counts = dict[str, int]


class Report(TypedDict):
    """The result file; `save_report` adds the machine."""

    machine: NotRequired[Machine]
    collections: dict[str, Counts]


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


def measure(judged: Judged, count: int) -> Iterator[Row]:
    """Yield a row for each skill that is drawn, until so many of them had room to improve."""
    for document, made_from, measured in judged.drawn():
        improver = judged.improver(document, measured)
        before, _ = improver.measure(improver.base, document, measured)
        row: Row = {"collection": judged.collection.name, "name": document.name}
        row |= {"before": before.counts, "room": before.first < len(measured)}
        if row["room"]:
            try:
                row |= {mode: how(improver, made_from, measured) for mode, how in MODES.items()}
            except SkillSearchError as exc:
                row["refused"] = str(exc)
        yield row
        count -= bool(row["room"])
        if not count:
            return


def _chosen(improver: Improver, made_from: Sequence[str], measured: Sequence[str]) -> Row:
    improvement = improver.improve(made_from, measured)
    return {"kinds": improvement.kinds, "after": improvement.own.after.counts}


def _fixed(improver: Improver, made_from: Sequence[str], measured: Sequence[str]) -> Row:
    proposal = improver.material(made_from).made(FIXED)
    attempts = improver.attempts([proposal], measured)
    return {"kinds": FIXED, "after": attempts[0].after.counts} if attempts else {"kinds": ()}


MODES = {"chosen": _chosen, "fixed": _fixed}


def counts_of(rows: Sequence[Row]) -> dict[str, Counts]:
    """Count for each collection, and for all, what the modes did to skills with room."""
    names = dict.fromkeys(str(row["collection"]) for row in rows)
    counts = {}
    for name in (*names, "all"):
        some = [row for row in rows if name in (row["collection"], "all")]
        room = [row for row in some if row["room"]]
        changes = Counter(change for row in room for change in _changes(row))
        counts[name] = {"skills": len(some), "with room": len(room), **changes}
    return counts


def table(report: Report) -> list[str]:
    """Return a row for each collection, and one for all: how many skills of those with room."""
    heads = ["collection", "skills", "with room", "first hit raised", "first five raised"]
    heads += ["any raised", "the same kinds for all: raised, lowered"]
    rows = []
    for name, count in report["collections"].items():
        raised = [count.get(f"chosen {figure}", 0) for figure in FIGURES]
        fixed = ", ".join(str(count.get(f"fixed {what}", 0)) for what in ("any", "lowered"))
        rows.append([name, *map(str, (count["skills"], count["with room"], *raised)), fixed])
    return markdown_tables.table(heads, rows)


def _changes(row: Row) -> Iterator[str]:
    """Yield what each mode did to a skill."""
    for mode in MODES:
        result = row.get(mode)
        if isinstance(result, dict) and result["kinds"]:
            before, after = row["before"], result["after"]
            pairs = list(zip(before, after, strict=True))  # type: ignore[call-overload]
            for figure, (was, now) in zip(("first", "five", "fits"), pairs, strict=True):
                if now > was:
                    yield f"{mode} {figure}"
            if any(now < was for was, now in pairs):
                yield f"{mode} lowered"
            elif any(now > was for was, now in pairs):
                yield f"{mode} any"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure collections and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("collections", nargs="+", type=Path)
    parser.add_argument("--skills", type=int, default=10, help="with room, of each collection")
    parser.add_argument("--examples", type=Path, help="example requests of the collections")
    parser.add_argument("--results", type=Path, help="write the counts to a file too")
    parser.add_argument("--reader", default="auto", help="auto or off")
    options = parser.parse_args(arguments)
    data = gzip.decompress(options.examples.read_bytes()) if options.examples else b""
    records = [json.loads(line) for line in data.splitlines()]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as work:
        for folder in options.collections:
            mine = {r["_id"]: r["examples"] for r in records if r["collection"] == folder.name}
            judged = Judged.open(folder, Path(work), mine, options.reader)
            rows += measure(judged, options.skills)
    report: Report = {"collections": counts_of(rows)}
    print("\n".join(table(report)))
    if options.results:
        save_report(report, options.results)


if __name__ == "__main__":
    main()
