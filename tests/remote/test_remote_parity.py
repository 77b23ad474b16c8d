"""The answers of an index in Milvus and of a local one over the same skills."""

import re
from pathlib import Path

import pytest

import skillsearch
from skillsearch.index.skill_index import SkillIndex
from skillsearch.remote.remote_index import RemoteIndex
from skillsearch.skills.parser import parse_skill

pytestmark = [pytest.mark.milvus, pytest.mark.slow]
EXAMPLES = Path(skillsearch.__file__).parent / "examples"
VARIANTS = ("", "for nurses", "for sailors", "on old machines", "in a hurry", "with a budget")
MORE = (
    "sql-query-tuning", "a database query is slow", "Write a Dockerfile that runs without root",
    "왜 파드가 계속 재시작하나요", "how old is the universe", "knit a scarf for a penguin", "form",
)  # fmt: skip


@pytest.fixture(scope="module")
def skills(tmp_path_factory):
    """Write every example in several variants, and return the root and the descriptions."""
    root, descriptions = tmp_path_factory.mktemp("variants"), []
    for path in sorted(EXAMPLES.rglob("SKILL.md")):
        data = path.read_bytes()
        skill, _ = parse_skill(data, doc_id="x", path=path, root=EXAMPLES)
        for number, words in enumerate(VARIANTS):
            name = f"{skill.name}-{number}" if number else skill.name
            skill_md = root / name / "SKILL.md"
            skill_md.parent.mkdir()
            # Words between those of the description, so that no variants are near-copies.
            about = " ".join(skill.description.split())
            if words:
                about = f" {words} ".join(re.findall(r"[^\0-\u2e7f]{1,2}|[!-\u2e7f]{1,12}", about))
            about = about.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}")
            head = f"---\nname: {name}\ndescription: '{about}'"
            skill_md.write_text(f"{head}\n---\n{skill.body}\n\n{words}\n" * 1, encoding="utf-8")
        descriptions.append(skill.description)
    return root, descriptions


@pytest.mark.parametrize("with_body", [True, False])
def test_both_answer_alike(milvus, skills, tmp_path, collection, with_body):
    root, descriptions = skills
    options = {"model": "hashing", "with_body": with_body}
    local = SkillIndex.from_roots(root, index_dir=tmp_path / "index", **options)
    # No word is cut: a part of one finds words in a local index alone.
    begun = (text[:80].rpartition(" ")[0] or text[:80] for text in descriptions)
    queries = [*MORE, *begun]
    common = expected = 0
    with RemoteIndex.from_roots(root, uri=milvus, collection=collection, **options) as remote:
        assert len(remote) == len(local) == len(descriptions) * len(VARIANTS)
        for query in queries:
            ours, theirs = remote.search(query, explain=True), local.search(query, explain=True)
            assert ours.state == theirs.state
            for hit, other in zip(ours[:1], theirs[:1], strict=True):
                assert (hit.doc_id, hit.duplicates) == (other.doc_id, other.duplicates)
                assert hit.explain.matched_terms == other.explain.matched_terms
                assert hit.explain.section == other.explain.section
            scores = {hit.doc_id: hit.score for hit in theirs}
            expected += len(theirs)
            for hit in ours:
                if hit.doc_id in scores:
                    common += 1
                    assert hit.score == pytest.approx(scores[hit.doc_id], abs=1e-5)
    assert common >= 0.98 * expected > 0
