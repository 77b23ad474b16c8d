"""The order in which skills are loaded, against `graphlib` and by brute force."""

from graphlib import CycleError, TopologicalSorter

from hypothesis import given
from hypothesis import strategies as st

from skillsearch.index.documents.document import Document
from skillsearch.library.load_order import MAX_CYCLES, load_order


def make_document(name, requires=()):
    return Document(
        doc_id=f"team:{name}",
        name=name,
        description="",
        path=f"/skills/{name}/SKILL.md",
        root="/skills",
        content_hash="",
        body_hash="",
        hidden=False,
        requires=tuple(requires),
    )


def order_of(graph, *wanted):
    documents = {name: make_document(name, requires) for name, requires in graph.items()}
    return load_order(wanted, lambda text: documents.get(text.partition("@")[0]))


def names(result):
    return [document.name for document in result.order]


def test_what_a_skill_needs_comes_first():
    graph = {"report": ["charts", "tables@>=1"], "charts": ["data"], "tables": ["data"], "data": []}
    result = order_of(graph, "report")
    assert names(result) == ["data", "charts", "tables", "report"]
    assert (result.missing, result.cycles) == ((), ())


def test_skills_that_need_nothing_stay_in_the_order_asked_for():
    graph = {"b": [], "a": [], "c": ["a"]}
    assert names(order_of(graph, "c", "b", "a", "b")) == ["a", "c", "b"]


def test_the_documents_are_those_that_were_resolved():
    tea = make_document("tea", ["TEA-POT", "pot"])
    pot = make_document("pot")
    result = load_order(["tea"], {"tea": tea, "TEA-POT": pot, "pot": pot}.get)
    assert result.order == (pot, tea)


def test_a_cycle_is_told_once_and_its_skills_are_loaded():
    """The requirement that closes it is left out of account."""
    graph = {"start": ["a"], "a": ["b", "b@1"], "b": ["c"], "c": ["a", "a@>=1", "d"], "d": []}
    result = order_of(graph, "start")
    assert result.cycles == (("a", "b", "c"),)
    assert names(result) == ["d", "c", "b", "a", "start"]


def test_a_chain_may_be_long():
    chain = {str(number): [str(number + 1)] for number in range(10_000)}
    result = order_of({**chain, "10000": []}, "0")
    assert names(result) == [str(number) for number in range(10_000, -1, -1)]


def test_only_so_many_cycles_are_told():
    """A chain of skills that all need the first is one cycle for each of them."""
    chain = {str(number): ["0", str(number + 1)] for number in range(2_000)}
    result = order_of({**chain, "2000": []}, "0")
    assert len(result.cycles) == MAX_CYCLES
    assert result.cycles[:3] == (("0",), ("0", "1"), ("0", "1", "2"))
    assert len(result.order) == 2_001


NODES = st.integers(0, 7).map(str)
GRAPHS = st.dictionaries(NODES, st.lists(NODES, max_size=4), max_size=8)
WANTED = st.lists(NODES, max_size=4)


def reachable(graph, starts):
    seen, waiting = set(), [start for start in starts if start in graph]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += [other for other in graph[node] if other in graph]
    return seen


def has_cycle(graph, nodes):
    try:
        TopologicalSorter({node: graph[node] for node in nodes}).prepare()
    except CycleError:
        return True
    return False


@given(GRAPHS, WANTED)
def test_what_is_loaded_is_what_can_be_reached(graph, wanted):
    result = order_of(graph, *wanted)
    expected = reachable(graph, wanted)
    assert sorted(names(result)) == sorted(expected)
    gone = {(need, name) for name in expected for need in graph[name] if need not in graph}
    gone |= {(name, "") for name in wanted if name not in graph}
    assert {(need.requirement, need.needed_by) for need in result.missing} == gone
    assert len(result.missing) == len(gone)


@given(GRAPHS, WANTED)
def test_every_skill_comes_after_what_it_needs_unless_that_needs_it_too(graph, wanted):
    rank = {name: number for number, name in enumerate(names(order_of(graph, *wanted)))}
    for name in rank:
        for need in set(graph[name]) & set(rank):
            assert rank[need] < rank[name] or name in reachable(graph, [need])


@given(GRAPHS, WANTED)
def test_cycles_are_found_where_there_are_any(graph, wanted):
    result = order_of(graph, *wanted)
    nodes = reachable(graph, wanted)
    assert bool(result.cycles) is has_cycle(graph, nodes)
    assert len(set(result.cycles)) == len(result.cycles)
    for cycle in result.cycles:
        assert all(b in graph[a] for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True))
    closing = {(cycle[-1], cycle[0]) for cycle in result.cycles}
    opened = {
        name: [need for need in needs if (name, need) not in closing]
        for name, needs in graph.items()
    }
    assert not has_cycle(opened, nodes)
