"""Tests of what is said to keep a skill out, by its state on disk, in the index and in hosts."""

import json
from pathlib import Path

import pytest

from skillsearch.errors import AmbiguousNameError, SkillNotFoundError
from skillsearch.hosts.table import library_folder
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.next_steps import index_option
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.roots.scope import from_folders
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.reports.why import check_absent, check_skill, explain_skill
from skillsearch.types.skills import STRICT, FileStat

LONG = "Grind the beans, wet the filter, pour slowly in circles and wait for the last drop. " * 9


@pytest.fixture
def build(index_dir):
    """Index roots by the hashing model, with more that a request says."""

    def build(*roots, **more):
        request = IndexRequest(tuple(roots), model="hashing", with_body=True, **more)
        return SkillIndex.build(request, index_dir)[0]

    return build


@pytest.fixture
def explain(tmp_path):
    """Ask why a skill of an index does not come, from a folder and with a selection."""

    def explain(index, name, *selection, folder=tmp_path, window=200_000, **more):
        options = SearchOptions(selection=from_folders(selection, [folder]))
        return explain_skill(index, name, options, window=window, **more)

    return explain


def said(answer, name):
    """Return verdict and detail of the checks of one name."""
    checks = answer if isinstance(answer, list) else answer.checks
    return [(check.verdict, check.detail) for check in checks if check.name == name]


def only(answer, name):
    """Return verdict and detail of the one check of a name."""
    (pair,) = said(answer, name)
    return pair


def errors(answer):
    return [check.name for check in answer.checks if check.verdict == "error"]


def test_nothing_keeps_a_good_skill_out(index, drinks, explain):
    answer = explain(index, "steep-tea")
    assert {check.verdict for check in answer.checks} == {"ok"}
    assert not answer.is_out
    assert (answer.name, answer.doc_id) == ("steep-tea", "drinks:steep-tea")
    assert only(answer, "skill") == (
        "ok",
        f"{drinks / 'steep-tea' / 'SKILL.md'}; root: {drinks} (alias drinks)",
    )
    command = f"skillsearch enrich --pending steep-tea --index-dir {index.folder}"
    assert only(answer, "examples")[1].endswith(command)
    assert answer.standing is None


def test_a_skill_of_another_project_is_out_of_scope(tmp_path, build, make_skill, explain):
    make_skill(tmp_path / "blog" / "skills", "publish-post")
    root = tmp_path / "blog" / "skills"
    index = build(root, projects={str(root): (str(tmp_path / "blog"),)})
    inside = explain(index, "publish-post", folder=tmp_path / "blog" / "posts")
    assert only(inside, "scope") == ("ok", f"of the project {tmp_path / 'blog'}, seen from there")
    outside = explain(index, "publish-post", request="publish a post")
    assert errors(outside) == ["scope"]
    assert f"not seen from {tmp_path}; it is of the project" in only(outside, "scope")[1]
    assert outside.is_out
    assert outside.standing is None


def test_a_plugin_that_the_project_turned_off_is_out_of_scope(build, drinks, tmp_path, explain):
    index = build(drinks, hidden_from={str(drinks): (str(tmp_path),)})
    verdict, detail = only(explain(index, "steep-tea"), "scope")
    assert (verdict, "turned off its plugin" in detail) == ("error", True)


def test_a_skill_for_other_paths_is_out_of_scope(build, make_skill, tmp_path, explain):
    blog = tmp_path / "work" / "blog"
    (blog.parent / ".git").mkdir(parents=True)
    make_skill(tmp_path / "skills", "lint-shop", paths=["shop/**"])
    answer = explain(build(tmp_path / "skills"), "lint-shop", folder=blog)
    assert only(answer, "scope") == (
        "error",
        f"not seen from {blog}; it is for files such as shop/**: go there",
    )


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        (("exclude", ("steep*",)), "exclude (steep*)"),
        (("include", ("brew*",)), "include (brew*)"),
        (("tags", ("hot",)), "tags (hot)"),
        (("in_roots", ("nowhere",)), "in_roots (nowhere)"),
    ],
)
def test_what_leaves_a_skill_out_by_settings_is_named(index, explain, test, reason):
    answer = explain(index, "steep-tea", ("exclude", ("squeeze*",)), test, request="steep tea")
    verdict, detail = only(answer, "settings")
    assert (verdict, detail.partition(":")[0]) == ("error", f"left out by {reason}")
    assert errors(answer) == ["settings"]
    assert answer.standing is None


def test_strict_names_what_is_wrong(drinks, build, make_skill, explain):
    make_skill(drinks, "Loud_Name")
    answer = explain(build(drinks), "Loud_Name", ("strict", STRICT))
    assert "strict (name-characters)" in only(answer, "settings")[1]


def test_a_shadowed_skill_names_what_stands_before_it(tmp_path, build, make_skill, explain):
    for root in ("mine", "theirs"):
        make_skill(tmp_path / root, "steep-tea", f"Steep tea as it is {root}.")
    index = build(tmp_path / "mine", tmp_path / "theirs")
    hidden = explain(index, "theirs:steep-tea")
    verdict, detail = only(hidden, "name")
    assert verdict == "error"
    assert detail.startswith("the name means mine:steep-tea (")
    assert hidden.is_out
    first = explain(index, "steep-tea")
    assert only(first, "name") == ("ok", "steep-tea means this skill, and not theirs:steep-tea")


def test_a_near_copy_names_what_is_shown_in_its_stead(tmp_path, build, make_skill, explain):
    for name in ("brew-coffee", "brew-coffee-too"):
        make_skill(tmp_path / name, name, "Brew filter coffee with a scale.", body=LONG)
    index = build(tmp_path / "brew-coffee", tmp_path / "brew-coffee-too")
    follower = explain(index, "brew-coffee-too", request="brew filter coffee")
    copies = said(follower, "copies")
    assert copies[0][0] == "warning"
    assert copies[0][1].startswith("it is a near-copy of brew-coffee (")
    assert copies[1] == ("warning", "what follows is of brew-coffee, which is shown instead")
    leader = explain(index, "brew-coffee", request="brew filter coffee")
    assert only(leader, "copies") == (
        "ok",
        "it stands for 1 near-copy, a family across 2 roots: brew-coffee-too (name)",
    )
    assert leader.standing == follower.standing


def test_a_skill_that_hides_from_models_is_never_offered(drinks, build, make_skill, explain):
    make_skill(drinks, "pour-milk", **{"disable-model-invocation": True})
    answer = explain(build(drinks), "pour-milk")
    assert errors(answer) == ["offer"]
    assert "disable-model-invocation" in only(answer, "offer")[1]


def test_prompt_and_hook_leave_out_what_nobody_vouches_for(drinks, build, explain):
    index = build(drinks, trust={str(drinks): "fetched"})
    answer = explain(index, "steep-tea")
    verdict, detail = only(answer, "trust")
    assert (verdict, "(fetched)" in detail) == ("warning", True)
    assert detail.endswith(f"skillsearch index --trust {drinks}=vetted --index-dir {index.folder}")
    assert not answer.is_out


def test_a_file_that_is_gone_or_has_changed_is_told(index, drinks, make_skill, explain):
    make_skill(drinks, "steep-tea", "Steep black tea.")
    assert only(explain(index, "steep-tea"), "file")[0] == "warning"
    (drinks / "steep-tea" / "SKILL.md").unlink()
    verdict, detail = only(explain(index, "steep-tea"), "file")
    assert verdict == "error"
    assert detail.endswith(f"Then: skillsearch index --index-dir {index.folder}")


def test_what_was_mended_or_is_suspect_is_told(drinks, build, make_skill, explain):
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    make_skill(drinks, "Loud_Name", f"Steep tea.{hidden}")
    answer = explain(build(drinks), "Loud_Name")
    assert any(detail.startswith("name-characters: ") for _, detail in said(answer, "file"))
    verdict, detail = only(answer, "audit")
    assert (verdict, detail.partition(":")[0]) == ("warning", "hidden-text")
    assert not answer.is_out


def test_a_skill_made_of_what_people_ask_is_told_that_it_is_a_hub(drinks, build, make_hub, explain):
    make_hub(drinks)
    details = [detail for _, detail in said(explain(build(drinks), "do-it-all"), "audit")]
    assert any(detail.startswith("hub:") for detail in details)


@pytest.fixture
def claude(home, make_skill):
    """Make the folder where Claude Code looks for skills of the user, with two of them."""
    folder = home / ".claude" / "skills"
    make_skill(folder, "steep-tea", "Steep green tea at the right temperature.")
    make_skill(folder, "brew-coffee", "Brew filter coffee with a scale. " * 10)
    return folder


def test_a_host_lists_a_skill_whole_shortened_or_by_name(claude, build, explain):
    index = build(claude)
    answer = explain(index, "steep-tea")
    assert only(answer, "hosts")[1].startswith("looked for by Claude Code, ")
    assert only(answer, "listing") == (
        "ok",
        "Claude Code lists it whole (2 skills, 399 of 8,000 characters)",
    )
    verdict, detail = only(explain(index, "brew-coffee", window=5_000), "listing")
    assert (verdict, detail.partition(" (")[0]) == ("warning", "Claude Code lists its name alone")
    assert not explain(index, "brew-coffee", window=5_000).is_out


def test_what_hides_from_models_is_not_listed(claude, build, make_skill, explain):
    make_skill(claude, "pour-milk", **{"disable-model-invocation": True})
    answer = explain(build(claude), "pour-milk")
    assert only(answer, "listing") == ("warning", "Claude Code leaves it out, as it asks")


def test_a_switch_of_a_host_is_told(claude, build, explain):
    """What is turned off takes no room in the listing."""
    settings = claude.parent / "settings.json"
    settings.write_text(json.dumps({"skillOverrides": {"steep-tea": "off"}}))
    index = build(claude)
    answer = explain(index, "steep-tea")
    verdict, detail = said(answer, "hosts")[0]
    assert verdict == "error"
    assert f"change skillOverrides in {settings}" in detail
    assert answer.is_out
    assert "(1 skill, " in only(explain(index, "brew-coffee"), "listing")[1]


def test_a_skill_in_the_library_is_listed_by_no_host(home, build, make_skill, explain):
    make_skill(library_folder(), "steep-tea")
    answer = explain(build(library_folder()), "steep-tea")
    assert only(answer, "hosts")[1] == "it is in your library: found by search, listed by no host"


def test_a_name_of_several_skills_is_refused_with_their_ids(drinks, build, make_skill, explain):
    make_skill(drinks / "more", "steep-tea", "Sell shares in tea.")
    with pytest.raises(AmbiguousNameError, match="drinks:more/steep-tea"):
        explain(build(drinks), "steep-tea")


def absent(index, name, folder):
    option = index_option(index.folder)
    return list(check_absent(index, name, from_folders((), [folder]), option))


def test_an_unknown_name_gets_the_nearest(index, tmp_path):
    checks = absent(index, "steep-tee", tmp_path)
    assert [(check.name, check.verdict) for check in checks] == [
        ("skill", "error"),
        ("disk", "warning"),
        ("names", "ok"),
    ]
    assert checks[0].detail == "the index has no skill named 'steep-tee'"
    assert "steep-tea" in checks[2].detail
    assert said(absent(index, "quantum-computing-zzz", tmp_path), "names") == []


def test_an_unknown_name_is_looked_up_among_all_documents_once(index, explain, monkeypatch):
    looks, every = [], DocumentStore.__iter__
    monkeypatch.setattr(DocumentStore, "__iter__", lambda self: looks.append(1) or every(self))
    assert "steep-tea" in only(explain(index, "steep-tee"), "names")[1]
    assert len(looks) == 1


def test_a_skill_is_told_by_the_folder_that_it_is_not_called_after(
    build, drinks, make_skill, tmp_path
):
    path = make_skill(drinks, "oolong").parent.rename(drinks / "tea-2") / "SKILL.md"
    index = build(drinks)
    checks = absent(index, "tea-2", tmp_path)
    assert only(checks, "disk") == ("warning", f"{path}: it is indexed as oolong")
    assert only(checks, "names") == ("ok", "similar names: oolong")
    with pytest.raises(SkillNotFoundError) as caught:
        index.find("tea-2")
    assert caught.value.nearest == ("oolong",)


def test_a_hostile_name_is_shown_cleaned(index, tmp_path):
    hostile = "pdf\x1b[31m\n" + "\u202e" + "x" * 999
    detail = absent(index, hostile, tmp_path)[0].detail
    assert detail.isprintable()
    assert len(detail) < 250


@pytest.mark.parametrize("name", ["broken", "root:broken", "/skills/broken/SKILL.md"])
def test_a_skipped_skill_comes_with_its_diagnostic(drinks, build, make_skill, tmp_path, name):
    path = make_skill(drinks, "broken", description="")
    checks = absent(build(drinks), name, tmp_path)
    verdict, detail = only(checks, "disk")
    assert verdict == "error"
    assert detail.startswith(f"{path}: description-missing: ")


def test_a_file_of_a_wrong_name_is_told(drinks, build, make_skill, tmp_path):
    make_skill(drinks, "plural").rename(drinks / "plural" / "SKILLS.md")
    assert "file-name-near" in only(absent(build(drinks), "plural", tmp_path), "disk")[1]


def test_folders_that_are_not_walked_are_looked_into(drinks, build, make_skill, tmp_path):
    make_skill(tmp_path / "away", "far-tea")
    moved = make_skill(tmp_path / "away", "inner-name").parent
    moved.rename(moved.with_name("other"))
    (drinks / "link").symlink_to(tmp_path / "away")
    sample = make_skill(drinks / "steep-tea" / "references", "sample")
    index = build(drinks)
    assert "link-leaves-root" in only(absent(index, "far-tea", tmp_path), "disk")[1]
    assert "link-leaves-root" in only(absent(index, "inner-name", tmp_path), "disk")[1]
    assert only(absent(index, "sample", tmp_path), "disk")[1].startswith(f"{sample}: skill-in-")


def test_a_skill_that_came_since_is_to_be_indexed(index, drinks, make_skill, tmp_path):
    path = make_skill(drinks, "pour-milk")
    assert only(absent(index, "pour-milk", tmp_path), "disk") == (
        "error",
        f"{path}: it is new, and not indexed yet; to do that: "
        f"skillsearch index --index-dir {index.folder}",
    )


def test_where_hosts_look_is_looked_too(index, claude, tmp_path, make_skill):
    make_skill(claude, "pour-milk")
    (tmp_path / "work" / ".git").mkdir(parents=True)
    make_skill(tmp_path / "work" / ".claude" / "skills", "mix-juice")
    verdict, detail = only(absent(index, "pour-milk", tmp_path), "disk")
    assert verdict == "error"
    assert "where Claude Code" in detail
    assert detail.endswith("look, which is not indexed yet; to do that: skillsearch index")
    assert said(absent(index, "mix-juice", tmp_path), "disk")[0][0] == "warning"
    assert said(absent(index, "mix-juice", tmp_path / "work"), "disk")[0][0] == "error"


def test_a_plugin_that_is_turned_off_is_named(index, home, make_skill, tmp_path):
    folder = home / "kit" / "1.0"
    make_skill(folder / "skills", "kit-tea")
    base = home / ".claude"
    (base / "plugins").mkdir(parents=True)
    entry = {"scope": "user", "installPath": str(folder), "version": "1.0"}
    record = {"version": 2, "plugins": {"kit@market": [entry]}}
    (base / "plugins" / "installed_plugins.json").write_text(json.dumps(record))
    (base / "settings.json").write_text(json.dumps({"enabledPlugins": {"kit@market": False}}))
    detail = only(absent(index, "kit-tea", tmp_path), "disk")[1]
    assert "in the plugin kit@market, which is turned off" in detail
    assert detail.endswith("enable it in Claude Code")


def test_a_link_out_of_the_project_is_named(index, make_skill, tmp_path):
    make_skill(tmp_path / "away", "far-tea")
    (tmp_path / "work" / ".git").mkdir(parents=True)
    (tmp_path / "work" / ".claude").mkdir()
    (tmp_path / "work" / ".claude" / "skills").symlink_to(tmp_path / "away")
    detail = only(absent(index, "far-tea", tmp_path / "work"), "disk")[1]
    assert "a link out of the project" in detail


def test_what_was_removed_stays_out_and_is_named(drinks, build, make_skill, tmp_path):
    path = make_skill(tmp_path / "more", "pour-milk")
    index = build(drinks, tmp_path / "more")
    index.apply(RootChange((tmp_path / "more",), "remove"), IndexOptions())
    assert only(absent(index, "pour-milk", tmp_path), "disk") == (
        "error",
        f"{path}: in {tmp_path / 'more'}, which was taken out by --remove and stays out; to take "
        f"it: skillsearch index {tmp_path / 'more'}",
    )


def test_nothing_is_looked_for_behind_a_good_answer(index, drinks, tmp_path):
    """A check reads the disk, and leaves it as it was."""

    def stats():
        return {path: FileStat.of(path.stat()) for path in Path(index.folder).rglob("*")}

    before = stats()
    assert [*check_skill(index, index.find("steep-tea"), from_folders((), [tmp_path]), None)]
    assert stats() == before
