"""Tests of how a skill is said to stand for a request, beside the skill that comes first."""

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillsearch.index.search.evidence import EVIDENCE, INTERCEPT, MEANINGS, READER, UNVETTED
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.reports.standing import Standing, check_standing, find_standing

TERMINAL = SearchOptions(face="terminal")
SKILLS = {
    "brew-coffee": "Brew filter coffee with a scale and a kettle.",
    "roast-coffee": "Roast green coffee beans in a pan.",
    "steep-tea": "Steep green tea at the right temperature. NOT for iced tea.",
    "water-plants": "Water the plants of a balcony in summer.",
    "fill-forms": "Fill in PDF forms and save them.",
    "chart-csv": "Draw a chart of the columns of a CSV file.",
}
REQUESTS = (
    "brew filter coffee",
    "green tea",
    "fill-forms",
    "make a plot of my spreadsheet",
    "iced tea without sugar",
    "who won the world cup",
    "steep-te",
    "water",
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory, write_skill):
    """Make an index of some skills by the hashing model."""
    folder = tmp_path_factory.mktemp("shop")
    for name, description in SKILLS.items():
        write_skill(folder / "skills", name, description, body=f"# {name}\n\nAdd sugar to it.\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        roots = folder / "skills"
        return SkillIndex.from_roots(roots, index_dir=folder / "index", model="hashing")


def stand(index, name, request, options=TERMINAL):
    return find_standing(index, index.find(name), request, options)


def checks(index, name, request, options=TERMINAL):
    """Return the details of checks by name, and the verdict of the score."""
    document = index.find(name)
    standing = find_standing(index, document, request, options)
    all_checks = [*check_standing(standing, document, index.root_of(document))]
    by_name = {}
    for check in all_checks:
        by_name.setdefault(check.name, []).append(check.detail)
    return by_name, {check.name: check.verdict for check in all_checks}


def logit(score):
    return math.log(score / (1 - score))


def check_figures(index, name, request, options):
    """Compare a standing with an explained answer to the same request."""
    standing = stand(index, name, request, options)
    (answer,) = index.answer([request], replace(options, explain=True))
    hit = next((hit for hit in answer.shown if hit.name == name), None)
    assert standing.threshold == answer.threshold
    if hit:
        assert (standing.rank, standing.score) == (hit.rank, hit.score)
        assert standing.own_score == hit.explain.own_score
        assert standing.state == ("fits" if hit in answer.hits else "perhaps")
        assert sum(part.own for part in standing.evidence) == pytest.approx(
            sum(hit.explain.log_odds.values())
        )
    else:
        assert standing.state == "none"
    if answer.shown:
        assert standing.best == answer.shown[0].name
        assert standing.best_score == answer.shown[0].score
    own, best = (sum(getattr(part, name) for part in standing.evidence) for name in ("own", "best"))
    assert own == pytest.approx(logit(standing.own_score))
    if standing.best:
        assert best == pytest.approx(logit(standing.best_own_score))
        behind = sum(part.behind for part in standing.evidence)
        assert behind == pytest.approx(logit(standing.best_own_score) - logit(standing.own_score))
    order = [part.behind for part in standing.evidence]
    assert order == sorted(order, reverse=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(SKILLS)),
    request=st.one_of(
        st.sampled_from(REQUESTS),
        st.lists(st.sampled_from(" ".join(SKILLS.values()).split()), min_size=1).map(" ".join),
    ),
    n=st.integers(1, 12),
    threshold=st.one_of(st.none(), st.floats(0, 1)),
)
def test_figures_are_those_of_an_answer_and_add_up(shop, name, request, n, threshold):
    check_figures(shop, name, request, SearchOptions(n=n, threshold=threshold, face="terminal"))


@pytest.mark.usefixtures("default_reader")
@pytest.mark.parametrize("request_text", REQUESTS[:2])
def test_what_a_reader_changes_is_a_part_of_its_own(tmp_path, write_skill, request_text):
    """So that a skill that was read can be compared with another that was not."""
    for name, description in SKILLS.items():
        write_skill(tmp_path / "skills", name, description)
    index = SkillIndex.from_roots(tmp_path / "skills", index_dir=tmp_path / "index")
    options = replace(TERMINAL, reader="always")
    for name in ("brew-coffee", "water-plants"):
        check_figures(index, name, request_text, options)
    parts = {part.name: part for part in stand(index, "chart-csv", request_text, options).evidence}
    assert parts[INTERCEPT].own == parts[INTERCEPT].best
    assert parts[READER].own == 0


def test_every_piece_of_evidence_has_words():
    assert MEANINGS.keys() == {*EVIDENCE, READER, UNVETTED, INTERCEPT}
    assert len(set(MEANINGS.values())) == len(MEANINGS)


def test_a_skill_that_fits_needs_no_advice(shop):
    details, verdicts = checks(shop, "brew-coffee", "brew-coffee")
    assert verdicts["score"] == "ok"
    assert details["first"] == ["no skill comes before it"]
    assert "to change it" not in details
    assert details["candidate"][0].startswith("brought in by its words, ")


def test_a_skill_behind_hears_what_the_best_has_more_of(shop):
    standing = stand(shop, "roast-coffee", "brew filter coffee for my boss")
    assert (standing.best, standing.rank) == ("brew-coffee", 2)
    assert standing.lacking == ("brew", "filter")
    assert standing.evidence[0].behind > 0
    details, verdicts = checks(shop, "roast-coffee", "brew filter coffee for my boss")
    assert verdicts["behind"] == "warning"
    assert details["behind"][0].startswith(standing.evidence[0].meaning)
    assert (
        "say in its name or description what the request says: brew, filter"
        in details["to change it"]
    )


def test_words_of_the_body_are_told_apart(shop):
    standing = stand(shop, "brew-coffee", "coffee with sugar")
    assert standing.is_best
    assert ("sugar" in standing.lacking, standing.in_body) == (True, ("sugar",))


def test_a_skill_without_examples_hears_of_them_and_one_with_others_too(tmp_path, make_skill):
    make_skill(tmp_path / "skills", "plain", "Steep green tea.")
    asks = ["How long does oolong take?"]
    make_skill(tmp_path / "skills", "asked", "Grow bonsai.", representativeQueries=asks)
    index = SkillIndex.from_roots(tmp_path / "skills", index_dir=tmp_path / "i", model="hashing")
    details, _ = checks(index, "plain", "oolong")
    assert (
        "give it requests like this one as examples: skillsearch enrich --pending plain"
        in details["to change it"]
    )
    details, _ = checks(index, "asked", "steep green tea")
    advice = "none of its 1 example request comes near this one; add one that does"
    assert advice in details["to change it"]


def test_what_the_skill_is_not_for_is_quoted(shop):
    details, _ = checks(shop, "steep-tea", "iced tea")
    (advice,) = [text for text in details["to change it"] if text.startswith("let nothing exclude")]
    assert "iced tea" in advice


def test_a_skill_that_may_fit_hears_of_the_threshold(shop, fits_from, monkeypatch):
    score = stand(shop, "brew-coffee", "filter coffee").score
    calibrated = shop.with_calibration(replace(shop._calibration, threshold=min(score + 0.01, 1)))
    monkeypatch.setattr("skillsearch.index.search.options.BOUNDS", {"terminal": 0.0})
    details, verdicts = checks(calibrated, "brew-coffee", "filter coffee")
    assert verdicts["score"] == "warning"
    lower = math.floor(score * 100) / 100
    assert any(f"--threshold {lower:.2f};" in text for text in details["to change it"])
    # One hair below the threshold is not told as the threshold itself.
    hair = shop.with_calibration(replace(shop._calibration, threshold=score + 1e-6))
    (said,), verdicts = (each["score"] for each in checks(hair, "brew-coffee", "filter coffee"))
    assert (f"score {score:.2f}:" in said, verdicts) == (
        round(score, 2) < round(score + 1e-6, 2),
        "warning",
    )


def test_a_skill_beyond_the_last_that_is_shown_hears_of_n(shop):
    options = SearchOptions(n=1, threshold=0.0)
    details, verdicts = checks(shop, "brew-coffee", "coffee", options)
    assert verdicts["score"] == "error"
    assert "it fits, but only the first is shown" in details["score"][0]
    assert "show more skills: -n 2" in details["to change it"]


def test_a_wrong_answer_can_be_left_out(shop):
    details, _ = checks(shop, "roast-coffee", "brew-coffee")
    assert details["to change it"][-1].endswith("or leave it out: --exclude brew-coffee")


def test_an_unvetted_root_costs_and_can_be_vouched_for(tmp_path, make_skill):
    for root in ("mine", "theirs"):
        make_skill(tmp_path / root, f"{root}-tea", f"Steep tea of {root}.")
    roots = [tmp_path / "mine", tmp_path / "theirs"]
    trust = f"{roots[1]}=project"
    index = SkillIndex.from_roots(roots, index_dir=tmp_path / "i", model="hashing", trust=trust)
    details, _ = checks(index, "theirs-tea", "steep oolong")
    assert any(
        text.endswith(f"skillsearch index --trust {roots[1]}=vetted")
        for text in details["to change it"]
    )


@pytest.fixture
def crowd(tmp_path, make_skill):
    """Make an index of more skills about tea than can be candidates, and one of something else."""
    for number in range(70):
        make_skill(tmp_path / "skills", f"tea-{number:02}", f"Steep green tea of kind {number}.")
    make_skill(tmp_path / "skills", "zebra", "Zebras run.")
    return SkillIndex.from_roots(tmp_path / "skills", index_dir=tmp_path / "i", model="hashing")


def test_a_skill_that_nothing_nominates_is_told_so(crowd):
    standing = stand(crowd, "zebra", "steep green tea")
    assert (standing.nominators, standing.is_judged, standing.state) == ((), False, "none")
    assert standing.rank > 10
    assert standing.best_score == crowd.search("steep green tea", n=1, threshold=0.0)[0].score
    details, verdicts = checks(crowd, "zebra", "steep green tea")
    assert verdicts["candidate"] == "error"
    assert "nothing brings it in" in details["candidate"][0]


def test_a_skill_behind_the_first_of_the_ranking_is_not_judged(crowd):
    standing = stand(crowd, "tea-40", "steep green tea")
    assert standing.nominators
    assert (standing.is_judged, standing.state) == (False, "none")
    details, _ = checks(crowd, "tea-40", "steep green tea")
    assert "only the first of the ranking are looked at closely" in details["score"][0]


def test_a_score_that_was_cut_down_is_told(shop):
    standing = replace(stand(shop, "brew-coffee", "coffee"), score=0.2, own_score=0.7)
    document = shop.find("brew-coffee")
    details = [*check_standing(standing, document, shop.root_of(document))]
    assert any("of its own 0.70" in check.detail for check in details)


def test_what_options_leave_out_has_no_standing(shop):
    options = replace(TERMINAL, selection=(("exclude", ("brew*",)),))
    assert stand(shop, "brew-coffee", "coffee", options) is None


def test_a_request_without_any_hit_has_no_best(shop):
    """Not a word of it is a word, and it has no vector."""
    standing = stand(shop, "brew-coffee", "???")
    assert (standing.best, standing.best_score, standing.state) == ("", 0.0, "none")
    details, _ = checks(shop, "brew-coffee", "???")
    assert details["first"] == ["no skill comes first"]


def test_words_without_blanks_are_named_by_their_pairs(tmp_path, make_skill):
    make_skill(tmp_path / "skills", "weekly", "写周报并汇总本周工作。")
    make_skill(tmp_path / "skills", "sales", "把销售数据做成表格。")
    index = SkillIndex.from_roots(tmp_path / "skills", index_dir=tmp_path / "i", model="hashing")
    lacking = stand(index, "weekly", "销售表格").lacking
    assert {"销售", "表格"} <= set(lacking)


def test_pairs_of_a_run_that_overlap_are_named_together(tmp_path, make_skill):
    make_skill(tmp_path / "skills", "spell", "Check letters.", body="맞춤법을 봅니다")
    make_skill(tmp_path / "skills", "send", "검사해줘")
    index = SkillIndex.from_roots(tmp_path / "skills", index_dir=tmp_path / "i", model="hashing")
    standing = stand(index, "spell", "맞춤법 검사해줘", replace(TERMINAL, threshold=1.0))
    assert (set(standing.lacking), standing.in_body) == ({"맞춤법", "검사해줘"}, ("맞춤법",))


def test_the_json_form_has_all_figures(shop):
    record = stand(shop, "steep-tea", "green tea").to_dict()
    assert record["judged"] is True
    assert {part["name"] for part in record["evidence"]} == {*EVIDENCE, READER, INTERCEPT}
    assert len(record) == len(Standing.__slots__)
