"""Skills to make entries of."""

import pytest

from skillsearch.index.documents.document import Document
from skillsearch.types.skills import Example


@pytest.fixture
def document():
    """Make the record of a skill."""

    def make(name="steep-tea", **fields):
        examples = tuple(Example(text, "skill") for text in fields.pop("examples", ()))
        facts = {"doc_id": f"drinks:{name}", "path": f"/drinks/{name}/SKILL.md", "root": "/drinks"}
        facts |= {"description": "Steep green tea.", "content_hash": "0" * 64} | fields
        return Document(name=name, examples=examples, **facts)

    return make
