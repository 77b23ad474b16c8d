"""Skills that prove themselves, the states that they went through, and the check of an index.

Every skill holds a checksum over its name, version and words, in letters, so that it is a term too.
What an index holds must be one of the states that were on disk, whole.
"""

from __future__ import annotations

import fcntl
import json
import random
import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import xxhash
from benchmark.corpus import Text, skill_md, vocabulary, write_file

import skillsearch
from skillsearch.index.skill_index import SkillIndex
from skillsearch.skills.resources import content_hash
from skillsearch.text.exclusions import split_description, split_request
from skillsearch.types.answers import Hit

BUILD = "index {root} --index-dir {index} --model hashing --json"
"""The command of a first build: no time goes into embedding."""
_WORDS = 12
_CHUNKED = 10
"""Every tenth skill has a chunk."""
_PROBES = 8
_GROUP = 1000
_PROOF = re.compile(r"(?P<words>.+), version (?P<version>\d+), checksum (?P<code>[a-z]+)\.")

State = dict[int, int]
"""The version of each skill, by its number."""


def checksum(*parts: object) -> str:
    """Return a checksum in letters."""
    number = xxhash.xxh3_64_intdigest("\0".join(map(str, parts)).encode())
    return "".join(chr(ord("a") + number // 26**digit % 26) for digit in range(13))


def proves_itself(name: str, description: str) -> bool:
    """Return whether a name and a description belong together."""
    proof = _PROOF.fullmatch(description)
    return proof is not None and proof["code"] == checksum(name, proof["version"], proof["words"])


def digest_of(hashes: Mapping[str, str]) -> str:
    """Return the digest of a state: the content hash of every document, by its id."""
    lines = (f"{doc_id} {hashes[doc_id]}" for doc_id in sorted(hashes))
    return xxhash.xxh3_128_hexdigest("\n".join(lines).encode())


def words_of_examples() -> list[str]:
    """Return the words of the skills in the package, in plain letters."""
    folder = Path(skillsearch.__file__).parent / "examples"
    bodies = (path.read_text(encoding="utf-8") for path in sorted(folder.rglob("SKILL.md")))
    return [word for word in vocabulary(Text("", "", body) for body in bodies) if word.isascii()]


@dataclass
class Skills:
    """Skills on disk.

    Attributes:
        folder: Where they lie.
        state: What is there now.
    """

    folder: Path
    state: State = field(default_factory=dict)
    _words: list[str] = field(default_factory=words_of_examples)
    _hashes: dict[int, tuple[int, str]] = field(default_factory=dict)

    def text(self, number: int, version: int) -> Text:
        """Return a version of a skill, the same in every run."""
        rng = random.Random(number * 10_007 + version)
        first = random.Random(number)
        name = f"{first.choice(self._words)}-{first.choice(self._words)}-{number}".lower()
        while True:
            words = " ".join(rng.choices(self._words, k=_WORDS))
            code = checksum(name, version, words)
            about = f"{words}, version {version}, checksum {code}."
            if not (split_description(about)[1] or split_request(about)[1]):
                break  # a chance "not for" would take what follows out of the index
        body = f"Body {checksum('body', code)}."
        if number % _CHUNKED == 0:
            body = f'<chunk id="part" description="A part">\n{body}\n</chunk>'
        return Text(name, about, f"# {name}\n\n{body}")

    def path(self, number: int) -> Path:
        """Return the SKILL.md of a skill."""
        return self.folder / f"{number // _GROUP:03}" / f"skill-{number:07}" / "SKILL.md"

    def doc_id(self, number: int) -> str:
        """Return the id that the index gives a skill."""
        return f"{self.folder.name}:{number // _GROUP:03}/skill-{number:07}"

    def put(self, number: int, version: int, *, in_place: bool = True) -> None:
        """Write a version of a skill, over the one before or as a new file in its place."""
        path = self.path(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path if in_place else path.with_name("new")
        write_file(str(written), skill_md(self.text(number, version)).encode())
        if not in_place:
            written.replace(path)
        self.state[number] = version

    def remove(self, number: int) -> None:
        """Remove a skill and its folder."""
        shutil.rmtree(self.path(number).parent)
        del self.state[number]

    def change(self, rng: random.Random, most: int) -> None:
        """Change, add and remove up to so many skills, or go back to an older version of some."""
        for _ in range(rng.randint(1, most)):
            numbers = list(self.state)
            number, kind = rng.choice(numbers), rng.random()
            if kind < 0.15 and len(numbers) > 2:
                self.remove(number)
            elif kind < 0.3:
                self.put(max(numbers) + 1, 1)
            elif kind < 0.4:
                self.put(number, 1, in_place=False)
            else:
                self.put(number, self.state[number] + 1, in_place=rng.random() < 0.5)

    def digest(self, state: State) -> str:
        """Return the digest that an index of a state must have."""
        hashes = {number: self._hash(number, version) for number, version in state.items()}
        return digest_of({self.doc_id(number): code for number, code in hashes.items()})

    def _hash(self, number: int, version: int) -> str:
        """Return the content hash of a version; the last one is cached."""
        kept = self._hashes.get(number)
        if kept is None or kept[0] != version:
            kept = version, content_hash(skill_md(self.text(number, version)).encode())
            self._hashes[number] = kept
        return kept[1]


@dataclass(frozen=True)
class Contents:
    """What the documents of an opened index contain: description and name of each by its id."""

    digest: str
    descriptions: Mapping[str, str]
    names: Mapping[str, str]

    @classmethod
    def of(cls, index: SkillIndex) -> Contents:
        """Read all documents."""
        documents = list(index.documents())
        return cls(
            digest_of({document.doc_id: document.content_hash for document in documents}),
            {document.doc_id: document.description for document in documents},
            {document.doc_id: document.name for document in documents},
        )

    def faults(self) -> list[str]:
        """Return the documents whose name and description do not belong together."""
        return [
            f"{doc_id} holds the texts of two skills: {self.names[doc_id]!r}, {description!r}"
            for doc_id, description in self.descriptions.items()
            if not proves_itself(self.names[doc_id], description)
        ]

    def hit_faults(self, search: str, hits: Iterable[Hit]) -> list[str]:
        """Return the hits of a search that are not as in the documents."""
        return [
            f"{search}: hit {hit.doc_id} is not as in the documents"
            for hit in hits
            if self.descriptions.get(hit.doc_id) != hit.description
            or not proves_itself(hit.name, hit.description)
        ]


def search_faults(index: SkillIndex, contents: Contents, doc_id: str) -> list[str]:
    """Ask an index for one of its skills in every way, and return what is wrong with the answers.

    By its name, by its checksum (which one posting alone has), and by its whole description (whose
    vector is nearest): a lexical or dense part of another generation would not find it.
    """
    about = contents.descriptions[doc_id]
    code = about.rpartition(" ")[2].rstrip(".")
    searches = [
        ("hybrid", contents.names[doc_id]),
        ("bm25", code),
        ("bm25", checksum("body", code)),
        ("dense", f"{contents.names[doc_id]}: {about}"),
    ]
    faults = []
    for system, query in searches:
        hits = index.search(query, system=system, threshold=0.0)  # type: ignore[arg-type]
        faults += contents.hit_faults(f"{system} {query!r}", hits)
        first = hits[0].doc_id if hits else "nothing"
        if first != doc_id:
            faults.append(f"{system} {query!r}: {first} before {doc_id}")
    return faults


def absence_faults(index: SkillIndex, gone: Iterable[Text]) -> list[str]:
    """Ask for versions that the index must not know, by the term that they alone had."""
    faults = []
    for text in gone:
        code = text.description.rpartition(" ")[2].rstrip(".")
        hits = index.search(code, system="bm25", threshold=0.0)
        faults += [f"{hit.doc_id} is found by {code!r}, which is gone" for hit in hits]
    return faults


def index_faults(
    index: SkillIndex, contents: Contents, rng: random.Random, gone: Iterable[Text] = ()
) -> list[str]:
    """Check the documents of an index, and search for some of them and for what is gone."""
    faults = contents.faults() + absence_faults(index, gone)
    for doc_id in rng.sample(sorted(contents.names), min(_PROBES, len(contents.names))):
        faults += search_faults(index, contents, doc_id)
    return faults


def command_of(template: str, skills: Skills, index_dir: Path, changed: Iterable[int]) -> list[str]:
    """Fill in a command of ``skillsearch``.

    Args:
        template: Its words; ``{root}`` and ``{index}`` are replaced, and a word with ``{path}`` or
            ``{folder}`` stands for one with each changed SKILL.md, or its folder, maybe none.
        skills: The skills to index.
        index_dir: Folder of the index.
        changed: Numbers of the skills that are to be indexed.

    Returns:
        The words.
    """
    paths = [skills.path(number) for number in sorted(changed)]
    words = []
    for word in template.split():
        is_repeated = "{path}" in word or "{folder}" in word
        for path in paths if is_repeated else [Path()]:
            folders = {"root": skills.folder, "index": index_dir, "folder": path.parent}
            words.append(word.format(**folders, path=path))
    return words


def run_here(command: Sequence[str]) -> dict[str, Any]:
    """Run a command of ``skillsearch`` in this process and return its JSON output."""
    from skillsearch.cli.app import app

    with redirect_stdout(StringIO()) as output:
        app.main(list(command), prog_name="skillsearch", standalone_mode=False)
    answer: dict[str, Any] = json.loads(output.getvalue())
    return answer


@contextmanager
def skills_lock(work: Path, kind: int) -> Iterator[None]:
    """Keep the skills as they are while somebody indexes, or readers from it while they change.

    A walk over folders that change meanwhile finds what never was there at once.
    """
    with (work / "skills.lock").open("w") as file:
        fcntl.flock(file, kind)
        yield


def temporary_files(index_dir: Path) -> set[Path]:
    """Return the files and folders that are to be renamed once they are written."""
    return set(index_dir.rglob(".*"))


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder, each once, however often it is linked."""
    files = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return sum({file.st_ino: file.st_size for file in files}.values())


def timed(milliseconds: list[float], call: Callable[[], Any]) -> Any:
    """Call something and note how long it took."""
    started = time.perf_counter()
    answer = call()
    milliseconds.append(1000 * (time.perf_counter() - started))
    return answer


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return median, 99th percentile and most."""
    if len(values) < 2:
        return {}
    cuts = statistics.quantiles(values, n=100)
    return {"p50": round(cuts[49], 2), "p99": round(cuts[98], 2), "most": round(max(values), 2)}
