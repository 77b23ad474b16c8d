"""The requests to begin with bring up what they are taken from."""

import pytest

from skillsearch.index.skill_index import SkillIndex
from skillsearch.ui.first_requests import SHOWN, first_requests

NAMES = "tea coffee invoices branches weather charts forms letters tests images".split()


@pytest.fixture
def index(make_skill, tmp_path, index_dir):
    root = tmp_path / "skills"
    for name in NAMES:
        make_skill(root, name, f"Prepare {name} (all kinds), and more. Use it for {name}.")
    return SkillIndex.from_roots(root, index_dir=index_dir, model="hashing")


def test_each_request_fits_a_skill_of_its_own(index):
    requests = first_requests(index, ())
    assert len(set(requests)) == SHOWN
    for request in requests:
        first = index.search(request, 1).hits[0]
        assert request == f"Prepare {first.name}"


def test_what_a_selection_leaves_out_is_not_offered(index):
    assert first_requests(index, (("include", ("tea",)),)) == ("Prepare tea",)
    assert first_requests(index, (("exclude", ("*",)),)) == ()


@pytest.mark.parametrize(
    ("description", "request_"),
    [
        ("Steep green tea - hot or cold. Use for tea.", "Steep green tea"),
        ("Steep tea for version 2.0 of the menu: black.", "Steep tea for version 2.0 of the menu"),
        ("把销售表格做成图表并放进季度报告。适合表格。", "把销售表格做成图表并放进季度报告"),
        ("Tea. Hot.", None),
        (f"Steep {'very ' * 20}green tea", None),
    ],
)
def test_a_request_is_the_first_clause_unless_that_says_too_little_or_much(
    make_skill, tmp_path, index_dir, description, request_
):
    make_skill(tmp_path / "skills", "tea", description)
    index = SkillIndex.from_roots(tmp_path / "skills", index_dir=index_dir, model="hashing")
    assert first_requests(index, ()) == (() if request_ is None else (request_,))
