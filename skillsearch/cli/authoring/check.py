"""``skillsearch validate`` and ``audit``: what is wrong with skills, and what is suspect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from skillsearch.cli import options, output
from skillsearch.cli.app import refuse
from skillsearch.cli.options import NamedRoot, read_flags, read_settings
from skillsearch.cli.output import say
from skillsearch.hosts.table import hosts, readers_of_fields
from skillsearch.index.opening import open_fresh
from skillsearch.types.skills import Diagnostic

INVALID = 3
_SHOWN_OF_CODE, _SHOWN_OF_FAMILY = 10, 3


@click.command("validate")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=options.EXISTING)
@click.option(
    "--for",
    "host",
    type=options.Choice(("spec", *hosts())),
    metavar="HOST",
    help="The host that the skills are for, or 'spec' for none. [default: any host]",
)
@options.as_json(lambda: options.models.CHECKED)
def validate_command(paths: tuple[Path, ...], host: str | None, as_json: bool) -> int:
    """Check skills against the Agent Skills specification.

    PATH is a skill folder, a SKILL.md, or a folder with skills below it. Exits with 3 if there are
    errors. What a host reads and the specification does not know is a note.
    """
    from skillsearch.reports.validation import validate_paths

    readers = None if host == "spec" else readers_of_fields(host)
    checked, lost, findings = validate_paths(paths, readers)
    counts = _report(findings, findings, checked, as_json=as_json, lost=lost)
    return INVALID if counts["error"] else 0


@click.command("audit")
@options.roots(must_exist=True)
@click.option(
    "--all",
    "shows_all",
    is_flag=True,
    help="Print every finding; by default the first 10 of each kind.",
)
@click.option("--strict", is_flag=True, help="Exit with 3 for a warning too.")
@options.index_dir
@options.as_json(lambda: options.models.CHECKED)
def audit_command(
    roots: tuple[NamedRoot, ...], shows_all: bool, strict: bool, as_json: bool
) -> int:
    """Look for skills written for the search or against the agent.

    Looks at the skills below the ROOTs, which get an index of their own, or else at those of the
    index. No finding changes what a search finds. Exits with 3 if there are errors.

    \b
    near-copy              nearly the same as another skill, under another name
    hidden-text            characters or comments that only the agent reads
    stuffing               keywords instead of sentences
    off-topic-description  the body does not do what the description says
    heads-many             a first hit for requests of many unrelated skills
    hub                    made of what people ask for in general; it ranks lower
    instructs-agent        metadata that tells the agent what to use
    lure                   a stranger's program that is to be run unseen
    lookalike-name         a name with letters or hyphens that pass for others
    """  # noqa: D301 - click reads the control character, not its escape
    from skillsearch.reports.audit import audit

    both = "ROOTs get an index of their own, --index-dir names another; use one of them."
    refuse(roots and read_flags()["index_dir"], both)
    settings = read_settings()
    with output.progress_bars() as bars:
        if roots:
            from skillsearch.index.skill_index import SkillIndex

            index = SkillIndex.from_roots(roots, model=settings.model, progress=bars)
        else:
            index = open_fresh(settings, say)
        findings = audit(index, bars)
    shown = findings if shows_all else _first_of_each_kind(findings)
    counts = _report(findings, shown, len(index), as_json=as_json)
    return INVALID if counts["error"] or (strict and counts["warning"]) else 0


def _report(
    findings: Sequence[Diagnostic],
    shown: Sequence[Diagnostic],
    checked: int,
    *,
    as_json: bool,
    lost: int | None = None,
) -> dict[str, int]:
    """Print findings, all as JSON or the shown ones as lines; return how many of each severity."""
    from skillsearch.reports.status import count_severities

    counts = count_severities(findings)
    if as_json:
        diagnostics = [finding.to_dict() for finding in findings]
        about = {"checked": checked} if lost is None else {"checked": checked, "lost": lost}
        output.emit_json({**about, **counts, "diagnostics": diagnostics})
    else:
        output.emit_rows((output.describe(finding),) for finding in shown)
        more = _codes(findings) - _codes(shown)
        left_out = ", ".join(f"{code} {count:,}" for code, count in more.items())
        say(f"more: {left_out} (--all prints all)" if left_out else "")
        say(f"{output.lost(lost or 0)}skills checked: {checked}; {output.in_words(counts)}")
    return counts


def _codes(findings: Sequence[Diagnostic]) -> Counter[str]:
    return Counter(finding.code for finding in findings)


def _first_of_each_kind(findings: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return the first findings with each code, fewer with the same message: of one family."""
    shown, seen = [], Counter[tuple[str, ...]]()
    for finding in findings:
        code, message = (finding.code,), (finding.code, finding.message)
        if seen[code] < _SHOWN_OF_CODE and seen[message] < _SHOWN_OF_FAMILY:
            seen.update((code, message))
            shown.append(finding)
    return shown
