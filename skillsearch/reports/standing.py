"""How a skill compares with the first hit of a request, and which changes would move it up."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.index.documents.document import Document
from skillsearch.index.search.candidates import Nominator
from skillsearch.index.search.evidence import EVIDENCE, INTERCEPT, MEANINGS, UNVETTED
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.search.query import QueryForm
from skillsearch.index.search.search import Position
from skillsearch.index.skill_index import SkillIndex
from skillsearch.reports.health import Check
from skillsearch.text.provenance import vouch_for
from skillsearch.text.safe_text import counted, listed, one_line
from skillsearch.text.tokenizer import is_bigram, terms
from skillsearch.types.answers import Explanation, Hit, State
from skillsearch.types.json_values import Record, checked
from skillsearch.types.skills import Root

_WORD = lazy_pattern(r"\w[\w'-]*", re.UNICODE)
_NOMINATORS: Mapping[Nominator, str] = {
    "words": "its words",
    "vectors": "its meaning",
    "name": "its name, or a pin",
    "usage": "earlier requests like this one",
    "all": "the small number of skills",
}
_OF_WORDS = ("bm25_full", "bm25_metadata_alone", "rarest_term")
_OF_MEANING = ("cosine_metadata", "cosine_by_length", "cosine_examples", "stand_out")
_ADVICE = {
    "contradiction": "it names another version, or the other direction: name that of the request",
    "hubness": "say what it does, rather than the many ways in which people may ask",
}
# Log-odds that are worth a word: less moves a score by two points at most.
LEAST = 0.1
_MOST_COMPARED, _MOST_WORDS, _QUOTED_CHARS = 4, 6, 100


@dataclass(frozen=True, slots=True)
class Contribution(Record):
    """What a piece of evidence adds to the log-odds of a skill, and of the best hit."""

    name: str
    meaning: str
    own: float
    best: float

    @property
    def behind(self) -> float:
        """How far the best hit is ahead in it."""
        return self.best - self.own


@dataclass(frozen=True, slots=True)
class Standing(Record):
    """How a skill stands for a request.

    Attributes:
        skill: What is shown for it: itself, or the near-copy that stands for it.
        rank: In the answer; if the skill is not judged, in the ranking.
        score: The probability that it fits; `own_score` if no better hit had cut it down.
        nominators: What made it a candidate; empty if nothing did.
        is_judged: Whether it is among the first of the ranking, which alone may be hits.
        n: How many skills are shown at most.
        best: The skill that comes first, maybe itself; empty if none does.
        evidence: The parts that add up to the log-odds of both own scores. The parts in which the
            best skill is most ahead come first.
        lacking: Words of the request that its metadata and examples lack; if there is a rival,
            only words that the rival has. The rarest come first.
        in_body: The lacking words that its body has.
    """

    KEYS = {"is_judged": "judged"}  # noqa: RUF012 - as in `Record`

    request: str
    skill: str
    rank: int
    score: float
    own_score: float
    state: State
    threshold: float
    n: int
    nominators: tuple[Nominator, ...]
    is_judged: bool
    best: str
    best_score: float
    best_own_score: float
    evidence: tuple[Contribution, ...]
    lacking: tuple[str, ...]
    in_body: tuple[str, ...]

    @property
    def is_best(self) -> bool:
        """Whether no other skill comes before it."""
        return self.best in ("", self.skill)

    @property
    def has_rival(self) -> bool:
        """Whether a skill that fits comes before it."""
        return not self.is_best and self.best_score >= self.threshold

    def own(self, name: str) -> float:
        """Return the part of a piece of evidence in its log-odds."""
        return sum(part.own for part in self.evidence if part.name == name)

    def behind(self, names: Sequence[str]) -> float:
        """Return how much more some evidence adds to the log-odds of the best hit."""
        return sum(part.behind for part in self.evidence if part.name in names)


def find_standing(
    index: SkillIndex, document: Document, request: str, options: SearchOptions
) -> Standing | None:
    """Find how a skill stands for a request; None if the options leave it out of all answers."""
    position = index.position(request, document, options)
    if position is None:
        return None
    hit, best = position.hit, position.best
    explained = checked(hit.explain, Explanation)
    best_explained = best.explain if best else None
    form = index.analyse(request)
    has_rival = best and best.doc_id != hit.doc_id and best.score >= position.threshold
    lacking = _lacking(form, explained, best_explained if has_rival else None)
    in_body = lacking.intersection(explained.matched_terms.get("body", ()))
    return Standing(
        request=request,
        skill=_handle(index, hit),
        rank=hit.rank,
        score=hit.score,
        own_score=explained.own_score,
        state=position.state,
        threshold=position.threshold,
        n=options.n,
        nominators=position.nominators,
        is_judged=position.is_judged,
        best=_handle(index, best) if best else "",
        best_score=best.score if best else 0.0,
        best_own_score=best_explained.own_score if best_explained else 0.0,
        evidence=_contributions(position),
        lacking=_words_of(form, lacking),
        in_body=_words_of(form, in_body),
    )


def _handle(index: SkillIndex, hit: Hit) -> str:
    return index.handle(index.find(hit.doc_id))


def _contributions(position: Position) -> tuple[Contribution, ...]:
    """Return the evidence of both; parts in which the best hit is most ahead come first."""
    own, best = position.log_odds
    parts = (
        Contribution(name, MEANINGS[name], own.get(name, 0.0), best.get(name, 0.0))
        for name in MEANINGS
        if name in own or name in best
    )
    return tuple(sorted(parts, key=lambda part: -part.behind))


def _lacking(form: QueryForm, own: Explanation, rival: Explanation | None) -> set[str]:
    """Return the terms of the words of `Standing.lacking`."""
    wanted = _matched_terms(rival) if rival else {*form.weights[-1].known_idf()}
    return wanted - _matched_terms(own)


def _words_of(form: QueryForm, chosen: Collection[str]) -> tuple[str, ...]:
    """Return the words of a request that hold some terms, the rarest first.

    Of a run without blanks, whose terms are bigrams, the stretches that those cover.
    """
    idf = form.weights[-1].known_idf()
    words: dict[str, float] = {}
    for word in _WORD.findall(form.request):
        held = [term for term in terms(word, form.language) if term in chosen]
        rarity = max((idf.get(term, 0.0) for term in held), default=0.0)
        pairs = [term for term in held if is_bigram(term)]
        whole = [word] if len(pairs) < len(held) else []
        for text in (*whole, *_stretches(word, pairs)):
            words[text] = max(rarity, words.get(text, 0.0))
    return tuple(sorted(words, key=lambda text: -words[text]))


def _stretches(word: str, pairs: Sequence[str]) -> list[str]:
    """Join overlapping bigrams of a run; those that it writes in another way stand alone."""
    stretches, end = list[str](), 0
    for pair in pairs:
        start = word.find(pair, max(end - len(pair), 0))
        overlap = end - start if start >= 0 and stretches else 0
        if overlap > 0:
            stretches[-1] += pair[overlap:]
        else:
            stretches.append(pair)
        end = start + len(pair) if start >= 0 else end
    return stretches


def _matched_terms(explained: Explanation) -> set[str]:
    """Return the terms of a request that metadata or examples have."""
    fields = ("metadata", "examples")
    return {term for field in fields for term in explained.matched_terms.get(field, ())}


def check_standing(
    standing: Standing, document: Document, root: Root, option: str = ""
) -> Iterator[Check]:
    """Say in words how a skill stands, where the best hit is ahead, and which changes to make.

    The `option` names the index in commands, if it has to.
    """
    by = listed((_NOMINATORS[name] for name in standing.nominators), len(_NOMINATORS))
    none = "nothing brings it in: neither its words nor its meaning are among the best"
    yield Check.of("candidate", f"brought in by {by}", "" if by else none, "error")
    yield _check_score(standing)
    if standing.is_best:
        detail = "no skill comes before it" if standing.is_judged else "no skill comes first"
        yield Check("first", "ok", detail)
        yield from _check_evidence(standing)
    else:
        score = _shown_score(standing.best_score, standing.threshold)
        yield Check("first", "ok", f"{standing.best}, score {score}")
        yield from _compare(standing)
    for advice in _advise(standing, document, root, option):
        yield Check("to change it", "ok", advice)


def _check_score(standing: Standing) -> Check:
    detail = f"rank {standing.rank}, score {_shown_score(standing.score, standing.threshold)}"
    if standing.own_score > standing.score:
        detail += f" (of its own {standing.own_score:.2f}, but no more than the skill before it)"
    if standing.state == "fits":
        return Check(
            "score", "ok", f"{detail}: it fits, as all do from {standing.threshold:.2f} on"
        )
    if standing.state == "perhaps":
        more = f"it may fit; skills fit from {standing.threshold:.2f} on"
        return Check("score", "warning", f"{detail}: {more}")
    if not standing.is_judged:
        reason = "only the first of the ranking are looked at closely, and it is behind them"
    elif standing.score >= standing.threshold:
        shown = "first is" if standing.n == 1 else f"first {standing.n} are"
        reason = f"it fits, but only the {shown} shown"
    else:
        reason = f"too little to be shown; skills fit from {standing.threshold:.2f} on"
    return Check("score", "error", f"{detail}: {reason}")


def _shown_score(score: float, threshold: float) -> str:
    """Return a score with two digits, or more where it would seem to be beyond the threshold."""
    shown = f"{score:.2f}"
    if score < threshold and float(shown) >= float(f"{threshold:.2f}"):
        shown = f"{math.floor(score * 10_000) / 10_000:.4f}"
    return shown


def _check_evidence(standing: Standing) -> Iterator[Check]:
    """Name the evidence for and against a skill that comes first."""
    chosen = [part for part in standing.evidence if part.name != "lead" and not _is_of_all(part)]
    for name, sign, verdict in (("for it", 1, "ok"), ("against it", -1, "warning")):
        parts = sorted(chosen, key=lambda part: -sign * part.own)
        texts = [f"{part.meaning} ({part.own:+.1f})" for part in parts if sign * part.own >= LEAST]
        if texts:
            detail = "; ".join(texts[:_MOST_COMPARED])
            yield Check.of(name, detail, detail if verdict == "warning" else "")


def _is_of_all(part: Contribution) -> bool:
    """Return whether evidence depends on the request alone, and is the same for all skills."""
    return part.name == INTERCEPT or (part.name in EVIDENCE and EVIDENCE[part.name].sign == 0)


def _compare(standing: Standing) -> Iterator[Check]:
    """Name the evidence that the best hit has more of, the most first, then less of."""
    more = [part for part in standing.evidence if part.behind >= LEAST][:_MOST_COMPARED]
    for part in more:
        figures = f"{part.own:+.1f}, of the first {part.best:+.1f}"
        yield Check("behind", "warning", f"{part.meaning}: {figures}")
    less = [part for part in reversed(standing.evidence) if part.behind <= -LEAST]
    texts = (f"{part.meaning} ({-part.behind:+.1f})" for part in less[:_MOST_COMPARED])
    if detail := "; ".join(texts):
        yield Check("ahead", "ok", detail)


def _advise(standing: Standing, document: Document, root: Root, option: str) -> Iterator[str]:
    """Yield changes by which a skill would fit, each with the figure that calls for it."""
    if standing.state == "fits":
        return
    yield from _advise_on_text(standing, document, option)
    if standing.own(UNVETTED) < 0:
        yield f"vouch for its root, if you do: {vouch_for(root, option)}"
    if standing.score >= standing.threshold and standing.rank > standing.n:
        yield f"show more skills: -n {standing.rank}"
    elif standing.state == "perhaps":
        lower = math.floor(standing.score * 100) / 100
        yield f"take less for a fit: --threshold {lower:.2f}; then others fit too, even wrong ones"
    if standing.has_rival:
        best = shlex.quote(standing.best)
        yield (
            f"if {standing.best} is the wrong answer: say in its description what it is not for, "
            f"or leave it out: --exclude {best}"
        )


def _advise_on_text(standing: Standing, document: Document, option: str) -> Iterator[str]:
    if not (standing.nominators or standing.lacking):
        yield "if it is for such requests: say so in its description, which has nothing of this one"
        return
    if standing.lacking and _is_behind(standing, _OF_WORDS):
        words = listed(standing.lacking, _MOST_WORDS)
        body = f"; its body has {listed(standing.in_body, _MOST_WORDS)}" if standing.in_body else ""
        yield f"say in its name or description what the request says: {words}{body}"
    if _is_behind(standing, _OF_MEANING):
        if not document.examples:
            command = f"skillsearch enrich --pending {shlex.quote(standing.skill)}{option}"
            yield f"give it requests like this one as examples: {command}"
        elif standing.own("cosine_examples") < LEAST:
            count = counted(len(document.examples), "example request")
            yield f"none of its {count} comes near this one; add one that does"
    if standing.own("excluded") <= -LEAST:
        excluded = one_line(document.excluded, _QUOTED_CHARS)
        reason = (
            f"its description says that it is not for {excluded!r}"
            if excluded
            else "the request does"
        )
        yield f"let nothing exclude it: {reason}"
    yield from (advice for name, advice in _ADVICE.items() if standing.own(name) <= -LEAST)


def _is_behind(standing: Standing, names: Sequence[str]) -> bool:
    return not standing.has_rival or standing.behind(names) >= LEAST
