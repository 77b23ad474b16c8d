"""Tests of the trust of roots: where it comes from, how it is kept, what a search makes of it."""

import zipfile
from pathlib import Path

import pytest

from skillsearch.errors import ConfigError
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.roots.request import REQUEST_FILE, IndexRequest, trust_by_root
from skillsearch.index.search.calibration import UNVETTED_IN_RANKING
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.skill_library import SkillLibrary

TEA = "Steep green tea at the right temperature."
QUERY = "steep green tea at the right temperature"


@pytest.fixture
def packed(tmp_path):
    def pack(name="pack.zip", body="# Body\n", **skills):
        path = tmp_path / name
        with zipfile.ZipFile(path, "w") as archive:
            for skill, description in skills.items():
                text = f"---\nname: {skill}\ndescription: {description}\n---\n{body}"
                archive.writestr(f"{skill}/SKILL.md", text)
        return path

    return pack


def trust_of(index):
    return {root.alias: root.trust for root in index.opened.settings.roots}


def hits_of(index, **options):
    result = index.search(QUERY, threshold=0.05, **options)
    return [(hit.name, hit.trust) for hit in result], result.unvetted


@pytest.mark.parametrize(
    ("trust", "expected"),
    [
        ((), {"drinks": "vetted", "pack": "fetched"}),
        ("project", {"drinks": "project", "pack": "project"}),
        (["project", "vetted"], {"drinks": "vetted", "pack": "vetted"}),
        (["{pack}=vetted"], {"drinks": "vetted", "pack": "vetted"}),
        (["{pack}=project", "vetted"], {"drinks": "vetted", "pack": "project"}),
        (["{drinks}/../drinks=fetched"], {"drinks": "fetched", "pack": "fetched"}),
        (["{drinks}=fetched", "{drinks}=project"], {"drinks": "project", "pack": "fetched"}),
    ],
)
def test_what_the_user_says_of_a_root_counts(build, drinks, packed, trust, expected):
    pack = packed(oolong=TEA)
    by_path = (
        trust
        if isinstance(trust, str)
        else [text.format(drinks=drinks, pack=pack) for text in trust]
    )
    assert trust_of(build(drinks, pack, trust=by_path)) == expected


def test_a_trust_that_there_is_not_is_refused(drinks):
    for trust in ("trusted", ["=vetted"], [f"{drinks}=yes"]):
        with pytest.raises(ConfigError, match="each LEVEL one of vetted, project or fetched"):
            SkillIndex.from_roots(drinks, trust=trust)


def test_the_settings_of_an_index_keep_trust_and_origin(build, drinks, packed):
    pack = packed(oolong=TEA)
    opened = build(drinks, pack)
    settings = opened.opened.settings
    assert IndexSettings.from_dict(settings.to_dict()) == settings
    assert [root.origin for root in settings.roots] == ["", str(pack)]
    (opened.folder / REQUEST_FILE).unlink()
    again = SkillIndex.open(opened.folder)
    again.refresh()
    assert trust_of(again) == {"drinks": "vetted", "pack": "fetched"}


def test_another_trust_makes_another_generation_and_embeds_nothing(tmp_path, build, drinks):
    before = build(drinks)
    request = IndexRequest((drinks,), "hashing", True, trust=trust_by_root("project", [drinks]))
    after, report = SkillIndex.build(request, tmp_path / "index")
    assert report.embedded == 0
    assert after.generation != before.generation
    assert hits_of(after)[0][0] == ("steep-tea", "project")


def test_vetted_roots_come_first(build, tmp_path, make_skill, packed):
    make_skill(tmp_path / "mine", "steep-tea", "Mine: steep green tea.")
    opened = build(packed(**{"steep-tea": TEA}), tmp_path / "mine")
    assert opened.find("steep-tea").description == "Mine: steep green tea."
    assert list(trust_of(opened)) == ["mine", "pack"]
    library = SkillLibrary.from_roots([tmp_path / "pack.zip", tmp_path / "mine"])
    assert library.find("steep-tea").description == "Mine: steep green tea."


def test_vetted_skills_alone_are_found_and_the_others_counted(build, drinks, packed):
    opened = build(drinks, packed(oolong=f"{TEA} In a gaiwan.", shoes="Tie shoes."))
    names = [("steep-tea", "vetted"), ("oolong", "fetched")]
    assert hits_of(opened) == (names, 0)
    assert hits_of(opened, vetted_only=True) == (names[:1], 1)
    assert hits_of(opened, vetted_only=True, system="bm25")[1] == 1


@pytest.mark.parametrize("body", ["# Short\n", "A long body. " * 30])
def test_a_copy_that_nobody_vouches_for_keeps_nothing_out(
    build, tmp_path, make_skill, packed, body
):
    """Whatever its name, its place among the roots and the number of copies; nor does it count."""
    about = f"{TEA} Use for {' '.join(map(str, range(100, 200)))} and other teas."
    make_skill(tmp_path / "mine", "steep-tea", about, body=body)
    copies = {f"tea-{number}": about for number in range(60)}
    alone = build(tmp_path / "mine").search(QUERY, threshold=0.05)
    crowded = build(packed(body=body, **{"steep-tea": about}, **copies), tmp_path / "mine")
    result = crowded.search(QUERY, threshold=0.05, vetted_only=True)
    assert [hit.name for hit in result] == [hit.name for hit in alone] == ["steep-tea"]
    assert (result[0].trust, result.unvetted) == ("vetted", 0)


def test_an_index_without_vetted_roots_only_counts(build, packed):
    opened = build(packed(oolong=TEA))
    assert hits_of(opened, vetted_only=True) == ([], 1)
    assert opened.search("assemble a bookshelf", vetted_only=True).unvetted == 0


def test_a_result_tells_trust_and_origin_in_json(build, drinks, packed):
    pack = packed(oolong=f"{TEA} In a gaiwan.")
    hits = build(drinks, pack).search(QUERY, threshold=0.05).to_dict()["hits"]
    trust_and_origin = [(hit["name"], hit["trust"], hit.get("origin")) for hit in hits]
    assert trust_and_origin == [("steep-tea", "vetted", None), ("oolong", "fetched", str(pack))]


def test_what_nobody_vouches_for_ranks_lower_beside_what_is_vetted(build, drinks, packed):
    pack = packed(oolong=f"{TEA} In a gaiwan.")
    options = {"threshold": 0.0, "explain": True, "reader": "off"}
    parts = {}
    for trust in ("vetted", "fetched"):
        result = build(drinks, pack, trust=f"{pack}={trust}").search(QUERY, **options)
        (hit,) = (hit for hit in result if hit.name == "oolong")
        parts[trust] = hit.explain.contributions, hit.explain.log_odds
    (vetted, sure), (fetched, unsure) = parts.values()
    assert fetched == vetted | {"unvetted": -UNVETTED_IN_RANKING}
    assert unsure["unvetted"] == -1.0
    assert "unvetted" not in sure
    (alone, *_) = build(pack).search(QUERY, **options)
    assert "unvetted" not in alone.explain.contributions


def test_words_alone_tell_trust_too(drinks, packed):
    from skillsearch.index.search.options import SearchOptions
    from skillsearch.library.source import scan
    from skillsearch.library.word_index import WordIndex

    library = SkillLibrary.from_roots([packed(oolong=TEA)])
    source = scan([root.path for root in library.roots])
    words = WordIndex(source.documents, source.about, library.roots)
    ((hit,),) = words.answer([QUERY], SearchOptions(threshold=0.0))
    assert (hit.trust, hit.origin) == ("fetched", library.roots[0].origin)
    assert Path(hit.origin).name == "pack.zip"
