"""Tests of ``skillsearch improve``: what it prints, writes and refuses."""

import json
import shlex

import pytest
from jsonschema import Draft202012Validator

from skillsearch.library.example_review import ExampleEntry
from skillsearch.library.user_examples import change_examples, user_examples
from skillsearch.skills.example_requests import digest_of_skill
from skillsearch.skills.parser import read_skill

REQUESTS = (
    "brew sencha in a kettle\nwhich kettle to brew sencha\nbrew gyokuro leaves\n"
    '{"request": "brew gyokuro for how long"}\n'
)
TEA = "Steep green tea at the right temperature."


@pytest.fixture
def improve(drinks, indexed):
    """Run the command on the skill about tea, without the reader."""

    def run(*args, name="steep-tea", stdin=REQUESTS):
        return indexed("improve", name, "--reader", "off", "--requests", "-", *args, stdin=stdin)

    return run


@pytest.fixture
def file(drinks):
    """Name the file that is edited."""
    return drinks / "steep-tea" / "SKILL.md"


def test_the_proposal_is_a_diff_with_its_effects_and_nothing_is_written(improve, file):
    before = file.read_bytes()
    done = improve()
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"--- {file}", f"+++ {file}"]
    assert f"-description: {TEA}" in lines
    (added,) = (line for line in lines if line.startswith("+desc"))
    assert "sencha" in added
    assert "steep-tea: 2 requests: first for 0 → 2" in done.stderr
    assert "made from 2 requests, measured on 2 others" in done.stderr
    assert file.read_bytes() == before


def test_it_is_written_once_the_user_agrees(improve, file, drinks, indexed):
    before = file.read_bytes()
    refused = improve("--write")
    assert (refused.exit_code, file.read_bytes()) == (1, before)
    assert "To write it, add --yes." in refused.stderr
    done = improve("--write", "--yes", "--json")
    record = json.loads(done.stdout)
    assert (done.exit_code, record["written"]) == (0, True)
    skill = read_skill(file, doc_id="", root=drinks)
    assert skill.description == record["description"] != TEA
    head, tail = before.split(TEA.encode())
    after = file.read_bytes()
    assert (after.startswith(head.split(b"description")[0]), after.endswith(tail)) == (True, True)
    hits = json.loads(indexed("query", "gyokuro", "--threshold", "0", "--json").stdout)["hits"]
    assert hits[0]["name"] == "steep-tea"


def test_the_json_is_as_its_schema_says(improve):
    schema = json.loads(improve("--json-schema").stdout)
    for stdin in (REQUESTS, "steep green tea\n"):
        record = json.loads(improve("--json", stdin=stdin).stdout)
        Draft202012Validator(schema).validate(record)
        assert bool(record["diff"]) == bool(record["kinds"])


def test_the_examples_of_a_skill_stay_with_it(improve):
    """They know it by its description, so the old ones would be lost."""
    texts = ("keep the kettle warm", "a pot for two guests", "leaves in a bag")
    change_examples([ExampleEntry(digest_of_skill("steep-tea", TEA), "steep-tea", texts)])
    record = json.loads(improve("--write", "--yes", "--json").stdout)
    entry = user_examples()[digest_of_skill("steep-tea", record["description"])]
    assert entry.examples == texts


@pytest.mark.parametrize(
    ("args", "options", "code", "said"),
    [
        (("--yes",), {}, 2, "--yes is for --write"),
        ((), {"name": "steep-coffee"}, 1, "steep-coffee"),
        ((), {"stdin": ""}, 1, "There are no requests for steep-tea"),
        ((), {"stdin": "x" * (1 << 21)}, 2, "1 MiB at most"),
        ((), {"stdin": "steep tea".encode("utf-16")}, 2, "no text; save them as UTF-8"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_next_step(improve, args, options, code, said):
    done = improve(*args, **options)
    assert done.exit_code == code
    assert said in done.stderr


def test_a_file_that_is_not_the_users_is_not_written_but_shown(improve, indexed, drinks, file):
    assert indexed("index", "--trust", f"{drinks}=project").exit_code == 0
    before = file.read_bytes()
    done = improve("--write", "--yes")
    assert (done.exit_code, file.read_bytes()) == (1, before)
    assert "is not edited: nobody vouches for its root" in done.stderr
    shown = improve()
    assert (shown.exit_code, shown.stdout.startswith("---")) == (0, True)
    assert "it is not yours to edit: nobody vouches" in shown.stderr
    command = shown.stderr.partition("if it is yours: skillsearch ")[2].splitlines()[0]
    assert indexed(*shlex.split(command)).exit_code == 0
    assert "not yours" not in improve().stderr


def test_few_requests_are_measured_on_themselves_and_that_is_said(improve):
    done = improve(stdin="sencha in a kettle\n")
    assert "measured on the same, since there are fewer than 4" in done.stderr
