"""``skillsearch status`` and ``doctor``: is all as it should be?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from skillsearch.cli import options, output
from skillsearch.cli.options import read_flags, read_settings
from skillsearch.cli.output import say
from skillsearch.index.next_steps import index_option
from skillsearch.index.opening import open_index
from skillsearch.settings.table import Settings
from skillsearch.types.json_values import JsonObject
from skillsearch.types.skills import Root

if TYPE_CHECKING:
    from skillsearch.reports.status import Status


@click.command("status")
@options.index_dir
@options.backend
@options.header
@options.as_json(lambda: options.models.STATUS)
def status_command(as_json: bool) -> int:
    """Check that the index matches the files on disk.

    Every file is hashed, and so are sources that were added. Says what differs, and then exits
    with 1. For an index in Milvus it says what the index holds; no file is looked at.
    """
    from skillsearch.reports.status import status

    settings = read_settings()
    if settings.is_remote:
        facts = _describe_milvus(settings)
        output.show_record(facts, facts.items(), as_json=as_json)
        return 0
    index = open_index(settings)
    record, changes = status(index)
    rows = _status_rows(record, index.opened.settings.roots)
    output.show_record(record, rows, as_json=as_json)
    if not record["is_current"]:
        option = index_option(index.folder, settings)
        say(f"The index differs from the disk ({changes}); run: skillsearch index{option}")
    is_changed = any(entry["problem"] for entry in record["sources"])
    return 0 if record["is_current"] and not is_changed else 1


def _describe_milvus(settings: Settings) -> JsonObject:
    from skillsearch.remote.opening import open_in_milvus
    from skillsearch.text.provenance import source_tag

    with open_in_milvus(settings) as index:
        made_with = index.settings
        return {
            "indexed": len(index),
            "skipped": index.skipped,
            "collection": settings.collection,
            "generation": index.generation,
            "model": made_with.model.spec,
            "fields": "full" if made_with.with_body else "metadata",
            "roots": [f"{root.path} {source_tag(root)}".rstrip() for root in made_with.roots],
        }


def _status_rows(record: Status, roots: Sequence[Root]) -> list[tuple[str, str]]:
    from skillsearch.index.documents.languages import in_words
    from skillsearch.reports.status import describe_root
    from skillsearch.skills.example_requests import exampled_in_words

    rows = [
        ("verdict", "like the disk" if record["is_current"] else "differs from the disk"),
        ("skills", "{indexed:,} indexed, {skipped:,} skipped".format(**record)),
        ("reported", output.in_words(record["diagnostics"])),
        ("index", f"{record['index_dir']} ({output.in_mb(record['size_bytes'])})"),
        ("generation", record["generation"]),
        ("model", "{model} ({model_name}), fields {fields}".format(**record)),
        ("vectors", "{vectors:,} of {dimensions} dimensions".format(**record)),
        ("languages", in_words(record["skills_by_language"])),
        ("examples", exampled_in_words(record["examples"], record["indexed"])),
    ]
    rows += [("root", describe_root(root)) for root in roots]
    for entry in record["sources"]:
        state = entry["problem"] or f"as added on {entry['date']}, {entry['digest'][:19]}"
        rows.append(("source", f"{entry['given']}: {state}"))
    differences = record["differences"]
    rows += [("missing root", path) for path in differences["missing_roots"]]
    for word in ("added", "changed", "removed"):
        rows += [(word, path) for path in differences[word]]
    return rows


@click.command("doctor")
@options.index_dir
@options.header
@options.as_json(lambda: options.models.DOCTOR)
def doctor_command(as_json: bool) -> int:
    """Check the installation, the settings and the index.

    Exits with 1 if something does not work.
    """
    from skillsearch.reports.health import doctor

    checks = doctor(read_flags()["index_dir"])
    verdicts = [check.verdict for check in checks]
    counts = {name: verdicts.count(name) for name in ("ok", "warning", "error")}
    record: JsonObject = {**counts, "checks": [check.to_dict() for check in checks]}
    rows = [(check.verdict, check.name, check.detail) for check in checks]
    output.show_record(record, rows, ("verdict", "name", "detail"), as_json=as_json)
    return 1 if "error" in verdicts else 0
