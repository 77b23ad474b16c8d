"""How good the answers of compared systems are: rankings, languages, pairs, and "none"; pure."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from comparison.rows import Answer, Judged, Language, Named, Negatives, Pairs
from comparison.tables import OURS
from skillsearch.evaluation.assess import assess, recall_at_false
from skillsearch.evaluation.comparison import RESAMPLES, interval
from skillsearch.evaluation.languages import query_languages
from skillsearch.evaluation.states import DEPTH
from skillsearch.evaluation.types import Collection, PerQuery, Ranking, SystemAnswers

TWIN = "twin"
Pair = tuple[str, str]


def judge(
    collection: Collection, answers: Mapping[str, Mapping[str, Answer]], pairs: Iterable[Pair] = ()
) -> dict[str, Judged]:
    """Return how good the answers of each system are: means, intervals, chance against ours.

    Args:
        collection: What was asked.
        answers: The answers of each system by the id of the request, ours first if they are there.
        pairs: Ids of requests that differ in one thing, so that other skills are right.
    """
    ids = [query.query_id for query in collection.queries]
    systems = [
        SystemAnswers(name, "", {key: of_system[key]["hits"] for key in ids})
        for name, of_system in answers.items()
    ]
    report = assess(collection, systems, examples=0)
    chances = {
        comparison.system: comparison.p_holm
        for comparison in report.comparisons
        if (comparison.baseline, comparison.measure) == (OURS, "nDCG@10")
    }
    judged: dict[str, Judged] = {}
    for system in report.systems:
        of_system, per_query = answers[system.name], system.per_query
        ndcg, success_1, success_5 = (
            (system.means[measure], *system.intervals[measure])
            for measure in ("nDCG@10", "Success@1", "Success@5")
        )
        row: Judged = {"ndcg": ndcg, "success_1": success_1, "success_5": success_5}
        if system.name in chances:
            row["p_holm"] = chances[system.name]
        first = per_query["Success@1"]
        row["told"] = mean_and_interval([first[key] * of_system[key]["fits"] for key in ids])
        row["languages"] = by_language(collection, per_query)
        judged[system.name] = {
            **row,
            **judge_pairs(collection, of_system, pairs),
            **judge_negatives(collection, of_system),
        }
    return judged


def mean_and_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of some values and its 95 % interval."""
    return (statistics.fmean(values), *interval(values))


def by_language(collection: Collection, per_query: Mapping[str, PerQuery]) -> dict[str, Language]:
    """Return nDCG@10, R@5 and the number of requests of each language, the largest first."""
    spoken = query_languages(collection.queries)
    return {
        name: {
            "ndcg": statistics.fmean(per_query["nDCG@10"][key] for key in ids),
            "recall": statistics.fmean(per_query["R@5"][key] for key in ids),
            "requests": count,
        }
        for name, count in Counter(spoken.values()).most_common()
        if (ids := [key for key, language in spoken.items() if language == name])
    }


def judge_pairs(
    collection: Collection, answers: Mapping[str, Answer], pairs: Iterable[Pair]
) -> Pairs:
    """Return for how many pairs a best skill stands first in both; nothing without pairs.

    Pairs that share a best skill are left out, since a system that is blind to the difference may
    be right about them.
    """
    best = {
        key: {skill for skill, grade in grades.items() if grade == max(grades.values())}
        for key, grades in collection.qrels.items()
        if max(grades.values(), default=0) > 0
    }
    apart = [pair for pair in pairs if best.keys() >= {*pair} and not best[pair[0]] & best[pair[1]]]

    def is_right(key: str) -> bool:
        hits = answers[key]["hits"]
        return bool(hits) and hits[0][0] in best[key]

    values = [float(is_right(own) and is_right(other)) for own, other in apart]
    return {"contrast": mean_and_interval(values), "pairs": len(values)} if values else {}


def judge_negatives(collection: Collection, answers: Mapping[str, Answer]) -> Negatives:
    """Return shares of unanswerable requests with an answer, and what a threshold would keep.

    They are those of the kind `TWIN` if there are any, else all. Kinds are not equally hard, so
    the shares of each stand under ``kinds`` too.
    """
    kinds: defaultdict[str, list[Answer]] = defaultdict(list)
    for request in collection.negatives:
        kinds[request.kind].append(answers[request.query_id])
    if not kinds:
        return {}
    none = kinds.get(TWIN) or [answer for of_kind in kinds.values() for answer in of_kind]
    right = [
        best_right(answers[request.query_id]["hits"], collection.qrels[request.query_id])
        for request in collection.queries
    ]
    wrong = [answer["hits"][0][1] if answer["hits"] else -np.inf for answer in none]
    return {
        **shares_of(none),
        "kinds": {kind: shares_of(of_kind) for kind, of_kind in kinds.items()},
        "kept": keep(np.array(right), np.array(wrong)),
    }


def shares_of(answers: Sequence[Answer]) -> Named:
    """Return for how many answers a skill fits, and for how many it does or may."""
    return {
        "fits": mean_and_interval([float(answer["fits"]) for answer in answers]),
        "named": mean_and_interval([float(answer["named"]) for answer in answers]),
    }


def best_right(ranking: Ranking, grades: Mapping[str, int]) -> float:
    """Return the best score of a right skill among the first five, minus infinity without one."""
    return max((score for key, score in ranking[:DEPTH] if grades.get(key, 0) > 0), default=-np.inf)


def keep(right: NDArray[np.float64], wrong: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the share of right scores above the threshold that few wrong ones pass, and interval.

    For the interval both are drawn again, so that it has the chance in the threshold too.
    """
    rng = np.random.default_rng(0)
    samples = (
        (rng.choice(right, len(right)), rng.choice(wrong, len(wrong))) for _ in range(RESAMPLES)
    )
    again = [recall_at_false(ours, theirs) for ours, theirs in samples]
    low, high = np.quantile(again, (0.025, 0.975))
    return recall_at_false(right, wrong), float(low), float(high)
