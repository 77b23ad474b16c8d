"""Skills that a request does not want, and that are not for a request, rank behind others."""

import pytest

from skillsearch.index.documents.document import about_text, field_texts
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.index.search.features import FEATURES, features_of
from skillsearch.index.search.query import NOTHING_EXCLUDED, split_terms
from skillsearch.skills.parser import read_skill

SKILLS = {
    "docker-build": "Build the container image with Docker.",
    "podman-build": "Build the container image with Podman.",
    "text-tables": "Extract tables from documents. NOT for PDF files.",
    "all-tables": "Extract tables from documents and PDF files.",
    "tea-timer": "Remind somebody when the tea is ready.",
    "key-rotation": "Rotate API keys that leaked.",
}


@pytest.fixture
def small(tmp_path, make_skill, build):
    for name, description in SKILLS.items():
        make_skill(tmp_path / "skills", name, description)
    return build(tmp_path / "skills")


def hits_of(index, query, **options):
    return {hit.name: hit for hit in index.search(query, 6, 0, **options).hits}


def test_an_unwanted_tool_ranks_behind_its_sibling(small):
    assert hits_of(small, "build the image with Docker")["docker-build"].rank == 1
    hits = hits_of(small, "build the image, but do not use Docker", explain=True)
    assert hits["podman-build"].rank == 1
    assert hits["docker-build"].score < 0.05
    assert hits["docker-build"].explain.features["excluded"] == 1.0
    assert hits["docker-build"].explain.contributions["excluded"] == -12.0


def test_a_skill_that_is_not_for_it_ranks_behind_its_sibling(small):
    hits = hits_of(small, "extract tables from PDF files", explain=True)
    assert hits["all-tables"].rank == 1
    assert 0 < hits["text-tables"].explain.features["excluded"] < 1
    assert hits["all-tables"].explain.features["excluded"] == 0
    assert hits["text-tables"].description == SKILLS["text-tables"]


def test_a_plain_request_knows_no_exclusion(small):
    for hit in hits_of(small, "extract tables from documents", explain=True).values():
        assert hit.explain.features["excluded"] == 0


def test_what_both_sides_do_without_unites_them(tmp_path, make_skill, build):
    skills = {**SKILLS, "plain-site": "Build a website without JavaScript."}
    for name, description in {**skills, "other-site": "Build a website with JavaScript."}.items():
        make_skill(tmp_path / "skills", name, description)
    hits = hits_of(build(tmp_path / "skills"), "build a website without JavaScript", explain=True)
    assert hits["plain-site"].rank == 1
    assert hits["plain-site"].explain.features["excluded"] == 0
    assert hits["other-site"].explain.features["excluded"] > 0


def test_a_skill_for_another_version_or_direction_ranks_behind_its_sibling(
    tmp_path, make_skill, build
):
    root = tmp_path / "skills"
    for old, new in ((9, 10), (10, 11)):
        about = f"Upgrade a project from .NET {old} to .NET {new}."
        make_skill(root, f"dotnet-{old}-to-{new}", f"{about} Not for .NET {old - 1} or earlier.")
    make_skill(root, "markdown-to-html", "Converts Markdown to HTML pages.")
    make_skill(root, "html-to-markdown", "Converts web pages to Markdown.")
    index = build(root)
    for old, new in ((9, 10), (10, 11)):
        hits = hits_of(index, f"upgrade my project from .NET {old} to .NET {new}", explain=True)
        assert hits.pop(f"dotnet-{old}-to-{new}").rank == 1
        assert max(hit.explain.features["contradiction"] for hit in hits.values()) > 0
    for request in ("markdown to html", "html to markdown"):
        assert hits_of(index, f"convert {request}")[request.replace(" ", "-")].rank == 1


def test_what_is_asked_too_is_not_excluded():
    query = split_terms("move Docker files to Podman, do not use Docker", "", "en")
    assert query.text == "move Docker files to Podman,"
    assert "docker" in query.counts
    assert query.excluded == NOTHING_EXCLUDED


def test_a_query_of_function_words_beside_the_exclusion_asks_for_nothing():
    assert split_terms("please do not use Docker", "", "en") == ("", "", {}, NOTHING_EXCLUDED)
    pasted = split_terms("please do not use Docker\n\nThe deck", "please do not use Docker", "en")
    assert "deck" in pasted.counts


def test_metadata_leaves_out_what_it_is_not_for(tmp_path, make_skill):
    description = "Reads text. NOT for PDF files."
    path = make_skill(tmp_path, "reader", description, when_to_use="Use it. Not for scans.")
    skill = read_skill(path, doc_id="a:reader", root=tmp_path)
    texts = field_texts(skill)
    assert about_text(skill) == "Reads text.\nUse it."
    assert "pdf" not in texts.metadata_terms
    assert texts.metadata == "reader: Reads text.\nUse it."
    assert texts.document.excluded == "NOT for PDF files.\nNot for scans."
    assert texts.document.description == description


def test_the_feature_opposes_and_belongs_to_the_skill():
    weights = default_calibration().weights
    assert {name for name, weight in weights.items() if weight < 0} == set(features_of("skill"))
    assert all(FEATURES[name].sign < 0 for name in features_of("skill"))
