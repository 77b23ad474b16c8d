"""Which skills a frontmatter says it needs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.skills.metadata import (
    MAX_REQUIREMENT_CHARS,
    MAX_REQUIREMENTS,
    regular_requirements,
)
from skillsearch.skills.versions import normal_constraint, split_requirement
from skillsearch.text.safe_text import one_line

VALUES = {
    "list": (["pdf", "ocr"], ("pdf", "ocr")),
    "list with constraints": (["pdf@>=1,<2", "ocr@1"], ("pdf@>=1,<2", "ocr@==1")),
    "list cut at a comma": (["pdf@>=1", "<2", "ocr"], ("pdf@>=1,<2", "ocr")),
    "list of lists": ([["pdf"], [["ocr"]]], ("pdf", "ocr")),
    "text": ("pdf, ocr", ("pdf", "ocr")),
    "text with constraints": ("pdf@>=1,<2, ocr@^1", ("pdf@>=1,<2", "ocr@>=1,<2")),
    "text in lines": ("pdf\nocr; tea", ("pdf", "ocr", "tea")),
    "flow list as text": ("['pdf', \"ocr\"]", ("pdf", "ocr")),
    "mapping": (
        {"pdf": ">=1", "ocr": None, "tea": True, "pot": "*", "cup": 1.5},
        ("pdf@>=1", "ocr", "tea", "pot", "cup@==1.5"),
    ),
    "mappings": ({"pdf": {"version": "^1"}, "ocr": {"source": "a"}}, ("pdf@>=1,<2", "ocr")),
    "mapping to a list": ({"pdf": [">=1", "<2"]}, ("pdf@>=1,<2",)),
    "mappings with names": (
        [{"name": "pdf", "version": "1.2"}, {"id": "ocr", "source": "local"}, {"skill": "tea"}],
        ("pdf@==1.2", "ocr", "tea"),
    ),
    "list of mappings": ([{"pdf": ">=1"}, {"ocr": None}], ("pdf@>=1", "ocr")),
    "one mapping": ({"name": "pdf", "constraint": "~=1.4"}, ("pdf@~=1.4",)),
    "what can be done without": (
        [{"id": "pdf", "required": False}, {"name": "ocr", "optional": True}, {"tea": False}],
        (),
    ),
    "package": (["pdf>=1", "ocr (>=1,<2)", "tea == 1"], ("pdf@>=1", "ocr@>=1,<2", "tea@==1")),
    "twice": (["pdf", "pdf", "pdf@1", "pdf@==1"], ("pdf", "pdf@==1")),
    "qualified": (["team:pdf@1", "team:ocr"], ("team:pdf@==1", "team:ocr")),
    "scoped": (["@a/pdf", "@a/pdf@1", "@a/ocr>=1"], ("@a/pdf", "@a/pdf@==1", "@a/ocr@>=1")),
    "number": ([7], ("7",)),
    "exclamation": (["yahoo! finance", "tea!=1"], ("yahoo! finance", "tea@!=1")),
    "blanks": (["  pdf \t forms @ 1 ", "", None], ("pdf forms@==1",)),
    "hidden characters": (["p\u202edf\x00"], ("pdf",)),
    "nothing": (None, ()),
    "true": (True, ()),
}


@pytest.mark.parametrize(("value", "expected"), VALUES.values(), ids=VALUES.keys())
def test_needs_can_be_written_in_many_ways(value, expected):
    requirements, findings = regular_requirements([{"requiresskills": value}])
    assert requirements == expected
    assert findings == []


KEYS = "requiresskills requiredskills dependsonskills prerequisiteskills skilldependencies".split()


@pytest.mark.parametrize("key", KEYS)
def test_every_key_that_speaks_of_needed_skills_counts(key):
    levels = [{key: ["pdf"]}, {key: "ocr"}]
    assert regular_requirements(levels) == (("pdf", "ocr"), [])


HINTS = [
    *({"dependencies": ["numpy", "pdf"]}, {"requires": "python>=3.11"}, {"requires": ["pdf"]}),
    *({"relatedskills": ["pdf"]}, {"skills": ["pdf"]}, {"prerequisites": ["pdf"]}, {}),
]


def test_of_other_needs_only_those_under_skills_count():
    for key in ("requires", "dependencies"):
        fields = {key: {"skills": ["pdf"], "mcp": ["rube"], "bins": ["jq"]}}
        assert regular_requirements([fields]) == (("pdf",), [])
    for fields in HINTS:
        assert regular_requirements([fields]) == ((), [])


@pytest.mark.parametrize(
    "value",
    [["pdf@new"], "pdf@new", {"pdf": "new"}, [{"name": "pdf", "version": "new"}], ["pdf (>=new)"]],
)
def test_a_broken_constraint_is_left_out_with_a_warning(value):
    requirements, [finding] = regular_requirements([{"requiresskills": value}])
    assert requirements == ("pdf",)
    assert (finding.code, finding.severity) == ("requirement-invalid", "warning")
    assert "new' cannot be read" in finding.message
    assert "'pdf'" in finding.message


@pytest.mark.parametrize("text", ["@", ">=1", "a^b@1", "a@b@*", "x" * (MAX_REQUIREMENT_CHARS + 1)])
def test_a_need_without_a_usable_name_is_reported(text):
    requirements, [finding] = regular_requirements([{"requiresskills": [text]}])
    assert requirements == ()
    assert finding.code == "requirement-invalid"
    assert text[:MAX_REQUIREMENT_CHARS] in finding.message
    assert len(finding.message) < 2 * MAX_REQUIREMENT_CHARS


def test_only_so_many_needs_count():
    names = [f"skill-{number}" for number in range(MAX_REQUIREMENTS)]
    assert regular_requirements([{"requiresskills": names}]) == (tuple(names), [])
    requirements, [finding] = regular_requirements([{"requiresskills": [*names, "a", "b"]}])
    assert requirements == tuple(names)
    assert str(MAX_REQUIREMENTS) in finding.message


def test_a_hostile_frontmatter_costs_little():
    for value in (["x@new"] * 5_000, ",>=1" * 16_000, "a@" * 32_000, "x" * 64_000 + "@new"):
        requirements, findings = regular_requirements([{"requiresskills": value}])
        assert requirements in {("x",), ()}
        assert 1 <= len(findings) <= MAX_REQUIREMENTS + 1
        assert max(len(finding.message) for finding in findings) < 4 * MAX_REQUIREMENT_CHARS


FIELDS = st.text(max_size=4) | st.sampled_from(["name", "version"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(FIELDS, inner, max_size=3),
    max_leaves=12,
)


@given(st.sampled_from([*KEYS, "requires", "dependencies"]), JSON)
def test_whatever_stands_there_gives_regular_needs(key, value):
    requirements, findings = regular_requirements([{key: value}, {key: {"skills": value}}])
    assert len(set(requirements)) == len(requirements) <= MAX_REQUIREMENTS
    for requirement in requirements:
        name, constraint = split_requirement(requirement)
        assert name
        assert len(requirement) <= MAX_REQUIREMENT_CHARS
        assert requirement == one_line(requirement)
        assert normal_constraint(constraint) == constraint
    assert {finding.code for finding in findings} <= {"requirement-invalid"}


NAMES = st.from_regex(r"[a-z]+(-[a-z0-9]+)?", fullmatch=True)
CONSTRAINTS = st.sampled_from(["", ">=1,<2", "==1.2.*", "~=1.4", "!=3"])


@given(st.lists(st.tuples(NAMES, CONSTRAINTS), unique=True, max_size=5))
def test_the_regular_form_is_its_own_regular_form(pairs):
    written = tuple(f"{name}@{constraint}" if constraint else name for name, constraint in pairs)
    for value in (list(written), ", ".join(written)):
        assert regular_requirements([{"requiresskills": value}]) == (written, [])
    mapping = dict(pairs)
    requirements, _ = regular_requirements(
        [{"requiresskills": [{"name": n, "version": c} for n, c in mapping.items()]}]
    )
    assert dict(map(split_requirement, requirements)) == mapping
