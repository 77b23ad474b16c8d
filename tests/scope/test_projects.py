"""Which skills are seen from a project, its parts and the repositories within it."""

import json
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest

from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.roots.scope import Viewpoint, folders_of, from_folders, is_in_scope
from skillsearch.index.skill_index import SkillIndex
from skillsearch.types.skills import Root

USER, BLOG, SHOP = "fill-form", "publish-post", "refund-order"
"""The skills of the user and of the two projects."""
TO_PUBLISH = "publish a blog post to the site"


def test_a_project_stays_vouched_for_while_its_folders_are_gone(blog, cli, by_query, by_prompt):
    trust = f"{blog}=vetted"
    with chdir(blog):
        assert cli("index", "--trust", trust).exit_code == 0
        (blog / ".claude").rename(blog / "away")
        assert BLOG not in by_query(TO_PUBLISH)
        cli("index")
        (blog / "away").rename(blog / ".claude")
        assert BLOG in by_prompt(TO_PUBLISH)


def test_what_is_said_of_a_repository_holds_for_its_parts_and_for_no_repository_within(
    blog, cli, make_skill, by_prompt
):
    """Later words on the whole replace those on a part, by a folder of it or by its skills."""
    part, inner = blog / "pkg", blog / "vendor" / "inner"
    make_skill(part / ".claude" / "skills", "of-part", "Wind the clock of the part.")
    make_skill(inner / ".claude" / "skills", "of-inner", "Wind the clock of the inner one.")
    (inner / ".git").mkdir()
    request = "wind the clock"
    for folder in (inner, part):
        with chdir(folder):
            assert not {"of-part", "of-inner"} & set(by_prompt(request))
    with chdir(part):
        assert f"--trust {blog}=vetted" in cli("index", "--verify").stderr
        assert cli("index", "--trust", f"{blog}=vetted").exit_code == 0
        assert "of-part" in by_prompt(request)
    with chdir(inner):
        assert "of-inner" not in by_prompt(request)
    with chdir(part):
        for lower in (part, part / ".claude" / "skills"):
            assert cli("index", "--trust", f"{blog}=project").exit_code == 0
            assert "of-part" not in by_prompt(request)
            assert cli("index", "--trust", f"{lower}=vetted").exit_code == 0
            assert "of-part" in by_prompt(request)
        assert cli("index", "--trust", f"{blog}=project").exit_code == 0
        assert "of-part" not in by_prompt(request)


def test_a_repository_within_a_project_has_its_own_skills_alone(blog, make_skill, by_list):
    part, inner = blog / "part", blog / "vendor" / "inner"
    make_skill(part / ".claude" / "skills", "of-part", "A skill of a part.")
    make_skill(inner / ".claude" / "skills", "of-inner", "A skill of a submodule.")
    (inner / ".git").write_text("gitdir: ../../.git/modules/inner\n")
    user, own = USER, BLOG
    for folder, wanted in (
        (blog, {user, own}),
        (part, {user, own, "of-part"}),
        (inner, {user, "of-inner"}),
        (blog, {user, own}),
    ):
        with chdir(folder):
            assert set(by_list()) == wanted


def test_a_project_that_is_gone_leaves_the_index_without_a_word(indexed, blog, shop, cli, ask_from):
    ask_from(blog)
    blog.rename(indexed / "journal")
    with chdir(shop):
        assert "gone" not in cli("query", "anything").stderr
    roots = [root.projects for root in SkillIndex.open().opened.settings.roots if root.projects]
    assert roots == [(str(shop),)]


def test_the_same_name_means_the_user_s_and_the_project_s_has_a_handle(blog, shop, cli, make_skill):
    for folder, text in ((blog, "blog"), (shop, "shop")):
        make_skill(folder / ".claude" / "skills", "fill-form", f"Fill in the forms of the {text}.")
        make_skill(folder / ".claude" / "skills", "deploy", f"Deploy the {text} to its server.")
    for folder in (blog, shop):
        with chdir(folder):
            hits = json.loads(cli("query", "deploy to its server", "--json").stdout)
            paths = {hit["name"]: hit["path"] for hit in (*hits["hits"], *hits["perhaps"])}
            assert paths["deploy"].startswith(str(folder))
            assert json.loads(cli("show", USER, "--json").stdout)["trust"] == "vetted"
            skills = json.loads(cli("list", "--json").stdout)["skills"]
            skills = [skill for skill in skills if skill["trust"] != "vetted"]
            (own,) = (skill for skill in skills if skill["name"] == USER)
            assert own["root"].startswith(str(folder))
            assert cli("show", own["doc_id"]).exit_code == 0


def test_the_root_of_another_project_is_named_as_that(blog, shop, cli, ask_from):
    ask_from(shop, blog)
    theirs, own = (str(project / ".claude" / "skills") for project in (shop, blog))
    with chdir(blog):
        for command in (("query", "anything"), ("list",)):
            said = cli(*command, "--root", theirs).stderr
            assert f"Its project is {shop}: go there, or ask with --all-proj" in said
            assert cli(*command, "--root", theirs, "--all-projects").exit_code == 0
            assert cli(*command, "--root", theirs, "--root", own).exit_code == 0
        assert "Change the options" in cli("list", "--root", own, "--tag", "none").stderr


def test_a_lost_request_makes_no_project_s_skill_everybody_s(blog, shop, cli, by_list, ask_from):
    ask_from(blog)
    (SkillIndex.open().folder / "request.json").write_text("lost")
    with chdir(shop):
        cli("query", "anything")
        cli("index")
        assert set(by_list()) == {USER, SHOP}


def test_paths_of_a_skill_bound_it_to_a_part_of_its_project(blog, make_skill, by_list):
    skills = blog / ".claude" / "skills"
    patterns = {"style": "src/styles/**/*.css", "any": "**/*.py"}
    patterns |= {"two": ["docs/*.md", "src/app.ts"]}
    for name, paths in patterns.items():
        make_skill(skills, name, f"Skill named {name}.", paths=paths)
    seen = {}
    for folder in ("", "src", "src/styles/dark", "docs", "tests"):
        path = blog / folder
        path.mkdir(parents=True, exist_ok=True)
        with chdir(path):
            seen[folder] = {name for name in by_list() if name in patterns}
    assert seen == {
        "": {"style", "any", "two"},
        "src": {"style", "any", "two"},
        "src/styles/dark": {"style", "any"},
        "docs": {"any", "two"},
        "tests": {"any"},
    }


def test_roots_that_were_named_are_seen_from_everywhere_but_for_those_of_a_project(
    blog, shop, cli, make_skill, tmp_path, by_list
):
    mine = tmp_path / "mine"
    make_skill(mine, "mine", "A skill in a folder of the user.")
    own = blog / ".claude" / "skills"
    assert cli("index", str(mine), str(own)).exit_code == 0
    with chdir(shop):
        assert "mine" in by_list()
        assert BLOG not in by_list()
        assert cli("index", str(own), "--scope", "user").exit_code == 0
        assert BLOG in by_list()
        assert cli("index", "--replace", str(own)).exit_code == 0
        assert SHOP not in by_list()


def test_a_scope_that_would_say_nothing_is_refused(indexed, cli, make_skill, tmp_path):
    mine, before = str(tmp_path / "mine"), SkillIndex.open().generation
    make_skill(tmp_path / "mine", "mine", "A skill in a folder of the user.")
    for words, said in (
        ([mine, "--scope", "project"], "There is no project around"),
        (["--scope", "user"], "--scope says who sees the ROOTs"),
        (["--examples", "--scope", "user"], "--scope says who sees the ROOTs"),
        ([mine, "--remove", "--scope", "user"], "--scope says who sees the ROOTs"),
        ([mine, "--only", mine, "--scope", "user"], "--scope says who sees the ROOTs"),
    ):
        refused = cli("index", *words)
        assert refused.exit_code == 2
        assert said in refused.stderr
    assert SkillIndex.open().generation == before


def test_a_link_out_of_the_project_is_named_and_not_followed(
    blog, cli, make_skill, tmp_path, by_list
):
    make_skill(tmp_path / "ext", "of-ext", "A skill beside the project.")
    link = blog / ".agents" / "skills"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "ext")
    with chdir(blog):
        assert f"outside: {link} (a link out of the project; " in cli("index").stderr
        assert f"outside: 1 folder of hosts: {link}" in cli("doctor").stdout
        assert "of-ext" not in by_list()
        assert cli("index", str(link)).exit_code == 0
        assert "outside" not in cli("index").stderr
        assert "of-ext" in by_list()


@pytest.mark.parametrize(
    ("project", "folder", "top", "is_seen"),
    [
        ("", "/anywhere", "/", True),
        ("/w/blog", "/w/blog", "/", True),
        ("/w/blog", "/w/blog/src", "/", True),
        ("/w/blog", "/w", "/", False),
        ("/w/blog", "/w/blog2", "/", False),
        ("/w/blog", "/w/shop", "/", False),
        ("/", "/w", "/", True),
        ("/w", "/w/a/b", "/w/", True),
        ("/w/a", "/w/a/b", "/w/", True),
        ("/w", "/w/a/b", "/w/a/", False),
        ("", "/w/a/b", "/w/a/", True),
    ],
)
def test_a_root_is_seen_from_its_project_and_below(project, folder, top, is_seen):
    root = Root(Path("/r"), "r", projects=(project,) if project else ())
    assert is_in_scope(root, [Viewpoint(folder, top)]) is is_seen
    assert is_in_scope(root, [Viewpoint("/other", "/"), Viewpoint(folder, top)]) is is_seen


def test_a_selection_names_the_folder_that_the_request_comes_from(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    selection = from_folders((("tags", ("a",)), ("scope", ("/x",))), [tmp_path / "link"])
    assert selection == (("tags", ("a",)), ("scope", (str(tmp_path / "real"),)))
    assert folders_of(selection) == (str(tmp_path / "real"),)
    assert folders_of((("tags", ("a",)),)) == ()


def test_what_is_left_out_shadows_nothing_and_changes_no_other_score(world, make_skill, tmp_path):
    """Against an index that never held the neighbour's skills, by names; the same statistics."""
    roots = [tmp_path / "one", tmp_path / "two", tmp_path / "three"]
    rng = np.random.default_rng(3)
    for root in roots:
        for number in rng.permutation(12)[:8]:
            make_skill(root, f"skill-{number}", f"Do the thing numbered {number} for {root.name}.")
    projects = {str(root): (str(tmp_path / f"p{number}"),) for number, root in enumerate(roots)}
    request = IndexRequest(tuple(roots), "hashing", True, follows="projects", projects=projects)
    index, _ = SkillIndex.build(request, tmp_path / "index")
    for number, root in enumerate(roots):
        alone = SkillIndex.from_roots(root, index_dir=tmp_path / f"alone-{number}", model="hashing")
        folder = tmp_path / f"p{number}"
        scope = from_folders((), [folder])
        wanted = sorted(document.path for document in alone.documents())
        assert sorted(document.path for document in index.documents(scope)) == wanted
        for document in alone.documents():
            assert index.find(document.name, scope).path == document.path
            hits = index.search(document.description, 20, 0.0, folder=folder, reader="off")
            assert {hit.root for hit in hits} == {str(root)}
            assert hits[0].path == document.path
