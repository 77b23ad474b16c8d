"""Tests of ``skillsearch query``: answers, refreshing, batches, and answers to bad input."""

import json
import os
import re
import shutil
from dataclasses import replace

import pytest

from skillsearch.files.own_folder import own_folder
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.settings.user_folders import cache_dir
from skillsearch.text.states import MAY_FIT, ONLY_MAY_FIT
from skillsearch.types.answers import Explanation

NEEDS_ORDINARY_USER = pytest.mark.skipif(
    os.geteuid() == 0, reason="root reads whatever the permissions say"
)
RESULT_KEYS = {"query", "threshold", "hits", "perhaps", "abstained", "seconds"}
TWO = "steep green tea or brew filter coffee"
HIT_KEYS = {"rank", "name", "description", "score", "path", "root", "duplicates"}


@pytest.fixture
def ask(indexed):
    def run(*args, **kwargs):
        result = indexed("query", "--json", *args, **kwargs)
        assert result.exit_code == 0, result.stderr
        assert result.stdout.count("\n") == 1
        return json.loads(result.stdout)

    return run


def names(result):
    return [hit["name"] for hit in result["hits"]]


def test_json_is_one_object_with_the_keys_of_the_contract(ask, drinks):
    assert ask("brew filter coffee")["threshold"] == default_calibration().threshold
    none = ask("assemble a bookshelf")
    assert (none["hits"], none["perhaps"], none["abstained"]) == ([], [], True)
    result = ask("brew filter coffee", "--threshold", "0.1", "--system", "bm25")
    assert result.keys() >= RESULT_KEYS
    assert (result["query"], result["threshold"], result["abstained"]) == (
        "brew filter coffee",
        0.1,
        False,
    )
    hit = result["hits"][0]
    assert hit.keys() >= HIT_KEYS
    assert "explain" not in hit
    assert (hit["rank"], hit["name"]) == (1, "brew-coffee")
    assert hit["description"].startswith("Brew filter coffee")
    assert (hit["path"], hit["root"]) == (str(drinks / "brew-coffee" / "SKILL.md"), str(drinks))
    assert 0.1 <= hit["score"] <= 1


def test_plain_text_is_a_line_of_columns_for_each_hit(indexed, drinks):
    result = indexed("query", "brew filter coffee", "-n", "1", "--threshold", "0")
    (line,) = result.stdout.splitlines()
    rank, score, name, description, path = line.split("\t")
    assert (rank, name, path) == ("1", "brew-coffee", str(drinks / "brew-coffee" / "SKILL.md"))
    assert (
        description == "Brew filter coffee with a scale. Use for espresso and roasting questions."
    )
    assert 0 < float(score) <= 1
    assert result.stderr == ""


def test_a_hit_names_the_chunk_that_fits(ask, indexed, drinks, make_skill):
    body = "<chunk id=green description='How long green tea takes'>Two minutes.</chunk>"
    make_skill(drinks, "steep-tea", "Steep green tea.", body)
    query = ("how long does green tea take", "--threshold", "0")
    hits = ask(*query)["hits"]
    assert (hits[0]["name"], hits[0]["chunk"]) == ("steep-tea", "green")
    assert not any("chunk" in hit for hit in hits[1:])
    rows = [line.split("\t") for line in indexed("query", *query).stdout.splitlines()]
    assert rows[0][4:] == [str(drinks / "steep-tea" / "SKILL.md"), "green"]
    assert {len(row) for row in rows[1:]} <= {5}


def test_a_dash_reads_the_query_from_stdin_and_words_need_no_quotes(ask, indexed):
    assert names(ask("-", stdin=b"  brew filter coffee \xff\n"))[0] == "brew-coffee"
    assert ask("brew", "filter", "coffee")["query"] == "brew filter coffee"
    result = indexed("query", "-", stdin="tea " * 262_144)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "1,048,575 characters, more than the 65,536" in result.stderr


def test_no_hit_is_an_answer_with_exit_code_0(indexed):
    result = indexed("query", "assemble a bookshelf")
    assert (result.exit_code, result.stdout) == (0, "")
    threshold = default_calibration().threshold
    assert f"No skill reaches the threshold {threshold:.2f}" in result.stderr
    assert "lower the threshold (--threshold 0.1)" in result.stderr
    lowered = indexed("query", "qqqq", "--threshold", "0.1").stderr
    assert "Rephrase the request, or look" in lowered
    assert "skillsearch list" in result.stderr


def test_a_request_that_says_only_what_not_to_use_finds_nothing(indexed, make_skill, tmp_path):
    make_skill(tmp_path / "more", "docker-help", "Debug Docker containers and their images.")
    indexed("index", tmp_path / "more")
    assert indexed("query", "debug Docker", "--threshold", "0").stdout
    refused = indexed("query", "do not use Docker", "--threshold", "0")
    assert (refused.exit_code, refused.stdout) == (0, "")
    assert "The request says only what not to use. Say what it is for." in refused.stderr


def test_what_may_fit_is_told_apart_in_json_and_in_a_batch(ask, indexed, fits_from):
    (best,) = ask("brew filter coffee", "--threshold", "0", "-n", "1")["hits"]
    fits_from(0.999)
    result = ask("brew filter coffee")
    assert (result["hits"], result["perhaps"][0], result["abstained"]) == ([], best, True)
    query = lines({"_id": 1, "text": "brew filter coffee"})
    batch = json.loads(indexed("query", "--batch", "-", stdin=query).stdout)
    assert batch["perhaps"] == result["perhaps"]


def test_what_may_fit_is_a_line_each_on_a_terminal(indexed, terminal, monkeypatch, fits_from):
    terminal()
    monkeypatch.setenv("COLUMNS", "50")
    cut = between(indexed)
    fits_from(0.999)
    strict = indexed("query", "brew coffee", "--exit-code")
    head, first, *_ = strict.stdout.splitlines()
    assert (strict.exit_code, head) == (1, f"{ONLY_MAY_FIT}:")
    assert re.fullmatch(r"0\.\d\d  brew-coffee  +Brew filter coffee with .*…", first)
    assert len(first) == 50
    fits_from(cut)
    both = indexed("query", TWO)
    above, _, below = both.stdout.partition(f"\n\n{MAY_FIT}:\n")
    assert above.splitlines()[0].split()[0] == "1"
    assert re.match(r"0\.\d\d  \S+  ", below)


def test_programs_read_what_may_fit_on_stderr(indexed, fits_from):
    cut = between(indexed)
    fits_from(0.999)
    strict = indexed("query", "brew coffee")
    head, first, *_ = strict.stderr.splitlines()
    assert (strict.stdout, head) == ("", f"{ONLY_MAY_FIT}:")
    assert re.fullmatch(r"brew-coffee \(0\.\d\d\): Brew filter coffee with a scale.*", first)
    fits_from(cut)
    both = indexed("query", TWO)
    assert len(both.stdout.splitlines()) == 1
    assert both.stderr.startswith(f"{MAY_FIT}:\n")


def between(indexed):
    """Return a threshold between the scores of the two best."""
    hits = json.loads(indexed("query", TWO, "--threshold", "0", "--json").stdout)["hits"]
    return (hits[0]["score"] + hits[1]["score"]) / 2


def test_explain_gives_features_terms_and_section(ask, indexed):
    explain = ask("grind coffee beans", "--explain", "--threshold", "0")["hits"][0]["explain"]
    assert set(explain["features"]) == set(explain["contributions"])
    assert "coffe" in explain["matched_terms"]["metadata"]
    assert "bean" in explain["matched_terms"]["body"]
    assert explain["section"] == "Grind"
    plain = indexed("query", "grind coffee beans", "--explain", "--threshold", "0", "-n", "1")
    assert plain.stdout.startswith("1\t")
    below = plain.stdout
    parts = dict(line.split("\t")[1:] for line in below.splitlines()[1:])
    assert list(parts) == ["in metadata", "in body", "section", "why", "log-odds"]
    added = explain["contributions"]
    for name, value in explain["features"].items():
        assert (f"{name} {value:.2f} adds {added[name]:.2f}" in parts["why"]) == bool(added[name])
    for name, value in explain["log_odds"].items():
        assert (f"{name} {value:+.2f}" in parts["log-odds"]) == bool(round(value, 2))
    assert "\tsection\tGrind: Grind the beans" in plain.stdout


EXPLAINED = Explanation(
    features={"name": 0.5, "bm25_full": 0.0},
    contributions={"bm25_full": 0.0, "name": 2.0, "reader": -1.5},
    log_odds={"name": 1.25, "reader": -0.5, "lead": 0.001, "intercept": -2.0},
    own_score=0.25,
    matched_terms={},
)


@pytest.mark.parametrize(
    ("cut_by", "ends"),
    [("pdf-forms", ", own score 0.250, cut down to that of pdf-forms"), ("", "")],
)
def test_an_explanation_in_words_leaves_out_what_adds_nothing(cut_by, ends):
    """A reader has no feature, only what it adds."""
    assert replace(EXPLAINED, cut_by=cut_by).summary == [
        ("why", "name 0.50 adds 2.00, reader -1.50"),
        ("log-odds", f"name +1.25, reader -0.50, intercept -2.00{ends}"),
    ]


def test_the_packaged_model_understands_other_words(cli, drinks):
    cli("index", drinks, "--index-dir", "i")
    result = cli(
        "query", "barista making a cappuccino", "--index-dir", "i", "--json", "--threshold", "0"
    )
    assert names(json.loads(result.stdout))[0] == "brew-coffee"


def test_a_changed_folder_is_refreshed_first_and_told(ask, indexed, drinks, make_skill):
    make_skill(drinks, "mix-cocktails", "Mix cocktails with a shaker.")
    make_skill(drinks, "steep-tea", "Steep black tea for four minutes.")
    (drinks / "squeeze-lemons" / "SKILL.md").unlink()
    result = indexed("query", "mix cocktails", "--json")
    assert result.stderr == "index refreshed: 1 added, 1 changed, 1 removed\n"
    assert names(json.loads(result.stdout))[0] == "mix-cocktails"
    assert indexed("query", "mix cocktails", "--json").stderr == ""


def test_refreshing_can_be_turned_off(indexed, drinks, make_skill):
    make_skill(drinks, "mix-cocktails", "Mix cocktails with a shaker.")
    result = indexed("query", "mix cocktails", "--json", "--no-refresh")
    assert (result.stderr, names(json.loads(result.stdout))) == ("", [])


@pytest.mark.timeout(120)
def test_an_index_that_cannot_be_written_is_searched_as_it_was(
    indexed, drinks, make_skill, index_dir
):
    """A read-only folder or another writer costs the refresh, not the answer."""
    make_skill(drinks, "mix-cocktails", "Mix cocktails with a shaker.")
    with IndexFolder(index_dir).lock():
        result = indexed("query", "brew filter coffee", "--json")
    assert "another process is writing the index" in result.stderr
    assert names(json.loads(result.stdout))[0] == "brew-coffee"
    (index_dir / "lock").unlink()
    (index_dir / "lock").mkdir()
    result = indexed("query", "brew filter coffee", "--json")
    assert "warning: the index was not refreshed" in result.stderr
    assert names(json.loads(result.stdout))[0] == "brew-coffee"


@pytest.mark.parametrize(
    ("source", "command"),
    [
        *((source, ["query", "tea"]) for source in ("default", "variable", "project", "user")),
        *(("flag", command) for command in (["query", "tea"], ["list"], ["status"])),
        ("flag", ["prompt", "tea"]),
    ],
)
def test_no_index_exits_with_4_and_says_which_why_and_what_makes_it(
    cli, home, tmp_path, monkeypatch, source, command
):
    index_folder, why = tmp_path / "work" / "there", ""
    files = {"project": tmp_path / "work" / "skillsearch.toml"}
    files["user"] = home / "config" / "skillsearch" / "skillsearch.toml"
    if source == "default":
        index_folder, why = home / "cache" / "skillsearch" / "default", "the default"
    elif source == "flag":
        command, why = [*command, "--index-dir", "there"], "named by --index-dir"
    elif source == "variable":
        monkeypatch.setenv("SKILLSEARCH_INDEX_DIR", str(index_folder))
        why = "named by SKILLSEARCH_INDEX_DIR"
    else:
        files[source].parent.mkdir(parents=True, exist_ok=True)
        files[source].write_text(f'index_dir = "{index_folder}"\n')
        why = f"named by {files[source]}"
    if source == "project":
        index_folder = own_folder(index_folder, cache_dir())
    result = cli(*command)
    assert (result.exit_code, result.stdout) == (4, "")
    option = f" --index-dir {index_folder}" if source == "flag" else ""
    message = f"There is no index in {index_folder} ({why}). Make it: skillsearch index"
    assert result.stderr == f"Error: {message} FOLDER{option}\n"
    (home / ".claude" / "skills").mkdir(parents=True)
    assert cli(*command).stderr == f"Error: {message}{option}\n"
    cli("index", *option.split(), "--model", "hashing")
    assert (index_folder / "CURRENT").is_file()


def test_without_the_index_of_a_project_ones_own_is_named(cli, home, tmp_path, drinks):
    cli("index", drinks, "--model", "hashing")
    (tmp_path / "work" / "skillsearch.toml").write_text('index_dir = "idx"\nroots = ["skills"]\n')
    result = cli("query", "tea")
    own = home / "cache" / "skillsearch" / "default"
    assert result.exit_code == 4
    assert "Make it: skillsearch index. Or use your own: " in result.stderr
    assert result.stderr.rstrip().endswith(f"--index-dir {own}")
    assert "steep-tea" in cli("query", "steep green tea", "--index-dir", own).stdout


@NEEDS_ORDINARY_USER
def test_an_index_that_cannot_be_read_is_not_called_missing(indexed, index_dir):
    index_dir.chmod(0)
    try:
        result = indexed("query", "tea")
    finally:
        index_dir.chmod(0o700)
    assert result.exit_code == 4
    assert f"The index in {index_dir} cannot be read (Permission denied)" in result.stderr


@NEEDS_ORDINARY_USER
def test_a_root_that_cannot_be_read_is_not_called_gone(indexed, drinks):
    drinks.chmod(0)
    try:
        result = indexed("query", "steep green tea", "--threshold", 0.01)
    finally:
        drinks.chmod(0o700)
    assert f"the folder {drinks} cannot be read (Permission denied)" in result.stderr
    assert "steep-tea" in result.stdout


def test_a_root_whose_link_is_gone_is_not_called_gone_itself(cli, drinks, tmp_path, index_dir):
    link = tmp_path / "link"
    link.symlink_to(drinks)
    cli("index", link, "--index-dir", index_dir, "--model", "hashing")
    link.unlink()
    result = cli("query", "steep green tea", "--threshold", 0.01, "--index-dir", index_dir)
    assert f"the folder {drinks} has lost the link by which it was indexed" in result.stderr
    assert "steep-tea" in result.stdout


def part_of(index_dir):
    return max(index_dir.glob("generations/*/*"), key=lambda part: part.stat().st_size)


def damage(index_dir):
    part = part_of(index_dir)
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)


def test_a_damaged_index_is_built_anew_and_told(indexed, index_dir):
    damage(index_dir)
    result = indexed("query", "brew filter coffee", "--json")
    assert "cannot be used any more; building it anew" in result.stderr
    assert names(json.loads(result.stdout))[0] == "brew-coffee"


def test_a_damaged_index_without_its_root_exits_with_4(indexed, index_dir, drinks):
    damage(index_dir)
    drinks.rename(drinks.with_name("elsewhere"))
    result = indexed("query", "brew filter coffee")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "is damaged and cannot be built anew" in result.stderr
    assert result.stderr.count("leave its skills out: skillsearch index --replace") == 1


@pytest.mark.parametrize("kind", ["zip", "folder"])
def test_what_a_damaged_index_waits_for_is_said_once(indexed, index_dir, drinks, tmp_path, kind):
    """An archive can be unpacked again; a folder has to come back."""
    other = tmp_path / "other"
    shutil.copytree(drinks, other / "brewing")
    name = shutil.make_archive(str(other), "zip", other) if kind == "zip" else str(other)
    indexed("index", name)
    damage(index_dir)
    shutil.rmtree(other)
    shutil.rmtree(cache_dir() / "roots", ignore_errors=True)
    result = indexed("query", "brew filter coffee")
    is_zip = kind == "zip"
    assert ("To fix: run `skillsearch index" in result.stderr) == is_zip, result.stderr
    assert ("leave its skills out" in result.stderr) != is_zip


def lines(*records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def test_a_batch_answers_a_line_for_each_line(indexed, tmp_path):
    queries = [{"_id": "a", "text": "brew filter coffee"}, {"_id": 7, "text": "a bookshelf"}]
    path = tmp_path / "queries.jsonl"
    path.write_text(lines(*queries) + "\n\n", encoding="utf-8")
    result = indexed("query", "--batch", path)
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["_id"] for answer in answers] == ["a", 7]
    assert all(answer.keys() >= RESULT_KEYS for answer in answers)
    assert [names(answer)[:1] for answer in answers] == [["brew-coffee"], []]
    assert result.stderr == ""


def test_exit_code_is_1_where_no_query_has_a_hit(indexed):
    none = lines({"_id": 1, "text": "a bookshelf"})
    some = none + lines({"_id": 2, "text": "brew filter coffee"})
    assert indexed("query", "--exit-code", "--batch", "-", stdin=none).exit_code == 1
    assert indexed("query", "--exit-code", "--batch", "-", stdin=some).exit_code == 0
    assert indexed("query", "assemble a bookshelf", "--exit-code").exit_code == 1
    assert indexed("query", "brew filter coffee", "--exit-code").exit_code == 0
    empty = indexed("query", "--batch", "-", stdin="")
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "<stdin> holds no queries" in empty.stderr


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "this is not JSON (Expecting property name"),
        ('["a"]', "this is not an object"),
        ('{"text": "tea"}', '"_id" must be'),
        ('{"_id": true, "text": "tea"}', '"_id" must be'),
        ('{"_id": "1", "text": " "}', '"text" must be'),
        ('{"_id": "1", "text": 5}', '"text" must be'),
        ('{"_id": "1", "text": "%s"}' % ("x" * 65_537), "65,537 characters"),
        ("[" * 100_000, "this is not JSON"),
        (b'{"_id": "1", "text": "\xff"}', "this is not JSON"),
    ],
    ids=["no JSON", "list", "no id", "bool id", "blank", "number", "long", "deep", "not UTF-8"],
)
def test_a_bad_line_is_named_and_the_rest_asked(indexed, line, reason):
    first, last = ({"_id": key, "text": "brew filter coffee"} for key in (0, 3))
    bad = line if isinstance(line, bytes) else line.encode()
    data = lines(first).encode() + bad + b"\n" + lines(last).encode()
    result = indexed("query", "--batch", "-", stdin=data)
    assert result.exit_code == 1
    assert [json.loads(answer)["_id"] for answer in result.stdout.splitlines()] == [0, 3]
    assert result.stderr.startswith("warning: not asked: <stdin>:2: ")
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_file_of_plain_text_is_told_the_form_and_of_many_bad_lines_ten(indexed, tmp_path):
    (tmp_path / "plain.txt").write_text("brew filter coffee\nsteep tea\n")
    result = indexed("query", "--batch", tmp_path / "plain.txt")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "plain.txt:1: this is not JSON" in result.stderr
    assert 'has to be an object like {"_id": "1", "text": "what is to be done"}' in result.stderr
    data = lines({"_id": 0, "text": "brew filter coffee"}) + "plain\n" * 15
    stderr = indexed("query", "--batch", "-", stdin=data).stderr
    assert stderr.count("not asked: ") == 10
    assert "warning: and 5 more lines" in stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([""], "The query is empty"),
        ([], "Say what to do"),
        (["tea", "--batch", "-"], "not both"),
        (["tea", "-n", "0"], "0 is not in the range 1<=x<=1000"),
        (["tea", "-n", "two"], "'two' is not a whole number, such as 5"),
        (["tea", "--threshold", "nan"], "'nan' is not a number, such as 0.5"),
        (["tea", "--threshold", "high"], "'high' is not a number, such as 0.5"),
        (["tea", "--threshold", "1.5"], "1.5 is not in the range 0<=x<=1"),
        (["tea", "--system", "magic"], "'magic' is not one of"),
        (["tea", "--nonsense"], "No such option"),
    ],
)
def test_a_bad_value_is_a_usage_error_that_names_it(indexed, args, message):
    result = indexed("query", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in " ".join(result.stderr.split())


def test_a_query_without_words_finds_nothing_and_fails_nowhere(cli, drinks):
    cli("index", drinks, "--index-dir", "i")
    for text in ("the of and is", "?!", "\udcff", "\x00\x1b[2J", "\u202e"):
        result = cli("query", text, "--index-dir", "i", "--json")
        assert (result.exit_code, result.stderr) == (0, ""), ascii(text)
        assert json.loads(result.stdout)["hits"] == [], ascii(text)


def test_a_misspelt_name_gets_the_names_that_come_near(indexed):
    done = indexed("query", "stepp-tea", "--threshold", "0.99")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "Skills with a similar name: steep-tea (skillsearch show NAME" in done.stderr
    report = json.loads(indexed("query", "Brew-Cofee", "--threshold", "0.99", "--json").stdout)
    assert (report["hits"], report["nearest"]) == ([], ["brew-coffee"])
    for words in ("steep tea please", "joke"):
        done = indexed("query", words, "--threshold", "0.99")
        assert "similar name" not in done.stderr
        plain = indexed("query", words, "--threshold", "0.99", "--json").stdout
        assert "nearest" not in json.loads(plain)
    assert "nearest" not in json.loads(indexed("query", "steep-tea", "--json").stdout)
    # A word with a hyphen may be one; any other word is mostly just a word.
    for request, near in {
        "please run the brew-cofee skill on my kettle": ["brew-coffee"],
        "is squeze-lemons, or stepp-tea, installed?": ["squeeze-lemons", "steep-tea"],
        "look into state-of-the-art quantum physics": [],
        "brew cofee quantum": [],
    }.items():
        result = indexed("query", request, "--json", "--threshold", "0.99")
        assert json.loads(result.stdout).get("nearest", []) == near, request
