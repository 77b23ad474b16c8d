"""Folders of real skills and ``scripts/real_requests`` → judged collections.

Usage: python scripts/real_collections.py SKILLS OUTPUT

SKILLS holds the 2,866 skills, ``AUTHOR+REPOSITORY/.../SKILL.md`` each. OUTPUT gets
``real-development`` for the fit, and ``real-short`` and ``real-nothing``, which are measured alone.
"""

from __future__ import annotations

import argparse
import json
from hashlib import sha256
from pathlib import Path

from skillsearch.errors import ParseError
from skillsearch.evaluation.collection import save_collection
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.skills.parser import read_skill

REQUESTS = Path(__file__).with_name("real_requests")


def skill_files(root: Path) -> list[Path]:
    """Return the first file of each distinct text, white space apart, sorted by path."""
    first: dict[str, Path] = {}
    for path in sorted(root.rglob("SKILL.md"), key=lambda path: path.relative_to(root).as_posix()):
        text = b"".join(path.read_bytes().split())
        first.setdefault(sha256(text).hexdigest(), path)
    return list(first.values())


def documents(root: Path) -> tuple[JudgedDocument, ...]:
    """Return the skills below a folder; unreadable ones are named and left out."""
    corpus = []
    for path in skill_files(root):
        doc_id = path.relative_to(root).as_posix()
        try:
            skill = read_skill(path, doc_id=doc_id, root=root)
        except ParseError as error:
            print(f"left out: {error}")
            continue
        corpus.append(JudgedDocument(doc_id, skill.name, skill.description, skill.body))
    return tuple(corpus)


def judged(name: str, corpus: tuple[JudgedDocument, ...], requests: Path) -> Collection:
    """Return one file of requests over a corpus as a judged collection."""
    ids = {document.doc_id for document in corpus}
    queries: list[JudgedQuery] = []
    negatives: list[JudgedQuery] = []
    qrels: dict[str, dict[str, int]] = {}
    for request in map(json.loads, requests.read_text(encoding="utf-8").splitlines()):
        is_negative = not request.get("skill")
        kind, language = "nothing" if is_negative else "short", request.get("lang", "")
        query = JudgedQuery(request["id"], request["text"], kind, language)
        (negatives if is_negative else queries).append(query)
        if not is_negative:
            grades = {request["skill"]: 2, **dict.fromkeys(request.get("also", ()), 1)}
            qrels[query.query_id] = {doc: grade for doc, grade in grades.items() if doc in ids}
    if not queries:  # A collection has a judged query: a skill, asked for by its name.
        queries.append(JudgedQuery("name", corpus[0].name, "name"))
        qrels["name"] = {corpus[0].doc_id: 2}
    return Collection(name, corpus, tuple(queries), qrels, negatives=tuple(negatives))


def main() -> None:
    """Write all three collections."""
    parser = argparse.ArgumentParser(description="Write judged collections over real skills.")
    parser.add_argument("skills", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    corpus = documents(args.skills)
    for name in ("development", "short", "nothing"):
        collection = judged(f"real-{name}", corpus, REQUESTS / f"{name}.jsonl")
        save_collection(collection, args.output / collection.name)


if __name__ == "__main__":
    main()
