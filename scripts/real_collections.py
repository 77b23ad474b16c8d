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
from skillsearch.skills.parser import parse_skill

REQUESTS = Path(__file__).with_name("real_requests")
_QRELS = "query-id\tcorpus-id\tscore\n"


def skill_files(root: Path) -> list[Path]:
    """Return the first file of each distinct text, white space apart, sorted by path."""
    first: dict[str, Path] = {}
    for path in sorted(root.rglob("SKILL.md"), key=lambda path: path.relative_to(root).as_posix()):
        text = b"".join(path.read_bytes().split())
        first.setdefault(sha256(text).hexdigest(), path)
    return list(first.values())


def documents(root: Path) -> list[dict[str, str]]:
    """Return the skills below a folder as the lines of a corpus; unreadable ones are left out."""
    rows = []
    for path in skill_files(root):
        try:
            skill, _ = parse_skill(path.read_bytes(), doc_id="", path=path, root=root)
        except ParseError as error:
            print(f"left out: {error}")
            continue
        fields = {"name": skill.name, "description": skill.description, "body": skill.body}
        rows.append({"_id": path.relative_to(root).as_posix(), **fields})
    return rows


def write(folder: Path, corpus: list[dict[str, str]], requests: Path) -> None:
    """Write one file of requests over a corpus as a judged collection."""
    ids = {row["_id"] for row in corpus}
    queries, negatives, qrels = [], [], [_QRELS]
    for line in requests.read_text(encoding="utf-8").splitlines():
        request = json.loads(line)
        record = {"_id": request["id"], "text": request["text"], "lang": request.get("lang", "")}
        if right := request.get("skill"):
            queries.append({**record, "kind": "short"})
            graded = [(right, 2), *((other, 1) for other in request.get("also", ()))]
            qrels += [f"{request['id']}\t{doc}\t{grade}\n" for doc, grade in graded if doc in ids]
        else:
            negatives.append({**record, "kind": "nothing"})
    if not queries:  # A collection has a judged query: a skill, asked for by its name.
        queries.append({"_id": "name", "text": corpus[0]["name"], "kind": "name"})
        qrels.append(f"name\t{corpus[0]['_id']}\t2\n")
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("corpus", corpus), ("queries", queries), ("negatives", negatives)):
        lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    (folder / "qrels.tsv").write_text("".join(qrels), encoding="utf-8")


def main() -> None:
    """Write all three collections."""
    parser = argparse.ArgumentParser(description="Write judged collections over real skills.")
    parser.add_argument("skills", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    corpus = documents(args.skills)
    for name in ("development", "short", "nothing"):
        write(args.output / f"real-{name}", corpus, REQUESTS / f"{name}.jsonl")


if __name__ == "__main__":
    main()
