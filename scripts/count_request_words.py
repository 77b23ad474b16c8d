"""Count the words that requests are made of, and write them into the package.

Usage: python scripts/count_request_words.py REQUESTS.jsonl.gz SKILLS.jsonl.gz [--leave-out 0-349]
       [--terms 1000] [--output FILE]

A term weighs what it adds to the score of a skill that has it, for a request like these on the
average: its mean frequency in the requests times its BM25 idf among the skills. Only English ones
are counted; clusters of requests that are measured elsewhere are left out.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from graded_requests import (
    RequestRecord,
    SkillRecord,
    clusters,
    read_request_records,
    read_skill_records,
)

from skillsearch.index.documents.hubness import TABLE
from skillsearch.index.lexical.postings import idf
from skillsearch.text.tokenizer import document_terms, terms

TERMS = 1_000
TOTAL = 100_000
"""What all weights add up to, but for rounding."""
KINDS = {"s", "p", "t", "o"}
"""Requests that some skill answers."""
HEAD = """\
# The heaviest terms of requests in English, as the tokenizer cuts them: what each adds to the
# score of a skill that has it, for the average request, in 100,000ths of what all add. Counted by
# scripts/count_request_words.py in {requests:,} requests and {skills:,} skills.

[request words]
"""


def count(
    requests: Sequence[RequestRecord], skills: Sequence[SkillRecord], most: int
) -> dict[str, int]:
    """Return the weights of the terms that weigh most, the heaviest first."""
    frequencies = Counter(term for request in requests for term in terms(request["text"], "en"))
    holders: Counter[str] = Counter()
    for skill in skills:
        text = f"{skill['name']}\n{skill['description']}\n{skill.get('body', '')}"
        holders.update(set(document_terms(text, "en")))
    # In half of the skills a term weighs next to nothing.
    weights = {
        term: frequency * idf(holders[term], len(skills), 1.0)
        for term, frequency in frequencies.items()
    }
    heaviest = sorted(weights, key=lambda term: (-weights[term], term))[:most]
    total = sum(weights[term] for term in heaviest)
    return {term: round(weights[term] / total * TOTAL) for term in heaviest}


def main() -> None:
    """Count, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("requests", type=Path)
    parser.add_argument("skills", type=Path)
    parser.add_argument("--leave-out", nargs="*", default=[], metavar="FIRST-LAST")
    parser.add_argument("--terms", type=int, default=TERMS)
    parser.add_argument("--output", type=Path, default=TABLE)
    args = parser.parse_args()
    for path in (args.requests, args.skills):
        if not path.is_file():
            parser.error(f"there is no file {path}")
    left_out = clusters(",".join(args.leave_out))
    requests = [
        request
        for request in read_request_records(args.requests)
        if request["lang"] == "en"
        and request["kind"] in KINDS
        and request["cluster"] not in left_out
    ]
    skills = [skill for skill in read_skill_records(args.skills) if skill["lang"] == "en"]
    weights = count(requests, skills, args.terms)
    head = HEAD.format(requests=len(requests), skills=len(skills))
    lines = "".join(f"{term} {weight}\n" for term, weight in weights.items())
    args.output.write_text(head + lines, encoding="utf-8")


if __name__ == "__main__":
    main()
