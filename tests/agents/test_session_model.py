"""A session against a naive model of lists and dictionaries, in random order of calls."""

from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from skillsearch.agents.session import DocSelection, LoadedEntry, SkillSession

START = datetime(2026, 3, 1, tzinfo=UTC)
AGENTS = st.sampled_from(["", "a", "a/b", "a%2Fb"])
NAMES = st.sampled_from(["c", "b/c", "a/c", "x:y z", "周报", ""])
DOCS = st.none() | st.lists(st.sampled_from(["USAGE.md", "docs/é.md", "*", ""]), max_size=3)
CHUNKS = st.sampled_from(["setup", "errors", "[]"])
LIFETIMES = st.sampled_from(["turn", "once", "session"])
BOUNDS = st.none() | st.integers(1, 3)


class Owner:
    """A plain model of one agent's session."""

    def __init__(self):
        self.order = []  # loaded skills, oldest touch first
        self.since = {}
        self.docs = {}  # lists; None for all
        self.chunks = {}
        self.lifetimes = {}
        self.lifetime = "turn"
        self.bound = None

    def put_last(self, name):
        self.order = [other for other in self.order if other != name] + [name]

    def forget(self, name):
        self.order = [other for other in self.order if other != name]
        for part in (self.since, self.docs, self.chunks, self.lifetimes):
            part.pop(name, None)

    def make_room(self):
        """Drop the oldest while there are too many, and return them."""
        evicted = []
        while self.bound and len(self.order) > self.bound:
            evicted.append(self.order[0])
            self.forget(self.order[0])
        return tuple(evicted)

    def note(self, name):
        """Touch a skill where it is loaded, and give it a lifetime where it is new."""
        self.lifetimes.setdefault(name, self.lifetime)
        if name in self.order:
            self.put_last(name)

    def entries(self):
        return tuple(
            LoadedEntry(
                name,
                self.since[name],
                tuple(self.docs.get(name, [])) if self.docs.get(name, []) is not None else (),
                self.docs.get(name, []) is None,
                tuple(self.chunks.get(name, [])),
            )
            for name in self.order
        )


class SessionMachine(RuleBasedStateMachine):
    """Several agents on one state; each call is made on the model too."""

    @initialize()
    def begin(self):
        """Start with a state that holds a key of the host."""
        self.now = START
        self.state = {"host": "ours"}
        self.copy = dict(self.state)
        self.owners = {}
        self.sessions = {}

    def pair(self, agent):
        if agent not in self.sessions:
            self.owners.setdefault(agent, Owner())
            self.open(agent)
        return self.sessions[agent], self.owners[agent]

    def open(self, agent):
        owner = self.owners[agent]
        session = SkillSession(
            self.state,
            agent=agent,
            lifetime=owner.lifetime,
            max_loaded=owner.bound,
            clock=lambda: self.now,
        )
        self.sessions[agent] = session
        assert session.opening.evicted == owner.make_room()
        self.replay(session.opening)

    def replay(self, delta):
        for key, value in delta.items():
            assert self.copy.get(key) != value
            if value is None:
                del self.copy[key]
            else:
                self.copy[key] = value

    @rule(agent=AGENTS, name=NAMES, docs=DOCS, include_all=st.booleans())
    def load(self, agent, name, docs, include_all):
        session, owner = self.pair(agent)
        delta = session.load(name, docs, include_all_docs=include_all)
        if name not in owner.order:
            owner.since[name] = self.now
        owner.put_last(name)
        owner.lifetimes[name] = owner.lifetime
        if include_all:
            owner.docs[name] = None
        elif docs:
            owner.docs[name] = list(dict.fromkeys(docs))
        assert delta.evicted == owner.make_room()
        self.replay(delta)

    @rule(agent=AGENTS, name=NAMES)
    def unload(self, agent, name):
        session, owner = self.pair(agent)
        self.replay(session.unload(name))
        owner.forget(name)

    @rule(
        agent=AGENTS,
        name=NAMES,
        docs=DOCS,
        include_all=st.booleans(),
        mode=st.sampled_from(["add", " ADD", "replace", "clear", "other"]),
    )
    def select_docs(self, agent, name, docs, include_all, mode):
        session, owner = self.pair(agent)
        selection = session.select_docs(name, docs, include_all_docs=include_all, mode=mode)
        mode = "add" if mode == " ADD" else mode
        chosen = owner.docs.get(name, [])
        if mode == "clear":
            chosen = []
        elif include_all or chosen is None:
            chosen = None
        elif mode == "add":
            chosen = list(dict.fromkeys(chosen + (docs or [])))
        else:
            chosen = list(dict.fromkeys(docs or []))
        owner.docs[name] = chosen
        owner.note(name)
        assert selection.mode == ("replace" if mode == "other" else mode)
        assert selection.include_all == (chosen is None)
        assert list(selection.names) == (chosen or [])
        self.replay(selection.delta)

    @rule(agent=AGENTS, name=NAMES, chunk=CHUNKS)
    def activate_chunk(self, agent, name, chunk):
        session, owner = self.pair(agent)
        self.replay(session.activate_chunk(name, chunk))
        active = owner.chunks.setdefault(name, [])
        if chunk not in active:
            active.append(chunk)
        owner.note(name)

    @rule(agent=AGENTS, ended=st.sampled_from(["turn", "once"]))
    def end(self, agent, ended):
        session, owner = self.pair(agent)
        self.replay(session.begin_turn() if ended == "turn" else session.end_request())
        for name in [name for name, lifetime in owner.lifetimes.items() if lifetime == ended]:
            owner.forget(name)

    @rule(agent=AGENTS, lifetime=LIFETIMES, bound=BOUNDS)
    def reopen(self, agent, lifetime, bound):
        _, owner = self.pair(agent)
        owner.lifetime, owner.bound = lifetime, bound
        self.open(agent)

    @rule(agent=AGENTS)
    def pass_through_json(self, agent):
        """Write the state as JSON, read it back, and open all sessions on it."""
        session, _ = self.pair(agent)
        self.state = SkillSession.from_json(session.to_json()).state
        for other in self.sessions:
            self.open(other)

    @rule(minutes=st.integers(1, 90))
    def wait(self, minutes):
        self.now += timedelta(minutes=minutes)

    @invariant()
    def the_session_agrees_with_the_model(self):
        """In everything that can be asked of it."""
        for agent, session in getattr(self, "sessions", {}).items():
            owner = self.owners[agent]
            assert session.loaded() == owner.entries()
            for name in ("c", "b/c", "never"):
                docs = owner.docs.get(name, [])
                assert session.is_loaded(name) == (name in owner.order)
                assert session.selection(name) == DocSelection(tuple(docs or []), docs is None)
                assert session.active_chunks(name) == tuple(owner.chunks.get(name, []))

    @invariant()
    def the_changes_told_are_the_changes_made(self):
        """The host that replays them has the same state, its own key included."""
        if hasattr(self, "state"):
            assert self.copy == self.state
            assert self.state["host"] == "ours"


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
