"""``skillsearch setup``: index the skills and configure the hosts of this machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import click

from skillsearch.cli import options
from skillsearch.cli.app import has_consent
from skillsearch.cli.hosts.mcp_config import make_change
from skillsearch.cli.indexing import ask_to_vouch, build_index, show_folders
from skillsearch.cli.options import read_settings
from skillsearch.cli.output import emit_json, say, show_diagnostics, show_rows
from skillsearch.errors import ConfigError, StorageError
from skillsearch.hosts.plans import HostPlan, plan_hosts
from skillsearch.index.roots.held import held_roots, request_of
from skillsearch.index.roots.root_change import RootChange
from skillsearch.roots.sources import shown, source_of
from skillsearch.settings.config import of_own_index
from skillsearch.settings.environ import install_extra
from skillsearch.text.safe_text import counted, listed

_KINDS = ("server", "hook")


@click.command("setup")
@options.yes
@click.option(
    "--only",
    type=options.Choice(_KINDS),
    metavar="KIND",
    help="Of each host, only its server or its hook.",
)
@click.option(
    "--remove",
    is_flag=True,
    help="Take our entries out of the files of all hosts; the index stays.",
)
@options.as_json(lambda: options.models.SETUP)
def setup_command(yes: bool, only: str | None, remove: bool, as_json: bool) -> int:
    """Index your skills and configure the hosts on this machine.

    Hosts are found by their folder or their program, and your skills, those of enabled plugins and
    of the project around this folder where hosts look for them; the index follows them from then
    on. It shows all it would do and asks; without a terminal it does nothing unless --yes is given,
    and exits with 1. Files of hosts are changed as by mcp-config --write. On a terminal it also
    asks, once, whether to learn from use; see "skillsearch usage". A host with our plugin needs
    neither server nor hook: they are taken out there.
    """
    settings = of_own_index(read_settings())
    index_dir = settings.index_dir.absolute()
    change = RootChange(settings=settings, follows="hosts", folders=(Path.cwd(),))
    roots, is_new = _roots_to_index(change, remove=remove)
    plans = list(plan_hosts(index_dir, Path.cwd(), only, remove=remove))
    _show(roots, index_dir, plans, as_json=as_json)
    _explain(plans, remove=remove)
    is_open = is_new or any(plan.is_open for plan in plans)
    done = _has_consent(
        only, yes=yes, remove=remove, is_open=is_open, is_empty=not (plans or roots)
    )
    if done and roots:
        _index(change)
    outcomes = [_carry_out(plan) if done else plan.row for plan in plans]
    if as_json:
        emit_json({"roots": roots, "index_dir": str(index_dir), "hosts": outcomes, "done": done})
    elif done and not (yes or remove):
        from skillsearch.cli.usage import ask_for_usage

        ask_for_usage(settings)
    return _exit_code(outcomes, is_open=is_open, done=done)


def _has_consent(
    only: str | None, *, yes: bool, remove: bool, is_open: bool, is_empty: bool
) -> bool:
    """Return whether to do what is shown; without ``--yes`` only if anything is open."""
    if is_empty:
        say("Neither hosts nor skills were found here; see skillsearch mcp-config --help")
        return yes
    if not (yes or is_open):
        say("There is nothing to change.")
        return False
    words = ["--yes", *(["--only", only] if only else ()), *(["--remove"] if remove else ())]
    otherwise = f"Nothing was changed. To do this: skillsearch setup {' '.join(words)}"
    return has_consent(otherwise, yes=yes)


def _roots_to_index(change: RootChange, *, remove: bool) -> tuple[list[str], bool]:
    """Return the roots to index, none if hosts are only left, and whether any of it is new."""
    if remove:
        return [], False
    held = request_of(change.settings)
    with suppress(ConfigError):  # there is nothing to index
        return [shown(source_of(root)) for root in change.named(held)], change.is_news(held)
    return [], False


def _index(change: RootChange) -> None:
    from skillsearch.reports.host_folders import report_folders

    before = held_roots(change.settings)
    index, report = build_index(change)
    show_diagnostics(report.diagnostics)
    roots = listed((root.origin or str(root.path) for root in index.opened.settings.roots), 10)
    say(f"{counted(report.indexed, 'skill')} in the index {index.folder}; roots: {roots}")
    show_folders(report_folders(index, Path.cwd(), before))
    ask_to_vouch(index, before)


def _show(
    roots: Sequence[str], index_dir: Path, plans: Sequence[HostPlan], *, as_json: bool
) -> None:
    """Show what is to be indexed and configured, unless a program reads the output."""
    if not as_json:
        show_rows([("index", root, index_dir) for root in roots], ("", "skills", "index"))
        rows = [list(plan.row.values())[:4] for plan in plans]
        show_rows(rows, ("host", "entries", "file", "to do"))


def _explain(plans: Sequence[HostPlan], *, remove: bool) -> None:
    """Show each change as a diff, or why there is none, and what else to know."""
    for plan in plans:
        if plan.change:
            click.echo(plan.change.diff(), err=True)
        say(f"refused: {plan.row['reason']}" if "reason" in plan.row else "")
        say(f"note: {plan.note}" if plan.note else "")
    if not (remove or importlib.util.find_spec("mcp")):
        say(f"note: servers are left out, they need an extra: {install_extra('mcp')}")


def _carry_out(plan: HostPlan) -> Mapping[str, str]:
    """Make the change that was shown, if there is one, and return what came of it."""
    try:
        if plan.change is None:
            return plan.row
        make_change(plan.change, plan.entries)
    except (ConfigError, StorageError) as exc:
        say(f"refused: {exc}")
        return {**plan.row, "state": "refused", "reason": str(exc)}
    return {**plan.row, "state": "changed"}


def _exit_code(outcomes: Sequence[Mapping[str, str]], *, is_open: bool, done: bool) -> int:
    """Return 1 if a host's file was refused, or nothing was done although there was something."""
    is_refused = any(row["state"] == "refused" for row in outcomes)
    return int(is_refused or (is_open and not done))
