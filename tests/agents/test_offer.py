"""What a prompt is offered: of whom, and what of it is kept as usage."""

from dataclasses import replace

import pytest

from skillsearch.agents.offer import Offer
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.settings.config import load_settings
from skillsearch.usage.log import UsageLog

REQUEST = "brew a pot of tea"


@pytest.fixture
def index(make_skill, tmp_path):
    make_skill(tmp_path / "own", "brew-tea", description="Brew a pot of tea.")
    make_skill(tmp_path / "loose", "brew-coffee", description="Brew a pot of tea or coffee.")
    roots = [tmp_path / "own", tmp_path / "loose"]
    trust = f"{roots[1]}=project"
    return SkillIndex.from_roots(roots, index_dir=tmp_path / "index", model="hashing", trust=trust)


def offer(index, states=None, *, vetted_only=True, **settings):
    chosen = replace(load_settings(), usage="text", threshold=0.0, **settings)
    return Offer.of_request(index, REQUEST, chosen, print, states, vetted_only=vetted_only)


def names(offered):
    return [skill.name for skill in offered.skills]


def test_only_vetted_skills_are_offered_and_the_others_counted(index):
    library = SkillLibrary.of_index(index, ())
    assert names(offer(index)) == names(Offer.of_all(library, vetted_only=True)) == ["brew-tea"]
    assert offer(index).unvetted == Offer.of_all(library, vetted_only=True).unvetted == 1
    assert {*names(offer(index, vetted_only=False))} == {"brew-tea", "brew-coffee"}
    assert Offer.of_all(library, vetted_only=False).unvetted == 0


def test_the_hook_keeps_answers_in_its_states_alone_and_offers_nothing_in_the_shadow(index):
    """A shadow is kept as such; a prompt of any other origin is always kept, and answered."""

    def recorded():
        return [(e.interface, e.is_shadow) for e in UsageLog.own(has_text=True).events()]

    assert names(offer(index, states=["none"])) == ["brew-tea"]
    assert recorded() == []
    assert offer(index, states=["fits"], hook_mode="shadow") == Offer(fits=1)
    assert recorded() == [("hook", True)]
    assert names(offer(index, hook_mode="shadow")) == ["brew-tea"]
    assert recorded() == [("hook", True), ("prompt", False)]
