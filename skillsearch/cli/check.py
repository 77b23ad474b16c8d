"""``skillsearch status``, ``doctor`` and ``validate``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli.options import (
    Flags,
    backend_options,
    command,
    index_dir_option,
    json_option,
)
from skillsearch.cli.output import describe, emit_json, emit_rows, say, show_rows
from skillsearch.config import load_settings
from skillsearch.index.opening import open_index

if TYPE_CHECKING:
    from skillsearch.config import Settings
    from skillsearch.reports.status import Status
    from skillsearch.types import JsonValue

INVALID = 3


@command("status")
@index_dir_option
@backend_options
@json_option
@click.pass_context
def status_command(context: click.Context, flags: Flags, as_json: bool) -> None:
    """Check that the index matches the files on disk.

    Every file is hashed. Says what differs, and then exits with 1. For an index in Milvus it says
    what the index holds; no file is looked at.
    """
    from skillsearch.reports.status import status

    settings = load_settings(**flags)
    if settings.backend == "milvus":
        record = _status_in_milvus(settings)
        if as_json:
            emit_json(record)
        else:
            show_rows(record.items())
        return
    report = status(open_index(settings))
    if as_json:
        emit_json(report.to_dict())
    else:
        show_rows(_status_rows(report))
        say(f"note: {report.advice}" if report.advice else "")
    if not report.in_sync:
        say(f"The index differs from the disk ({report.differences}); run: skillsearch index")
        context.exit(1)


@command("doctor")
@index_dir_option
@json_option
@click.pass_context
def doctor_command(context: click.Context, flags: Flags, as_json: bool) -> None:
    """Check the installation, the settings and the index.

    Exits with 1 if something does not work.
    """
    from skillsearch.reports.doctor import doctor

    checks = doctor(flags["index_dir"])
    verdicts = [check.verdict for check in checks]
    if as_json:
        counts = {name: verdicts.count(name) for name in ("ok", "warning", "error")}
        emit_json({**counts, "checks": [check.to_dict() for check in checks]})
    else:
        show_rows((check.verdict, check.name, check.detail) for check in checks)
    if "error" in verdicts:
        context.exit(1)


@command("validate")
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    metavar="PATH...",
    type=click.Path(exists=True, path_type=Path),
)
@json_option
@click.pass_context
def validate_command(context: click.Context, paths: tuple[Path, ...], as_json: bool) -> None:
    """Check skills against the Agent Skills specification.

    PATH is a skill folder, a SKILL.md, or a folder with skills below it. Exits with 3 if there are
    errors.
    """
    from skillsearch.reports.status import count_severities, validate_paths

    checked, found = validate_paths(paths)
    counts = count_severities(found)
    if as_json:
        diagnostics = [item.to_dict() for item in found]
        emit_json({"checked": checked, **counts, "diagnostics": diagnostics})
    else:
        emit_rows((describe(item),) for item in found)
        say(f"skills checked: {checked}; {_in_words(counts)}")
    if counts["error"]:
        context.exit(INVALID)


def _status_in_milvus(settings: Settings) -> dict[str, JsonValue]:
    from skillsearch.cli.index import open_in_milvus

    with open_in_milvus(settings) as index:
        made_with = index.settings
        return {
            "indexed": len(index),
            "skipped": index.skipped,
            "collection": settings.collection,
            "generation": index.generation,
            "models": [channel.model for channel in made_with.channels],
            "fields": "full" if made_with.with_body else "metadata",
            "languages": made_with.languages,
            "roots": [str(root.path) for root in made_with.roots],
        }


def _status_rows(report: Status) -> list[tuple[str, str]]:
    from skillsearch.reports.languages import in_words, install_line
    from skillsearch.reports.status import describe_root

    rows = [
        ("verdict", "in sync with the disk" if report.in_sync else "differs from the disk"),
        ("skills", f"{report.indexed:,} indexed, {report.skipped:,} skipped"),
        ("reported", _in_words(report.diagnostics)),
        ("index", f"{report.index_dir} ({report.size_bytes / 1e6:.1f} MB)"),
        ("generation", report.generation),
        ("model", f"{report.model}, fields {report.fields}, languages {report.languages}"),
    ]
    for channel in report.channels:
        text = f"{channel.model} ({channel.name}), {channel.dimensions} dimensions"
        text += f", {channel.vectors:,} vectors, for {channel.asked_about}"
        unusable = "" if channel.usable else f"; not usable: {install_line()}"
        rows.append(("channel", text + unusable))
    rows.append(("languages", in_words(report.skills_by_language)))
    rows += [("root", describe_root(root)) for root in report.roots]
    rows += [("missing root", path) for path in report.differences.missing_roots]
    for word in ("added", "changed", "removed"):
        rows += [(word, path) for path in getattr(report.differences, word)]
    return rows


def _in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{severity}s: {count}" for severity, count in counts.items())
