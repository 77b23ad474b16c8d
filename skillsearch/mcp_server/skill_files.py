"""All files of the skills that can be published, for a website that offers them."""

from __future__ import annotations

from skillsearch.ard.catalog import SkillFiles
from skillsearch.mcp_server.publication import Published, Publisher, read_published
from skillsearch.skills.findings import Finding
from skillsearch.types.json_values import text_of


def files_of_skills(
    publisher: Publisher, *, include_unvetted: bool
) -> tuple[list[SkillFiles], int]:
    """Read the skills that can be published; also count those left out, as nobody vouches."""
    unvetted = 0
    skills: list[SkillFiles] = []
    for skill in publisher.skills:
        root = publisher.library.root_of(skill.document)
        if root.trust != "vetted" and not include_unvetted:
            unvetted += 1
        elif read := _read(publisher, skill, root.origin):
            skills.append(read)
    return skills, unvetted


def _read(publisher: Publisher, skill: Published, origin: str) -> SkillFiles | None:
    """Read all files of a skill, or return None if it cannot be published."""
    looked = publisher.look(skill)
    if isinstance(looked, Finding):
        return None
    return SkillFiles(
        document=skill.document,
        description=text_of(looked.frontmatter["description"]),
        files={path: read_published(skill, path)[0] for path in looked.files},
        programs=frozenset(
            path for path in looked.files if (skill.folder / path).stat().st_mode & 0o100
        ),
        origin=origin,
    )
