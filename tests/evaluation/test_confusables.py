"""Who steals whose queries, and by which words."""

import math

import pytest

from skillsearch.evaluation.confusables import MAX_EXAMPLES, MAX_WORDS, ConfusingWord, confusables
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery

DOCUMENTS = (
    JudgedDocument("coffee", "Coffee", "brew a hot drink", "espresso crema"),
    JudgedDocument("tea", "Tea", "steep a hot drink in water", "leaves"),
    JudgedDocument("kite", "Kite", "fly high"),
)


def terms(text):
    """Split a text into words without a plural s, "a" left out."""
    return [word.removesuffix("s") for word in text.lower().split() if word != "a"]


def find(queries, rankings, documents=DOCUMENTS):
    """Find confusions; queries are (text, relevant ids), rankings are (id, score) pairs."""
    collection = Collection(
        name="drinks",
        documents=tuple(documents),
        queries=tuple(JudgedQuery(f"q{i}", text) for i, (text, _) in enumerate(queries)),
        qrels={f"q{i}": {**dict.fromkeys(ids, 2), "x": 0} for i, (_, ids) in enumerate(queries)},
    )
    answers = {f"q{i}": tuple(ranking) for i, ranking in enumerate(rankings)}
    return confusables(collection, answers, terms=terms, least=1)


def test_a_theft_counts_queries_whose_first_hit_is_another_skill():
    (found,) = find(
        [
            ("hot water espresso", ["coffee"]),
            ("hot waters please", ["coffee"]),
            ("coffee", ["coffee"]),
            ("espresso", ["coffee"]),
        ],
        [
            [("tea", 0.9), ("kite", 0.5), ("coffee", 0.4)],
            [("tea", 0.8)],
            [("coffee", 0.7), ("tea", 0.6)],
            [],
        ],
    )
    assert (found.loser, found.loser_name) == ("coffee", "Coffee")
    assert (found.winner, found.winner_name) == ("tea", "Tea")
    assert (found.queries, found.share, found.unranked) == (2, 0.5, 1)
    assert found.lead == pytest.approx(0.5)
    assert found.examples == ("hot water espresso", "hot waters please")
    assert not found.is_mutual


def test_words_of_stolen_queries_say_where_they_stand():
    (found,) = find(
        [("hot water espresso", ["coffee"]), ("hot waters please", ["coffee"])],
        [[("tea", 2.0)], [("tea", 2.0)]],
    )
    assert found.words == (
        ConfusingWord("water", 2, 1, "nowhere"),
        ConfusingWord("hot", 2, 2, "description"),
    )
    assert found.missing == (
        ConfusingWord("espresso", 1, 0, "body"),
        ConfusingWord("water", 2, 1, "nowhere"),
        ConfusingWord("please", 1, 0, "nowhere"),
    )


def test_words_are_ranked_by_queries_and_rarity():
    """Count times Lucene's idf, by hand: two queries outweigh a rarer word of one."""
    documents = (
        JudgedDocument("a", "a", "x"),
        JudgedDocument("b", "b", "steam milk foam"),
        JudgedDocument("c", "c", "milk"),
    )
    (found,) = find(
        [("milk steam", ["a"]), ("milk foam", ["a"])], [[("b", 1.0)], [("b", 1.0)]], documents
    )
    rare = math.log(1 + 2.5 / 1.5)
    weights = {"milk": 2 * math.log(1 + 1.5 / 2.5), "steam": rare, "foam": rare}
    expected = sorted(weights, key=lambda word: (-weights[word], word))
    assert [word.text for word in found.words] == expected


def test_words_of_most_documents_explain_nothing():
    documents = [
        JudgedDocument(f"d{i}", f"n{i}", "the user" if i < 60 else "milk") for i in range(90)
    ]
    (found,) = find([("user milk", ["d80"])], [[("d0", 1.0)]], documents)
    assert (found.words, found.missing) == ((), ())


def test_a_part_of_a_word_is_shown_as_its_term():
    documents = (JudgedDocument("a", "a", "x"), JudgedDocument("b", "b", "open hub"))
    collection = Collection("c", documents, (JudgedQuery("q", "OpenHub"),), {"q": {"a": 1}})

    def split(text):
        return text.lower().replace("openhub", "open hub").split()

    (found,) = confusables(collection, {"q": (("b", 1.0),)}, terms=split, least=1)
    assert [word.text for word in found.words] == ["hub", "open"]


def test_two_that_steal_from_each_other_are_mutual():
    queries = [("x", ["coffee"]), ("y", ["coffee"]), ("z", ["tea"]), ("w", ["kite"])]
    first = [[("tea", 1.0)], [("tea", 1.0)], [("coffee", 1.0)], [("coffee", 1.0)]]
    found = find(queries, first)
    assert [(item.loser, item.winner, item.queries, item.is_mutual) for item in found] == [
        ("coffee", "tea", 2, True),
        ("kite", "coffee", 1, False),
        ("tea", "coffee", 1, True),
    ]


def test_a_query_is_stolen_from_each_of_its_documents_and_by_several():
    """Each thief has its own share of all; with a relevant document in front nothing is stolen."""
    hot = ("hot", ["coffee", "tea"])
    assert find([hot], [[("tea", 1.0), ("coffee", 0.5)]]) == ()
    found = find([hot, ("tea", ["tea"])], [[("kite", 1.0)], [("tea", 1.0)]])
    assert [(item.loser, item.share) for item in found] == [("coffee", 1.0), ("tea", 0.5)]
    found = find([("x", ["coffee"]), ("y", ["coffee"])], [[("tea", 1.0)], [("kite", 1.0)]])
    counted = [(item.winner, item.queries, item.share) for item in found]
    assert counted == [("kite", 1, 0.5), ("tea", 1, 0.5)]


def test_copies_are_one_document():
    documents = (
        *DOCUMENTS,
        JudgedDocument("tea-2", "tea", "Steep a hot drink in water"),
        JudgedDocument("coffee-2", "Coffee", "other words", "espresso crema"),
    )
    found = find(
        [("x", ["coffee"]), ("y", ["coffee-2"]), ("z", ["coffee"]), ("v", ["tea"])],
        [
            [("tea", 0.9), ("coffee-2", 0.8), ("coffee", 0.1)],
            [("tea-2", 0.9)],
            [("coffee-2", 0.9)],
            [("tea-2", 0.9)],
        ],
        documents,
    )
    (item,) = found
    assert (item.loser, item.winner, item.queries) == ("coffee", "tea", 2)
    assert (item.share, item.unranked) == (pytest.approx(2 / 3), 1)
    assert item.lead == pytest.approx(0.1)


def test_near_copies_share_a_place_and_steal_nothing():
    ranking = [("tea", 0.9), ("coffee", 0.9), ("kite", 0.2)]
    assert find([("a hot drink", ["coffee"])], [ranking]) == ()
    (found,) = find([("a hot drink", ["kite"])], [ranking])
    assert (found.winner, found.lead) == ("tea", pytest.approx(0.7))
    (found,) = find([("x", ["coffee"])], [[("gone", 1.0), ("tea", 0.9)]])  # the owner is not found
    assert (found.winner, found.lead, found.unranked) == ("tea", None, 1)


def test_examples_and_words_are_limited():
    text = "zero one two three four five six seven eight nine"
    documents = (JudgedDocument("a", "a", "x"), JudgedDocument("b", "b", text))
    queries = [(f"{text} {i}", ["a"]) for i in range(5)]
    (found,) = find(queries, [[("b", 1.0)]] * 5, documents)
    assert found.queries == 5
    assert (len(found.examples), len(found.words)) == (MAX_EXAMPLES, MAX_WORDS)
    assert len(found.missing) == MAX_WORDS


def test_skills_that_steal_one_query_are_not_worth_telling():
    queries = tuple(JudgedQuery(f"{n}", f"steep tea {n}") for n in range(3))
    qrels = {"0": {"tea": 1}, "1": {"tea": 1}, "2": {"kite": 1}}
    collection = Collection("drinks", DOCUMENTS, queries, qrels)
    (pair,) = confusables(collection, {f"{n}": (("coffee", 0.5),) for n in range(3)})
    assert (pair.loser, pair.winner, pair.queries) == ("tea", "coffee", 2)
