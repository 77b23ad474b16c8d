"""Tests of what is to become of an index's roots, whatever it holds by then."""

from contextlib import suppress
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillsearch.errors import ConfigError, RootError, StorageError
from skillsearch.index.indexing.builder import Builder
from skillsearch.index.roots.held import last_request
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.roots.root_change import EXAMPLES, RootChange, default_follows
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.settings.table import Settings
from skillsearch.types.skills import Root

NAMES = "abc"


@pytest.fixture
def roots(tmp_path, make_skill):
    for name in NAMES:
        make_skill(tmp_path / name, f"{name}-skill")
    return {name: tmp_path / name for name in NAMES}


@pytest.fixture
def folder(tmp_path):
    return IndexFolder(tmp_path / "index")


def change(roots, names="", how="add", **more):
    settings = Settings(model="hashing", sources={"model": "flag"}, **more)
    return RootChange(tuple(roots[name] for name in names), how, settings)


def names_of(request):
    return "".join(root.name for root in request.roots)


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["add", "replace", "remove", "keep"]), st.sets(st.sampled_from(NAMES))
        ),
        max_size=6,
    )
)
def test_changes_do_to_the_roots_what_they_do_to_a_set(steps, tmp_path_factory):
    base = tmp_path_factory.getbasetemp() / "of-a-set"
    roots = {name: base / name for name in NAMES}
    for root in roots.values():
        root.mkdir(parents=True, exist_ok=True)
    held, expected = None, []
    for how, chosen in [("add", {"a"}), *steps]:
        named = sorted(chosen)
        step = change(roots, named, how)
        if how == "remove":
            after = [name for name in expected if name not in chosen]
            if not chosen <= set(expected) or not after:
                with pytest.raises(RootError):
                    step.applied_to(held)
                continue
        elif how == "replace":
            if not named:
                continue  # would hold what this machine has in the usual places
            after = named
        else:
            after = expected + [name for name in named if name not in expected]
        held, expected = step.applied_to(held), after
        assert names_of(held) == "".join(expected)


def test_two_changes_end_alike_whichever_comes_first(roots):
    first = change(roots, "ab").applied_to(None)
    changes = [
        change(roots, "c"),
        change(roots, "a", "remove"),
        change(roots, "b", trust=("fetched",)),
        change(roots, how="keep"),
    ]
    ends = set()
    for order in permutations(changes):
        held = first
        for step in order:
            held = step.applied_to(held)
        ends.add((frozenset(held.roots), tuple(sorted(held.trust.items())), held.model))
    assert ends == {
        (frozenset((roots["b"], roots["c"])), ((str(roots["b"]), "fetched"),), "hashing")
    }


def test_a_root_that_is_not_held_cannot_be_removed(roots):
    held = change(roots, "ab").applied_to(None)
    with pytest.raises(RootError, match=r"/c is not a root of this index. Its roots: .*/a, .*/b$"):
        change(roots, "ac", "remove").applied_to(held)
    with pytest.raises(RootError, match="Nothing would be left in this index; say what"):
        change(roots, "ab", "remove").applied_to(held)
    with pytest.raises(RootError, match="Its roots: none"):
        change(roots, "a", "remove").applied_to(None)


def test_a_root_of_the_settings_stays_until_it_is_taken_out_there(roots):
    held = change(roots, "ab").applied_to(None)
    settings = Settings(roots=(roots["a"],), sources={"roots": "flag"})
    gone = RootChange((roots["a"],), "remove", settings)
    with pytest.raises(RootError, match=r"/a is a root of the settings \(flag\), so the next"):
        gone.applied_to(held)


def test_the_examples_are_removed_by_their_name(roots):
    held = RootChange((roots["a"],), examples=True).applied_to(None)
    assert held.roots == (roots["a"], EXAMPLES)
    assert RootChange((), "remove", examples=True).applied_to(held).roots == (roots["a"],)


def test_a_root_that_is_gone_can_be_removed_and_nothing_else_is_done_before(roots):
    held = change(roots, "abc").applied_to(None)
    for name in "ab":
        roots[name].rename(roots[name].with_name(f"{name}-away"))
    with pytest.raises(RootError, match=r"or leave its skills out: .*--replace .*/c"):
        change(roots, "a", "remove").applied_to(held)
    assert names_of(change(roots, "ab", "remove").applied_to(held)) == "c"


def test_a_folder_that_nobody_named_is_the_projects_and_not_vouched_for(
    roots, make_skill, tmp_path, home
):
    """Naming it vouches for it, and so does naming the project; it stays the project's."""
    make_skill(tmp_path / ".claude" / "skills")
    skills, project = tmp_path / ".claude" / "skills", str(tmp_path)
    held = change(roots, "a").applied_to(None)
    follow = RootChange(follows="projects", folders=(tmp_path / "a",))
    following = follow.applied_to(held)
    assert (following.roots, following.followed) == ((roots["a"], skills), (str(skills),))
    assert following.projects == {str(skills): (project,)}
    vouched = Settings(trust=(f"{project}=vetted",), sources={"trust": "flag"})
    by_project = RootChange(how="keep", settings=vouched).applied_to(following)
    named = RootChange((skills,)).applied_to(following)
    assert named.followed == ()
    for request, trust in ((following, "project"), (by_project, "vetted"), (named, "vetted")):
        (root,) = request.with_trust([Root(skills, "skills")])
        assert (root.trust, root.projects) == (trust, (project,))


HOST_FOLDERS = (
    "home/.claude/skills",
    "home/.agents/skills",
    "home/.codex/skills",
    "blog/.claude/skills",
    "blog/.agents/skills",
    "blog/posts/.claude/skills",
    "blog/posts/.agents/skills",
    "shop/.claude/skills",
)
WORKED_IN = ("blog", "blog/posts", "shop")


@settings(max_examples=15)  # of some 80 ms
@given(
    steps=st.lists(st.sampled_from((*HOST_FOLDERS, *WORKED_IN)), max_size=12),
    order=st.permutations(WORKED_IN),
)
def test_the_order_of_what_hosts_look_for_is_the_table_s(steps, order, tmp_path_factory):
    base = tmp_path_factory.mktemp("order")
    for project in ("blog", "shop"):
        (base / project / ".git").mkdir(parents=True)
    (base / "blog" / "posts").mkdir()
    held, there = None, dict.fromkeys(HOST_FOLDERS, False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(base / "home"))

        def ask(held, *names):
            folders = [base / name for name in names]
            with suppress(ConfigError):  # No folder is there.
                return RootChange(follows="hosts", folders=folders).applied_to(held)
            return held

        for step in steps:
            if step in WORKED_IN:
                held = ask(held, step)
                continue
            there[step] = not there[step]
            path = base / step
            path.mkdir(parents=True) if there[step] else path.rmdir()
            held = ask(held)
        last = ask(held, *order)
    if any(there.values()):
        nearest = sorted(
            (name for name in HOST_FOLDERS if there[name]),
            key=lambda name: name.count("posts"),
            reverse=True,
        )
        users = [name for name in nearest if name.startswith("home")]
        others = [name for name in nearest if not name.startswith("home")]
        assert [str(root.relative_to(base)) for root in last.roots] == users + others


def test_an_index_of_before_learns_which_roots_are_a_project_s(make_skill, tmp_path, home):
    blog, mine = tmp_path / "blog", home / ".claude" / "skills"
    make_skill(mine, "mine")
    project_skills = make_skill(blog / ".claude" / "skills").parents[1]
    before = IndexRequest((project_skills, mine), "hashing", True, found=(str(project_skills),))
    now = RootChange(follows="hosts").applied_to(before)
    assert now.roots == (mine, project_skills)
    assert (now.found, now.followed) == ((), (str(project_skills),))
    assert now.projects == {str(project_skills): (str(blog),)}
    assert [
        root.trust for root in now.with_trust([Root(project_skills, "a"), Root(mine, "b")])
    ] == [
        "vetted",
        "project",
    ]
    assert RootChange(how="keep").applied_to(before) == before


def test_a_wrong_trust_is_told_with_the_roots(roots):
    settings = Settings(trust=("/x=vetted",), sources={"trust": "flag"})
    wrong = RootChange((roots["a"],), settings=settings)
    with pytest.raises(ConfigError, match="trust names /x, which is not a root of this index"):
        wrong.applied_to(None)


# In the lock of an index.


def test_what_came_between_the_decision_and_the_lock_stays(roots, folder):
    """A builder that was made before another one ran adds to what that one left."""
    Builder(folder, change(roots, "a")).run()
    late = Builder(folder, change(roots, "c"))
    assert names_of(late.request) == "ac"
    Builder(folder, change(roots, "b")).run()
    report = late.run()
    assert (names_of(late.request), report.indexed) == ("abc", 3)
    assert names_of(last_request(folder)) == "abc"


def test_a_root_removed_meanwhile_is_not_removed_again(roots, folder, young_files):
    Builder(folder, change(roots, "abc")).run()
    late = Builder(folder, change(roots, "a", "remove"))
    Builder(folder, change(roots, "a", "remove")).run()
    generation = folder.current()
    with pytest.raises(RootError, match="is not a root of this index"):
        late.run()
    assert folder.current() == generation


def test_a_refresh_keeps_what_was_added_since_it_opened(roots, folder):
    index, _ = SkillIndex.build(change(roots, "a"), folder.path)
    Builder(folder, change(roots, "b")).run()
    assert index.refresh().indexed == 2
    Builder(folder, change(roots, "c")).run()
    (folder.path / "request.json").write_bytes(b"")
    assert index.refresh().indexed == 3


def test_the_report_is_of_what_this_run_wrote(roots, folder):
    Builder(folder, change(roots, "a")).run()
    overtaken = Builder(folder, change(roots, "b"))
    report = overtaken.run()
    Builder(folder, change(roots, "c")).run()
    assert [root.path.name for root in overtaken.opened.settings.roots] == ["a", "b"]
    assert (report.indexed, len(overtaken.opened.corpus.documents)) == (2, 2)
    assert names_of(last_request(folder)) == "abc"


@pytest.mark.parametrize("how", ["remove", "replace", "add"])
def test_a_writer_that_ends_before_the_swap_has_changed_nothing(roots, folder, monkeypatch, how):
    """The roots that are believed are those of the generation in use; the next one goes on so."""
    Builder(folder, change(roots, "ab")).run()
    before = last_request(folder)

    replace = Path.replace

    def fail(path, target):
        if target == folder.path / "CURRENT":
            raise OSError(28, "No space left on device")
        return replace(path, target)

    step = change(roots, {"remove": "a", "replace": "c", "add": "c"}[how], how)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(StorageError):
            Builder(folder, step).run()
    assert IndexRequest.load(folder.path) == before
    assert SkillIndex.open(folder.path).refresh().indexed == 2
    Builder(folder, step).run()
    assert names_of(last_request(folder)) == {"remove": "b", "replace": "c", "add": "abc"}[how]


def test_nothing_is_written_without_the_lock(roots, folder, monkeypatch):
    Builder(folder, change(roots, "a")).run()
    saved = []
    save = IndexRequest.save

    def noted(request, *args):
        with pytest.raises(Exception, match="Another process"), folder.lock(timeout=0):
            pass
        saved.append(request)
        save(request, *args)

    monkeypatch.setattr(IndexRequest, "save", noted)
    Builder(folder, change(roots, "a")).run()
    assert saved == []
    Builder(folder, change(roots, "a", trust=("vetted",))).run()
    assert len(saved) == 1


# From Python.


def test_roots_are_added_and_removed_from_python(roots, folder):
    index = SkillIndex.from_roots(roots["a"], index_dir=folder.path, model="hashing")
    assert index.add_roots([roots["b"], roots["c"]], trust=f"{roots['c']}=fetched").indexed == 3
    assert {root.alias: root.trust for root in index.opened.settings.roots} == {
        "a": "vetted",
        "b": "vetted",
        "c": "fetched",
    }
    roots["a"].rename(roots["a"].with_name("away"))
    report = index.remove_roots(roots["a"])
    assert (report.indexed, report.left) == (2, {str(roots["a"]): 1})
    assert {document.name for document in index.documents()} == {"b-skill", "c-skill"}
    with pytest.raises(RootError, match="is not a root of this index"):
        index.remove_roots(roots["a"])
    assert index.opened.settings.model.spec == "hashing"


@pytest.mark.parametrize(
    ("how", "is_named", "index_dir", "roots", "follows"),
    [
        ("add", False, "", None, "hosts"),
        ("add", True, "", None, "projects"),
        ("add", False, "flag", None, "hosts"),
        ("add", False, "flag", (), "hosts"),
        ("add", False, "flag", (Path("/a"),), None),
        ("add", True, "flag", None, None),
        ("replace", False, "flag", (Path("/a"),), "hosts"),
        ("replace", True, "", (Path("/a"),), "named"),
        ("keep", False, "", (Path("/a"),), None),
        ("remove", True, "", (Path("/a"),), None),
    ],
)
def test_an_index_follows_hosts_if_it_is_the_users(how, is_named, index_dir, roots, follows):
    """It follows projects alone if its user names roots; a flag's index holds only named ones."""
    held = IndexRequest(roots, "hashing", False) if roots is not None else None
    settings = Settings(sources={"index_dir": index_dir})
    assert default_follows(settings, how, held, is_named=is_named) == follows
    milvus = replace(settings, backend="milvus")
    assert default_follows(milvus, how, held, is_named=is_named) is None


def test_roots_of_the_settings_count_as_named_unless_a_project_adds_them():
    def follows(source, index_dir="", how="add"):
        sources = {"roots": source, "index_dir": index_dir}
        settings = Settings(roots=(Path("/a"),), sources=sources)
        return default_follows(settings, how, None, is_named=False)

    assert follows("environment") == "projects"
    assert follows("/project/skillsearch.toml") == "hosts"
    assert follows("/project/skillsearch.toml", "environment") == "projects"
    assert follows("/project/skillsearch.toml", "/project/skillsearch.toml") is None
    assert follows("environment", how="replace") == "named"


def test_a_change_is_news_until_its_roots_are_held_and_followed(roots):
    step = change(roots, "ab")
    held = step.applied_to(None)
    assert step.is_news(None)
    assert step.is_news(held)
    followed = replace(held, follows="hosts")
    assert not step.is_news(followed)
    assert change(roots, "abc").is_news(followed)
