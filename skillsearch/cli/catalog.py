"""``skillsearch catalog``: a website that tells which skills it offers, and offers them."""

from __future__ import annotations

from pathlib import Path

import click

from skillsearch.cli import options
from skillsearch.cli.options import read_settings
from skillsearch.cli.output import emit_json, say, show_diagnostics, show_rows
from skillsearch.index.opening import open_fresh
from skillsearch.text.safe_text import counted


@click.command("catalog")
@click.argument("folder", type=options.NamedPath(file_okay=False, path_type=Path))
@click.option("--url", required=True, metavar="URL", help="Where the website is: https://HOST.")
@options.include_unvetted
@options.selecting
@options.index_dir
@options.header
@options.as_json(lambda: options.models.CATALOG)
def catalog_command(folder: Path, url: str, include_unvetted: bool, as_json: bool) -> None:
    """Write the files by which a website offers skills.

    FOLDER is what the website serves. Below .well-known there, writes the selected skills of the
    index, ai-catalog.json and ard.json for search services, and agent-skills/index.json, with
    which "skillsearch add URL" and others fetch them. Run it again after a change. It never
    overwrites a file that it did not write; if one is in the way, it stops.
    """
    from skillsearch.ard.catalog import base_of, website_of
    from skillsearch.ard.website import write_website
    from skillsearch.library.skill_library import SkillLibrary
    from skillsearch.mcp_server.publication import Publisher
    from skillsearch.mcp_server.skill_files import files_of_skills

    url = base_of(url)
    settings = read_settings()
    index = open_fresh(settings, say)
    publisher = Publisher(SkillLibrary.of_index(index, settings.selection))
    skills, unvetted = files_of_skills(publisher, include_unvetted=include_unvetted)
    website = website_of(url, skills)
    done = write_website(folder, website.files)
    problems = publisher.problems()
    if as_json:
        rows = [skill._asdict() for skill in website.skills]
        record = {"folder": str(folder), "url": url, "skills": rows, "unvetted": unvetted}
        emit_json({**record, **done._asdict(), "not_published": [p.to_dict() for p in problems]})
        return
    show_diagnostics(problems)
    reason = "of roots that nobody has vouched for left out; to offer them too: --include-unvetted"
    say(f"note: {counted(unvetted, 'skill')} {reason}" if unvetted else "")
    names = ("name", "type", "url")
    show_rows([(s.name, s.type, s.url) for s in website.skills], names, columns=names)
    say(f"{counted(len(done.written), 'file')} written, {len(done.removed)} removed in {folder}")
