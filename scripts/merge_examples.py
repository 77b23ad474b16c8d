"""Check example requests for public skills, and merge them into those of the package.

Usage: python scripts/merge_examples.py [FILE...] [--skills ROOT...] [--output FILE]

A FILE has JSON lines: the ``name`` of a skill or the ``digest`` of its name and description, the
``repository`` that it comes from, and four ``examples`` of our own, which we give away under
Apache-2.0. The skills themselves lie below the ROOTs; none of their text is written down. What
`skillsearch enrich` would refuse is refused. New examples of a skill replace those before.

Without a FILE the package's own are checked, and written in order: the same records give the same
bytes. Exits with 1 if anything was refused; then nothing is written.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypedDict

from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.example_review import Review, WrittenExamples
from skillsearch.skills.example_requests import (
    PACKAGED,
    ExampleBook,
    digest_of_skill,
    read_examples,
    usable,
)

EXAMPLES = 4
"""Examples of each skill: as many as were measured."""
_DIGEST_CHARS = 64


class Record(TypedDict):
    """The examples of a skill, as the package's file has them."""

    digest: str
    name: str
    repository: str
    examples: list[str]


def problems(record: Mapping[str, object]) -> Iterator[str]:
    """Yield what is wrong with a record, whatever skill it is for."""
    digest, examples = record.get("digest"), record.get("examples")
    if (
        not isinstance(digest, str)
        or len(digest) != _DIGEST_CHARS
        or set(digest) - set("0123456789abcdef")
    ):
        yield "its digest is not 64 hexadecimal digits"
    if not isinstance(examples, list) or list(usable(examples)) != examples:
        yield "its examples are no list of different texts of at most 300 characters"
    elif len(examples) != EXAMPLES:
        yield f"it has {len(examples)} examples, not {EXAMPLES}"
    for key in ("name", "repository"):
        text = record.get(key)
        if not isinstance(text, str) or not text.strip():
            yield f"it has no {key}"


def accepted(files: list[Path], index: SkillIndex, refused: list[str]) -> Iterator[Record]:
    """Yield the records of files that can be kept; add what cannot to `refused`."""
    review = Review(index)
    by_name = {
        skill.name: digest_of_skill(skill.name, skill.description) for skill in index.documents()
    }
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            record: Record = json.loads(line)
            record.setdefault("digest", by_name.get(record.get("name", ""), ""))
            reasons = list(problems(record)) or reviewed(record, review)
            if not reasons:
                yield {
                    "digest": record["digest"],
                    "name": record["name"],
                    "repository": record["repository"],
                    "examples": record["examples"],
                }
            refused += (f"{file}:{number}: {reason}" for reason in reasons)


def reviewed(record: Record, review: Review) -> list[str]:
    """Return why `skillsearch enrich` would refuse some of a record's examples, or all."""
    _, refusals = review.check([WrittenExamples(record["digest"], record["examples"])])
    return [
        " ".join(filter(None, (f"{refusal.text!r}" if refusal.text else "", refusal.reason)))
        for refusal in refusals
    ]


def packed(records: Mapping[str, Mapping[str, object]]) -> bytes:
    """Return records as a packed file, the same bytes for the same records."""
    lines = (json.dumps(records[key], ensure_ascii=False) for key in sorted(records))
    return gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)


def main() -> int:
    """Check and merge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--skills", nargs="*", type=Path, default=[], help="folders of the skills")
    parser.add_argument("--output", type=Path, default=PACKAGED)
    args = parser.parse_args()
    if args.files and not args.skills:
        parser.error("name the folders of the skills: --skills ROOT")
    records: dict[str, Mapping[str, object]] = {
        str(record["digest"]): record for record in read_examples(PACKAGED)
    }
    refused = [
        f"{digest}: {problem}" for digest, record in records.items() for problem in problems(record)
    ]
    before = len(records)
    if args.files:
        with tempfile.TemporaryDirectory() as folder:
            book = ExampleBook.empty()
            index = SkillIndex.from_roots(
                args.skills, index_dir=Path(folder, "index"), model="hashing", examples=book
            )
            merged = accepted(args.files, index, refused)
            records |= {record["digest"]: record for record in merged}
    for line in refused:
        print(line, file=sys.stderr)
    if refused:
        print(f"{len(refused)} refused; nothing was written", file=sys.stderr)
        return 1
    args.output.write_bytes(packed(records))
    print(f"{len(records):,} skills, {len(records) - before:,} new, in {args.output.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
