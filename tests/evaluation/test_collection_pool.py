"""The documents of several collections as one corpus, and copies among documents."""

from skillsearch.evaluation.pools import copies, pool_collections
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery

TEA = JudgedDocument("tea", "steep-tea", "Steep green tea.", "Use 80 C.")
TEA_AGAIN = JudgedDocument("tea2", "steep-tea", "Steep green tea.", "Use 80 C.")
JUICE = JudgedDocument("juice", "press-juice", "Press juice.", language="en")
FIRST = Collection(
    "first",
    (TEA, TEA_AGAIN, JUICE),
    (JudgedQuery("q", "make tea"),),
    {"q": {"tea": 2, "juice": 0}},
    ignored={"q": frozenset({"juice"})},
    negatives=(JudgedQuery("n1", "fly a kite"), JudgedQuery("n2", "sing a song")),
    notes=("a note",),
)
SECOND = Collection(
    "second",
    (
        JudgedDocument("a", "steep-tea", "Steep green tea.", "Use 80 C."),
        JudgedDocument("b", "steep-tea", "Steep green tea.", "Use 90 C."),
        JudgedDocument("d", "boil-water", "Boil water."),
    ),
    (JudgedQuery("q", "a pot of tea"), JudgedQuery("r", "hot water")),
    {"q": {"a": 1, "b": 1}, "r": {"d": 1}},
    ignored={"r": frozenset({"a"})},
)


def ids(collection):
    return [document.doc_id for document in collection.documents]


def test_every_collection_has_the_documents_of_all_and_its_own_judgments():
    """A copy in an earlier collection stands for a later one; copies within one stay."""
    first, second = pool_collections([FIRST, SECOND])
    assert first.documents == second.documents
    assert ids(first) == ["first/tea", "first/tea2", "first/juice", "second/b", "second/d"]
    assert (first.documents[2].description, first.documents[2].language) == ("Press juice.", "en")
    assert first.pool == second.pool != ""
    assert (first.name, first.queries) == ("first", FIRST.queries)
    assert (second.name, second.queries) == ("second", SECOND.queries)
    assert first.qrels == {"q": {"first/tea": 2, "first/juice": 0}}
    assert first.ignored == {"q": {"first/juice"}}
    assert second.qrels["q"] == {"first/tea": 1, "first/tea2": 1, "second/b": 1}
    assert second.qrels["r"] == {"second/d": 1}
    assert second.ignored == {"r": {"first/tea", "first/tea2"}}
    assert (first.negatives, second.negatives) == ((), ())
    pooled = "Asked among the 5 documents of 2 collections together."
    left = "Not asked: its 2 negatives, which another collection may answer."
    assert first.notes == ("a note", f"{pooled} {left}")
    assert second.notes == (pooled,)


def test_of_several_judgments_of_one_document_the_highest_counts():
    copies = Collection(
        "copies", (TEA, TEA_AGAIN), (JudgedQuery("q", "tea"),), {"q": {"tea": 0, "tea2": 3}}
    )
    first = Collection("one", (TEA,), (JudgedQuery("p", "tea"),), {"p": {"tea": 1}})
    _, pooled = pool_collections([first, copies])
    assert pooled.qrels == {"q": {"one/tea": 3}}
    assert ids(pooled) == ["one/tea"]


def test_a_slash_in_an_id_makes_no_two_ids_the_same():
    documents = (JudgedDocument("b/c", "x", "x"), JudgedDocument("c", "y", "y"))
    first = Collection("a", documents[:1], (JudgedQuery("q", "x"),), {"q": {"b/c": 1}})
    second = Collection("b", documents[1:], (JudgedQuery("q", "y"),), {"q": {"c": 1}})
    assert ids(pool_collections([first, second])[0]) == ["a/b/c", "b/c"]


def document(doc_id, name="n", description="", body=""):
    return JudgedDocument(doc_id, name, description, body)


def test_copies_share_their_name_and_body_or_description():
    documents = [
        document("a", description="D", body="B"),
        document("b", description="d"),
        document("c", description="E", body=" b\n"),
        document("d", description="e", body="X"),
        document("e", name="m", description="D", body="B"),
        document("f"),
        document("g"),
    ]
    groups = copies(documents)
    assert {doc_id: set(group) for doc_id, group in groups.items()} == {
        **{doc_id: set("abcd") for doc_id in "abcd"},
        **{doc_id: {doc_id} for doc_id in "efg"},
    }
    assert len(set(groups.values())) == 4


def test_a_document_can_join_two_groups_of_copies():
    documents = [document("a", body="B"), document("b", "n", "D"), document("c", "n", "D", "B")]
    assert {frozenset(group) for group in copies(documents).values()} == {frozenset("abc")}
