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
    (theft,) = find(
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
    assert (theft.loser, theft.loser_name) == ("coffee", "Coffee")
    assert (theft.winner, theft.winner_name) == ("tea", "Tea")
    assert (theft.queries, theft.share, theft.unranked) == (2, 0.5, 1)
    assert theft.lead == pytest.approx(0.5)
    assert theft.examples == ("hot water espresso", "hot waters please")
    assert not theft.is_mutual


def test_words_of_stolen_queries_say_where_they_stand():
    (theft,) = find(
        [("hot water espresso", ["coffee"]), ("hot waters please", ["coffee"])],
        [[("tea", 2.0)], [("tea", 2.0)]],
    )
    assert theft.words == (
        ConfusingWord("water", 2, 1, "nowhere"),
        ConfusingWord("hot", 2, 2, "description"),
    )
    assert theft.missing == (
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
    (theft,) = find(
        [("milk steam", ["a"]), ("milk foam", ["a"])], [[("b", 1.0)], [("b", 1.0)]], documents
    )
    rare = math.log(1 + 2.5 / 1.5)
    weights = {"milk": 2 * math.log(1 + 1.5 / 2.5), "steam": rare, "foam": rare}
    expected = sorted(weights, key=lambda word: (-weights[word], word))
    assert [word.text for word in theft.words] == expected


def test_words_of_most_documents_explain_nothing():
    documents = [
        JudgedDocument(f"d{i}", f"n{i}", "the user" if i < 60 else "milk") for i in range(90)
    ]
    (theft,) = find([("user milk", ["d80"])], [[("d0", 1.0)]], documents)
    assert (theft.words, theft.missing) == ((), ())


def test_a_part_of_a_word_is_shown_as_its_term():
    documents = (JudgedDocument("a", "a", "x"), JudgedDocument("b", "b", "open hub"))
    collection = Collection("c", documents, (JudgedQuery("q", "OpenHub"),), {"q": {"a": 1}})

    def split(text):
        return text.lower().replace("openhub", "open hub").split()

    (theft,) = confusables(collection, {"q": (("b", 1.0),)}, terms=split, least=1)
    assert [word.text for word in theft.words] == ["hub", "open"]


def test_two_that_steal_from_each_other_are_mutual():
    queries = [("x", ["coffee"]), ("y", ["coffee"]), ("z", ["tea"]), ("w", ["kite"])]
    first = [[("tea", 1.0)], [("tea", 1.0)], [("coffee", 1.0)], [("coffee", 1.0)]]
    thefts = find(queries, first)
    assert [(theft.loser, theft.winner, theft.queries, theft.is_mutual) for theft in thefts] == [
        ("coffee", "tea", 2, True),
        ("kite", "coffee", 1, False),
        ("tea", "coffee", 1, True),
    ]


def test_a_query_is_stolen_from_each_of_its_documents_and_by_several():
    """Each thief has its own share of all; with a relevant document in front nothing is stolen."""
    hot = ("hot", ["coffee", "tea"])
    assert find([hot], [[("tea", 1.0), ("coffee", 0.5)]]) == ()
    thefts = find([hot, ("tea", ["tea"])], [[("kite", 1.0)], [("tea", 1.0)]])
    assert [(theft.loser, theft.share) for theft in thefts] == [("coffee", 1.0), ("tea", 0.5)]
    thefts = find([("x", ["coffee"]), ("y", ["coffee"])], [[("tea", 1.0)], [("kite", 1.0)]])
    counted = [(theft.winner, theft.queries, theft.share) for theft in thefts]
    assert counted == [("kite", 1, 0.5), ("tea", 1, 0.5)]


def test_copies_are_one_document():
    documents = (
        *DOCUMENTS,
        JudgedDocument("tea-2", "tea", "Steep a hot drink in water"),
        JudgedDocument("coffee-2", "Coffee", "other words", "espresso crema"),
    )
    (theft,) = find(
        [("x", ["coffee"]), ("y", ["coffee-2"]), ("z", ["coffee"]), ("v", ["tea"])],
        [
            [("tea", 0.9), ("coffee-2", 0.8), ("coffee", 0.1)],
            [("tea-2", 0.9)],
            [("coffee-2", 0.9)],
            [("tea-2", 0.9)],
        ],
        documents,
    )
    assert (theft.loser, theft.winner, theft.queries) == ("coffee", "tea", 2)
    assert (theft.share, theft.unranked) == (pytest.approx(2 / 3), 1)
    assert theft.lead == pytest.approx(0.1)


def test_near_copies_share_a_place_and_steal_nothing():
    ranking = [("tea", 0.9), ("coffee", 0.9), ("kite", 0.2)]
    assert find([("a hot drink", ["coffee"])], [ranking]) == ()
    (theft,) = find([("a hot drink", ["kite"])], [ranking])
    assert (theft.winner, theft.lead) == ("tea", pytest.approx(0.7))
    (theft,) = find([("x", ["coffee"])], [[("gone", 1.0), ("tea", 0.9)]])  # the owner is not found
    assert (theft.winner, theft.lead, theft.unranked) == ("tea", None, 1)


def test_examples_and_words_are_limited():
    text = "zero one two three four five six seven eight nine"
    documents = (JudgedDocument("a", "a", "x"), JudgedDocument("b", "b", text))
    queries = [(f"{text} {i}", ["a"]) for i in range(5)]
    (theft,) = find(queries, [[("b", 1.0)]] * 5, documents)
    assert theft.queries == 5
    assert (len(theft.examples), len(theft.words)) == (MAX_EXAMPLES, MAX_WORDS)
    assert len(theft.missing) == MAX_WORDS


def test_skills_that_steal_one_query_are_not_worth_telling():
    queries = tuple(JudgedQuery(f"{n}", f"steep tea {n}") for n in range(3))
    qrels = {"0": {"tea": 1}, "1": {"tea": 1}, "2": {"kite": 1}}
    collection = Collection("drinks", DOCUMENTS, queries, qrels)
    (pair,) = confusables(collection, {f"{n}": (("coffee", 0.5),) for n in range(3)})
    assert (pair.loser, pair.winner, pair.queries) == ("tea", "coffee", 2)
