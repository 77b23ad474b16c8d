"""Which skills of an index are written for the search, or against the agent; nothing is ranked."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np

from skillsearch.embedders.embedder import PACKAGED, load_embedder
from skillsearch.embedders.embedding import embed
from skillsearch.errors import SkillError
from skillsearch.index.dense.likeness import LIKE_BODY
from skillsearch.index.documents.document import Document, name_hash
from skillsearch.index.documents.shadowing import name_problems
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.numbering import Floats
from skillsearch.reports.audit_text import audit_text
from skillsearch.skills.parser import decode_skill_md, parse_skill
from skillsearch.skills.resources import read_skill_md
from skillsearch.text.languages import language_of
from skillsearch.text.markdown import sections
from skillsearch.text.prose import prose
from skillsearch.text.requests import blocks, requests
from skillsearch.text.safe_text import listed, one_line
from skillsearch.text.tokenizer import document_terms
from skillsearch.types.indexing import Progress
from skillsearch.types.skills import MAX_NAME_CHARS, Diagnostic, Skill

# Share of the words of a description that the body has: lower, as is its cosine, in 98 % of
# mismatched pairs, and in 0.4 % of real skills.
SHARED_WORDS = 0.65
# A shorter body is a stub, which says too little to judge by.
_LEAST_WORDS = 100
_HEAD_CHARS = 1_000
_HEADINGS_CHARS = 600
_TERMS_CHARS = 200_000

# Of 3,000 real skills, one is among the first hits for 5 of 943 requests of unrelated skills, none
# for 6; of 15 made of other skills' requests, 12 are; AUC .9997. How many stand before the skill
# that a request comes from tells less: AUC .936.
HEADED = 6
# Where few skills are related, all head some: this multiple of the mean is needed too.
_TIMES_MEAN = 10
_UNRELATED = 0.4
_FIRST_HITS = 3
_LEAST_SCORE = 0.05
MOST_PROBES = 1_000
_TOGETHER = 64
_PROBE_CHARS = 300
_PROBE_WORDS = range(3, 41)
_SENTENCE = re.compile(r".{20,}?[.!?](?=\s)|.{8,}?[。\uff01\uff1f]", re.DOTALL)
_MOST_NAMED = 3
_HUB = (
    "It is made of what people ask for in general, so it is near any request and ranks lower; say "
    "what it does instead of how people ask."
)
_RANK = {"error": 0, "warning": 1, "note": 2}
_Doubt: TypeAlias = tuple[Document, float, tuple[str, str]]
"""A skill that may be off topic, the share of its words that the body has, and parts of that."""


def audit(index: SkillIndex, progress: Progress | None = None) -> tuple[Diagnostic, ...]:
    """Return all findings, the most severe first, then by code and path.

    Skills are read as they are on disk now, their vectors as they were indexed. Nothing is written.
    """
    report = progress or (lambda _stage, _done, _total: None)
    findings: list[Diagnostic] = []
    doubtful: list[_Doubt] = []
    probes: defaultdict[str, list[Document]] = defaultdict(list)
    for done, document in enumerate(index.documents(), 1):
        report("read", done, len(index))
        try:
            path, root = Path(document.path), Path(document.root)
            data, _ = read_skill_md(path, (root, *index.opened.settings.root_paths))
            skill, _ = parse_skill(data, doc_id=document.doc_id, path=path, root=root)
        except (SkillError, OSError) as exc:
            findings.append(Diagnostic("unreadable", "warning", one_line(str(exc)), document.path))
            continue
        source, _ = decode_skill_md(data)
        findings += (finding.at(document.path) for finding in audit_text(skill, source))
        if document.hubness > 0:
            findings.append(Diagnostic("hub", "warning", _HUB, document.path))
        probes[_probe(skill.body)].append(document)
        share = _shared_words(skill)
        if share < SHARED_WORDS:
            doubtful.append((document, share, _parts(skill.body)))
    findings += _find_off_topic(index, doubtful, report)
    findings += _find_copies(index)
    roots = index.opened.settings.roots
    findings += name_problems(index.opened.corpus.documents, roots)
    # A sentence of several skills is none of their own.
    own = {probe: some[0] for probe, some in probes.items() if probe and len(some) == 1}
    findings += _find_heads(index, own, report)
    return tuple(sorted(findings, key=lambda item: (_RANK[item.severity], item.code, item.path)))


def _shared_words(skill: Skill) -> float:
    """Return the share of the terms of a description that the body has; 1 if it is not judged."""
    body, description = skill.body[:_TERMS_CHARS], skill.description[:_TERMS_CHARS]
    language, other = language_of(description), language_of(body)
    if len(body.split()) < _LEAST_WORDS or (language and other and language != other):
        return 1.0
    terms = set(document_terms(description, language or other))
    return len(terms & set(document_terms(body, other or language))) / len(terms) if terms else 1.0


def _parts(body: str) -> tuple[str, str]:
    headings = " . ".join(heading for heading, _ in sections(body) if heading)
    return body[:_HEAD_CHARS], headings[:_HEADINGS_CHARS]


def _find_off_topic(
    index: SkillIndex, doubts: Sequence[_Doubt], tell: Progress
) -> Iterator[Diagnostic]:
    """Yield the skills whose embedded metadata is unlike both parts of the body.

    The limit holds for the packaged models; with another one, no skill is judged.
    """
    model = index.opened.settings.model.spec
    if model not in PACKAGED or not doubts:
        return
    texts = [part for _, _, parts in doubts for part in parts]
    embedder = load_embedder(model)
    bodies = embed(embedder, texts, progress=lambda done: tell("embed", done, len(texts)))
    metadata = _vectors(index, [document for document, _, _ in doubts])
    cosines = np.einsum("dpi,di->dp", bodies.reshape(len(doubts), 2, -1), metadata).max(axis=1)
    for (document, share, _), cosine in zip(doubts, cosines.tolist(), strict=True):
        if cosine < LIKE_BODY:
            message = (
                f"The body has {share:.0%} of the words of the description, and their cosine "
                f"is {cosine:.2f}; describe what the body does."
            )
            yield Diagnostic("off-topic-description", "warning", message, document.path)


def _find_copies(index: SkillIndex) -> Iterator[Diagnostic]:
    for first, *others in index.families():
        for other in others:
            if name_hash(other.name) != name_hash(first.name):
                message = f"A near-copy of {one_line(first.name, MAX_NAME_CHARS)!r} ({first.path})"
                message = f"{message} under another name; keep one of them, or say what differs."
                yield Diagnostic("near-copy", "warning", message, other.path)


def _probe(body: str) -> str:
    """Return a request that a body gives, else its first sentence; empty if it has none."""
    for request in requests(blocks(body)):
        if len(request.split()) in _PROBE_WORDS:
            return one_line(request, _PROBE_CHARS)
    for paragraph in prose(body):
        if sentence := _SENTENCE.match(paragraph):
            return one_line(sentence[0], _PROBE_CHARS)
    return ""


def _find_heads(
    index: SkillIndex, probes: Mapping[str, Document], tell: Progress
) -> Iterator[Diagnostic]:
    """Yield the skills that are among the first hits for the requests of many unrelated ones."""
    step = -(-len(probes) // MOST_PROBES) or 1
    sampled = list(islice(probes, 0, None, step))
    documents = {document.doc_id: document for document in index.documents()}
    headed: defaultdict[str, list[str]] = defaultdict(list)
    for begin in range(0, len(sampled), _TOGETHER):
        tell("search", begin, len(sampled))
        some = sampled[begin : begin + _TOGETHER]
        answers = index.search_many(some, n=_FIRST_HITS, threshold=_LEAST_SCORE, reader="off")
        for probe, answer in zip(some, answers, strict=True):
            source = probes[probe]
            vectors = _vectors(index, [source, *(documents[hit.doc_id] for hit in answer)])
            cosines = (vectors[1:] @ vectors[0]).tolist()
            for hit, cosine in zip(answer, cosines, strict=True):
                if cosine < _UNRELATED and hit.doc_id != source.doc_id:
                    headed[hit.doc_id].append(repr(one_line(source.name, MAX_NAME_CHARS)))
    mean = sum(map(len, headed.values())) / max(len(index), 1)
    for doc_id, names in headed.items():
        if len(names) >= max(HEADED, _TIMES_MEAN * mean):
            message = (
                f"It is among the first {_FIRST_HITS} hits for the requests of {len(names)} "
                f"unrelated skills: {listed(names, _MOST_NAMED)}; say only what it is for."
            )
            yield Diagnostic("heads-many", "warning", message, documents[doc_id].path)


def _vectors(index: SkillIndex, documents: Sequence[Document]) -> Floats:
    """Return the vectors of the metadata of documents of the index."""
    corpus = index.opened.corpus
    present = corpus.documents.numbers_of(document.doc_id for document in documents)
    with index.opened.guard:
        return corpus.dense.vectors_of(present)
