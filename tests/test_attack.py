"""Attackers who write skills for the search gain little; and the script that measures it."""

import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import skillsearch
from skillsearch.evaluation.collection import save_collection
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.skills.parser import read_skill
from skillsearch.types.answers import Hit

EXAMPLES = Path(skillsearch.__file__).parent / "examples"
REQUESTS = {
    "kubernetes-crashloop": "my pod keeps restarting and I do not know why",
    "csv-to-chart": "turn this table of sales into a chart for the report",
    "git-bisect-regression": "find the commit that broke the build",
    "fill-pdf-forms": "fill in the tax form and save it as a PDF",
    "sql-query-tuning": "which index would make this slow query fast",
    "write-changelog": "write release notes from the merged pull requests",
    "git-history-rewrite": "remove a password from the git history",
    "accessibility-audit": "check our page with a screen reader",
    "log-triage": "group similar lines of this huge log",
    "api-rate-limits": "the API answers 429 too many requests",
}
"""Requests by the example of the package that is right for each."""
VICTIMS = {
    "csv-to-chart": (
        "draw a bar chart of these monthly numbers",
        "plot the CSV and label both axes",
        "which kind of chart suits this data",
    ),
    "log-triage": (
        "this log has two million lines, what is new in it",
        "follow one request id through the log files",
        "which error suddenly appears much more often in the log",
    ),
}
"""Requests of skills that are cloned."""
MADE = """
repot-orchids|Move orchids into fresh bark and trim dead roots|my orchid outgrew its pot, what now
tune-piano|Set the pitch of piano strings with a lever and a fork|the middle octave is off
bake-sourdough|Feed a starter, shape and bake sourdough loaves|my sourdough loaf comes out flat
sharpen-knives|Grind and hone kitchen knives on whetstones|the chef's knife crushes tomatoes
plan-hike|Choose mountain trails by height, weather and daylight|a day hike that ends before dark
knit-socks|Knit socks on five needles, heel and toe included|how do I turn the heel of this sock
season-firewood|Split, stack and dry firewood for the stove|my logs hiss and smoke in the stove
train-puppy|House-train young dogs and teach them to come|our young dog ignores us when called
brew-kombucha|Ferment sweet tea with a scoby and bottle it|mould grows on my fermenting sweet tea
fold-cranes|Fold paper cranes and other origami birds|make a bird out of a square of paper
fix-bicycle|Adjust derailleurs, brakes and spokes of bicycles|the gears of my bike slip uphill
read-tides|Work out tides from nautical tables|when is the water over the sandbar deep enough
prune-apples|Cut back apple trees in winter for more fruit|our apple tree bears little since years
mix-concrete|Mix and pour concrete for posts and slabs|how much cement for twelve fence posts
sew-curtains|Measure, cut, hem and hang curtains|cloth for two windows, lined and hemmed
track-comets|Find comets and planets with a small telescope|what can I point my telescope at tonight
"""
"""Skills by name, what each does, and a request."""
ORDINARY = """
catch-trout|Cast flies for trout in cold rivers
carve-spoons|Carve wooden spoons from green birch
dye-wool|Dye wool with onion skins and madder
keep-bees|Look after bee hives through the year
juggle-clubs|Throw and catch three clubs in a cascade
clean-grout|Scrub the joints between bathroom tiles
weigh-parcels|Choose the cheapest postage for a parcel
graft-roses|Graft garden roses on wild stock
wax-skis|Iron wax onto skis for cold snow
label-spices|Print and sort labels for spice jars
play-checkers|Win end games of draughts
polish-silver|Take the tarnish off forks and candlesticks
"""
ATTACKERS = 12
CLONES = 30


@pytest.fixture(scope="module")
def texts(import_script):
    return import_script("attacks.texts")


@pytest.fixture(scope="module")
def script(import_script):
    return import_script("attack")


@pytest.fixture(scope="module")
def grounds(import_script):
    return import_script("attacks.ground")


@pytest.fixture(scope="module")
def probes(import_script):
    return import_script("attacks.probes")


def read_rows(table, text_of):
    """Return the skills of a table; their bodies are long enough to tell one from another."""
    rows = [line.split("|") for line in table.strip().splitlines()]
    steps = "Ask what is wanted. {0}. Look whether it came out well, and if not, begin again. "
    return {
        name: text_of(name, f"{about}.", f"# {name}\n\n{steps.format(about) * 3}\n")
        for name, about, *_ in rows
    }


@pytest.fixture(scope="module")
def setting(script, grounds, texts):
    """Examples of the package and made ones; attackers know every other request."""
    honest = {}
    for name in REQUESTS:
        skill = read_skill(EXAMPLES / name / "SKILL.md", doc_id=name, root=EXAMPLES)
        honest[name] = texts.Text(skill.name, skill.description, skill.body)
    honest |= read_rows(MADE, texts.Text)
    made = [line.split("|") for line in MADE.strip().splitlines()]
    requests = REQUESTS | {name: request for name, _, request in made}
    judged = [grounds.Request(request, {name: 2}) for name, request in requests.items()]
    ordinary = list(read_rows(ORDINARY, texts.Text).values())
    return script.Setting(honest, ordinary, judged, judged[::2], judged[1::2])


@pytest.fixture(scope="module")
def ground(grounds, setting, tmp_path_factory):
    return grounds.Ground(tmp_path_factory.mktemp("ground"), setting.honest, reader="off")


@pytest.fixture(scope="module")
def attacks(script, setting, ground):
    return script.Attacks(setting, ground, ATTACKERS, 0)


@pytest.fixture(scope="module")
def controls(attacks):
    """What is found alone, and beside ordinary skills."""
    return attacks.run("none", "unset"), attacks.run("ordinary", "unset")


@pytest.mark.parametrize("kind", ["stuffing", "triggers", "hidden", "manner"])
@pytest.mark.slow
def test_words_alone_win_no_more_than_ordinary_skills(attacks, controls, kind):
    alone, beside = controls
    outcome = attacks.run(kind, "unset")
    assert outcome.first.sum() == 0
    assert outcome.taken.sum() <= beside.taken.sum() + 1
    assert outcome.ndcg.mean() >= alone.ndcg.mean() - 0.05


def test_copies_under_other_names_gain_little(attacks, setting, ground):
    alone = ground.measure(setting.known)
    copies = attacks.texts("copies", "unset")
    bodies = {text.body for text in setting.honest.values()}
    whole = ground.measure(setting.known, [copy for copy in copies if copy.body in bodies])
    assert whole.first.sum() == 0
    assert whole.ndcg.mean() >= alone.ndcg.mean() - 0.02
    outcome = ground.measure(setting.known, copies)
    assert outcome.first.mean() <= 0.4
    assert outcome.ndcg.mean() >= alone.ndcg.mean() - 0.25


def test_copies_under_the_same_names_gain_nothing(attacks, setting, ground):
    outcome = ground.measure(setting.known, attacks.texts("same-name", "unset"))
    assert outcome.taken.sum() == 0
    assert outcome.ndcg.tolist() == ground.measure(setting.known).ndcg.tolist()


@pytest.mark.slow
def test_clones_do_not_push_their_victim_out(probes, grounds, ground):
    requests = [
        grounds.Request(text, {skill: 2}) for skill, texts in VICTIMS.items() for text in texts
    ]
    (effect,) = probes.clone_victims(ground, requests, ["unset"], random.Random(0), CLONES)
    assert len(effect.before) == len(requests)
    assert effect.before.mean() == 1.0
    assert effect.after.tolist() == effect.before.tolist()


def test_a_copy_of_everything_in_a_later_root_changes_nothing(probes, ground, setting):
    """Its ids sort first, and still the honest paths are shown."""
    effects = list(probes.copy_all(ground, setting.measured, ["unset"], random.Random(0)))
    actual = [effect.measure.rpartition(" ")[2] for effect in effects]
    assert actual == ["SkillIndex", "SkillLibrary"]
    for effect in effects:
        assert effect.before.mean() == 1.0
        assert effect.after.tolist() == effect.before.tolist()


def hit(path, *duplicates):
    return Hit(1, "n", "d", 0.5, path, "r", "id", duplicates)


def test_ndcg_counts_honest_skills_alone(grounds):
    """By hand: an attacker in front, then a grade 1, then what stands for a grade 2."""
    ids = {"/a": "a", "/b": "b", "/c": "c"}
    actual = grounds.ndcg([hit("/x", "/b"), hit("/a"), hit("/c", "/b")], {"a": 1, "b": 2}, ids)
    best = 2 + 1 / np.log2(3)
    assert actual == pytest.approx((1 / np.log2(3) + 2 / np.log2(4)) / best)


def make_collection(name, count):
    """Make a collection of skills that share no word, each with a request."""
    rows = MADE.strip().splitlines()[:count]
    documents, queries, qrels = [], [], {}
    for number, row in enumerate(rows):
        skill, about, request = row.split("|")
        documents.append(JudgedDocument(f"d{number}", f"{name}-{skill}", f"{name}: {about}"))
        queries.append(JudgedQuery(f"q{number}", request))
        qrels[f"q{number}"] = {f"d{number}": 2}
    return Collection(name, tuple(documents), tuple(queries), qrels)


def test_ordinary_skills_are_held_out_of_the_background(script):
    judged, background = make_collection("one", 6), make_collection("two", 8)
    sizes = {"queries": 5, "attackers": 4, "rng": random.Random(0)}
    setting = script.make_setting([judged], [background], [], **sizes)
    assert (len(setting.honest), len(setting.ordinary)) == (10, 4)
    assert not {text.name for text in setting.honest.values()} & {
        text.name for text in setting.ordinary
    }
    assert (len(setting.known), len(setting.measured), len(setting.requests)) == (2, 3, 6)
    assert not {a.text for a in setting.known} & {a.text for a in setting.measured}


def test_the_script_prints_tables_and_writes_json(script, tmp_path, monkeypatch, capsys):
    for name, count in (("one", 6), ("two", 8)):
        save_collection(make_collection(name, count), tmp_path / name)
    file = tmp_path / "numbers.json"
    options = ["--kinds", "stuffing", "honest-unvetted", "--trust", "unset", "--attackers", "3"]
    options += ["--queries", "6", "--reader", "off", "--json", str(file)]
    collections = [str(tmp_path / "one"), "--background", str(tmp_path / "two")]
    monkeypatch.setattr(sys, "argv", ["attack.py", *collections, *options])
    script.main()
    shown = capsys.readouterr().out
    actual = [line.split("|")[1].strip() for line in shown.splitlines()[3:5]]
    assert actual == ["ordinary", "stuffing"]
    report = json.loads(file.read_text(encoding="utf-8"))
    ordinary, stuffing = report["attacks"]
    assert stuffing["gain"] == pytest.approx(stuffing["first_five"] - ordinary["first_five"])
    assert report["settings"]["honest"] == 11
    assert [row["trust"] for row in report["probes"]] == ["unset"]


def bodied(name, count):
    """Make a collection as `make_collection` does: each skill has a body, and three requests."""
    made = make_collection(name, count)
    documents = [
        replace(skill, body=f"# {skill.name}\n\n" + f"{skill.description}, step by step. " * 9)
        for skill in made.documents
    ]
    queries, qrels = list(made.queries), dict(made.qrels)
    for skill, query in zip(made.documents, made.queries, strict=True):
        for number, text in enumerate((skill.description, f"{query.text} {skill.description}")):
            queries.append(JudgedQuery(f"{query.query_id}-{number}", text))
            qrels[queries[-1].query_id] = made.qrels[query.query_id]
    return Collection(name, tuple(documents), tuple(queries), qrels)


@pytest.fixture
def run_victims(script, tmp_path, monkeypatch):
    """Attack the victims of a few skills by some kinds; return the rows by kind and root."""

    def run(*kinds):
        save_collection(bodied("one", 3), tmp_path / "one")
        file = tmp_path / "numbers.json"
        options = ["--kinds", *kinds, "--attackers", "0", "--queries", "6", "--reader", "off"]
        command = ["attack.py", str(tmp_path / "one"), *options, "--json", str(file)]
        monkeypatch.setattr(sys, "argv", command)
        script.main()
        rows = json.loads(file.read_text(encoding="utf-8"))["victims"]
        return {(row["kind"], row["root"]): row for row in rows}

    return run


@pytest.mark.parametrize(
    "kinds",
    [
        ("capture", "split"),
        pytest.param(("version", "bridge", "paraphrase"), marks=pytest.mark.slow),
    ],
    ids=", ".join,
)
def test_no_attacker_in_the_same_root_makes_a_victim_lost(run_victims, capsys, kinds):
    """By a copy with triggers, a version, halves; those outside a family take places at most."""
    rows = run_victims(*kinds)
    assert {kind for kind, _ in rows} == set(kinds)
    assert all(row["five_before"] == 1.0 and row["victims"] == 3 for row in rows.values())
    assert [key for key, row in rows.items() if row["lost"]] == []
    assert "capture" not in kinds or rows["capture", "same root"]["five_after"] == 1.0
    assert f"| {kinds[0]} | same root | " in capsys.readouterr().out


def test_a_lost_victim_is_a_failure(run_victims, import_script, monkeypatch, capsys):
    """One that is among the first five hits and then no more."""
    victims, shares = import_script("attacks.victims"), iter([1.0, 0.0, 0.0])

    def standings(ground, index, owned):
        return victims.Standings(*[np.full(len(owned), next(shares))] * 2)

    monkeypatch.setattr(victims, "_standings", standings)
    with pytest.raises(SystemExit, match="Victims of capture are lost"):
        run_victims("capture")
    assert "3 of 3" in capsys.readouterr().out
