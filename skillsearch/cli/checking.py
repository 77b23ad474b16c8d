"""``skillsearch status``, ``doctor`` and ``validate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli.indexing import describe
from skillsearch.cli.opening import open_index
from skillsearch.cli.options import backend_options, command, index_dir_option, json_option
from skillsearch.cli.output import emit_json, emit_rows, is_terminal, say
from skillsearch.config import load_settings

if TYPE_CHECKING:
    from skillsearch.reports.status import Status

INVALID = 3


@command("status")
@index_dir_option
@backend_options
@json_option
@click.pass_context
def status_command(
    context: click.Context,
    index_dir: Path | None,
    backend: str | None,
    uri: str | None,
    collection: str | None,
    as_json: bool,
) -> None:
    """Prove that the index is what lies on disk, or say what differs.

    Every file is hashed. Exits with 1 where something differs. Of an index in Milvus it says what
    it holds; no file is looked at.
    """
    from skillsearch.reports.status import status

    settings = load_settings(index_dir=index_dir, backend=backend, uri=uri, collection=collection)
    if settings.backend == "milvus":
        from skillsearch.cli.remote import status_in_milvus

        rows = status_in_milvus(settings)
        if as_json:
            emit_json(rows)
        else:
            _print([(name, str(value)) for name, value in rows.items()])
        return
    report = status(open_index(settings))
    if as_json:
        emit_json(report.to_dict())
    else:
        _print(_status_rows(report))
        if report.advice:
            say(f"note: {report.advice}")
    if not report.in_sync:
        say(f"The index differs from the disk ({report.differences}); run: skillsearch index")
        context.exit(1)


@command("doctor")
@index_dir_option
@json_option
@click.pass_context
def doctor_command(context: click.Context, index_dir: Path | None, as_json: bool) -> None:
    """Check the installation, the settings and the index.

    Exits with 1 where something does not work.
    """
    from skillsearch.reports.doctor import doctor

    checks = doctor(index_dir)
    if as_json:
        verdicts = [check.verdict for check in checks]
        counts = {name: verdicts.count(name) for name in ("ok", "warning", "error")}
        emit_json({**counts, "checks": [check.to_dict() for check in checks]})
    else:
        _print([(check.verdict, check.name, check.detail) for check in checks])
    if any(check.verdict == "error" for check in checks):
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
    """Hold skills against the Agent Skills specification.

    PATH is a skill folder, a SKILL.md, or a folder with skills below it. Exits with 3 where there
    are errors.
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


def _status_rows(report: Status) -> list[tuple[str, str]]:
    """Return the lines of a status."""
    from skillsearch.reports.languages import in_words, install_line
    from skillsearch.reports.status import describe_root

    differences = report.differences
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
        lost = "" if channel.usable else f"; cannot be asked: {install_line()}"
        text += f", {channel.vectors:,} vectors, for {channel.asked_about}"
        rows.append(("channel", text + lost))
    rows.append(("languages", in_words(report.skills_by_language)))
    rows += [("root", describe_root(root)) for root in report.roots]
    rows += [("missing root", path) for path in differences.missing_roots]
    for word in ("added", "changed", "removed"):
        rows += [(word, path) for path in getattr(differences, word)]
    return rows


def _in_words(counts: Mapping[str, int]) -> str:
    """Write counts of severities."""
    return ", ".join(f"{severity}s: {count}" for severity, count in counts.items())


def _print(rows: Sequence[Sequence[str]]) -> None:
    """Print rows as a table on a terminal, else parted by tabs."""
    if is_terminal():
        from skillsearch.cli.tables import print_rows

        print_rows(rows)
    else:
        emit_rows(rows)
