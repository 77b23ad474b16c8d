"""``skillsearch library``: skills out of the listing of hosts, still found, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli import options
from skillsearch.cli.app import has_consent, refuse
from skillsearch.cli.output import emit_json, say, show_rows
from skillsearch.errors import SkillError, SkillSearchError
from skillsearch.hosts.entries import HOSTS, switch_entry
from skillsearch.hosts.files import FileChange, host_file, switched_off
from skillsearch.hosts.library_moves import (
    Journal,
    Move,
    fault,
    move_away,
    move_back,
    open_journal,
)
from skillsearch.hosts.library_switches import switch_off, switch_on
from skillsearch.hosts.listings import Listings
from skillsearch.hosts.table import hosts, library_folder, title_of, with_key
from skillsearch.index.opening import open_user_index
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.roots.root_change import RootChange
from skillsearch.text.safe_text import listed

if TYPE_CHECKING:
    from skillsearch.index.documents.document import Document
    from skillsearch.index.skill_index import SkillIndex

_SHOWN = 10
_OTHERWISE = "Nothing was changed. To do this, add --yes."
_NOTHING_MOVED = "No skill has been moved to the library."
_SWITCHES = tuple(with_key("switch"))


@click.command("library")
@click.argument("action", type=options.Choice(["move", "restore", "list"]))
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "every_skill", is_flag=True, help="With restore: bring back all.")
@click.option(
    "--switch",
    type=options.Choice(tuple(hosts())),
    metavar="HOST",
    help="Leave the files, and tell only this host not to list the skills: "
    f"{', '.join(_SWITCHES)}.",
)
@options.yes
@options.as_json(lambda: options.models.LIBRARY)
def library_command(
    action: str,
    names: tuple[str, ...],
    every_skill: bool,
    switch: str | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Take skills out of the listing of hosts, still found.

    "move" moves your own skills out of the folders of hosts into your library, which is indexed;
    with --switch it leaves them and writes the host's own switch. "restore" undoes that, "list"
    shows what was moved. A journal next to the library is written before each step, so whatever
    ends a move, the next command completes or undoes it. Skills of plugins and projects stay.
    """
    _check(action, names, switch, every_skill=every_skill)
    done = True
    with open_journal() as journal:
        if action == "move":
            done = _move(journal, names, switch, yes=yes)
        elif action == "restore":
            done = _restore(journal, None if every_skill else names, yes=yes)
        moves = journal.away()
    if as_json:
        records = [move.to_dict() for move in moves]
        emit_json({"folder": str(library_folder()), "moves": records, "done": done})
    elif action == "list":
        rows = [(move.name, move.switch or move.target, move.source) for move in moves]
        show_rows(rows, ("skill", "now", "from"), columns=("name", "now", "from"))
        say("" if moves else _NOTHING_MOVED)
    return 0 if done else 1


def _check(action: str, names: tuple[str, ...], switch: str | None, *, every_skill: bool) -> None:
    """Refuse options that do not go together."""
    refuse(every_skill and action != "restore", "--all is for restore.")
    refuse(every_skill and names, "--all is instead of NAMEs; leave out one of them.")
    refuse(action == "move" and not names, "move needs the NAMEs of skills.")
    refuse(action == "list" and names, "list takes no NAMEs; it lists all.")
    refuse(switch and action != "move", "--switch is for move; restore undoes it by NAME.")
    refuse(
        switch not in (None, *_SWITCHES),
        f"{switch} has no switch for single skills; {', '.join(_SWITCHES)} have. Without "
        "--switch, move takes the skills out of the folders of all hosts.",
    )


def _move(journal: Journal, names: Sequence[str], switch: str | None, *, yes: bool) -> bool:
    from skillsearch.index.indexing.options import IndexOptions

    index = open_user_index()
    listings = Listings()
    before = _counts(index)
    documents = {Path(document.path).parent: document for document in map(index.find, names)}
    if switch:
        steps = _to_switch_off(journal, switch, documents, listings)
    else:
        steps = _to_move(journal, index, documents, listings)
    if not (steps and has_consent(_OTHERWISE, yes=yes)):
        return not steps
    is_done = _run_all(steps, "not moved")
    if not switch:
        follows = IndexRequest.load(index.folder)
        is_followed = follows is not None and follows.follows == "hosts"
        is_empty = not any(library_folder().iterdir())
        roots = () if is_followed or is_empty else (library_folder(),)
        index.apply(RootChange(roots, "add"), IndexOptions(missing="keep"))
    _show_counts(before, index)
    return is_done


def _to_move(
    journal: Journal, index: SkillIndex, documents: Mapping[Path, Document], listings: Listings
) -> list[Callable[[], object]]:
    """Name the skills that would move; return the steps. One inside another moves with that."""
    steps: list[Callable[[], object]] = []
    for folder, document in documents.items():
        paths = listings.movable(folder, document.name)
        if documents.keys() & set(folder.parents):
            continue
        titles = _titles(listings.readers(folder))
        within, same = [], []
        for other in index.documents():
            its_folder = Path(other.path).parent
            if paths == (folder,) and folder in its_folder.parents:
                within.append(other.name)
            elif (
                other.name == document.name
                and its_folder not in documents
                and listings.readers(its_folder)
            ):
                same.append(index.handle(other))
        for path in paths:
            say(f"{document.name}: {path}, listed no more by {titles}")
            steps.append(partial(move_away, journal, path, document.name))
        if within:
            say(f"With {document.name} go the skills within it: {listed(within, _SHOWN)}")
        if same:
            say(f"Others have the name {document.name} too, and stay: {listed(same, _SHOWN)}")
    return steps


def _to_switch_off(
    journal: Journal, host: str, documents: Mapping[Path, Document], listings: Listings
) -> list[Callable[[], object]]:
    """Name the skills that the host would list no more; return the steps."""
    file = host_file(host, hook="hook" in HOSTS[host])
    names = list[str]()
    for folder, document in documents.items():
        name = document.name
        readers = listings.readers(folder)
        if host not in readers:
            raise SkillError(
                f"{name} ({folder}) is not one of your skills that {_titles([host])} lists, so its "
                f"switch would do nothing. Hosts that list it: {_titles(readers) or 'none'}."
            )
        if name in switched_off(host):
            say(f"{name}: switched off in {file} already")
        else:
            say(f"{name}: {folder}, listed no more by {_titles([host])}")
            names.append(name)
    change = FileChange.plan(file, [switch_entry(host, name, is_off=True) for name in names])
    click.echo(change.diff(), err=True, nl=change.is_needed)
    return [partial(switch_off, journal, host, list(dict.fromkeys(names)), change)] if names else []


def _run_all(steps: Iterable[Callable[[], object]], what: str) -> bool:
    """Take steps, each whatever became of those before; tell of those that failed."""
    is_done = True
    for step in steps:
        try:
            step()
        except (SkillSearchError, OSError) as exc:
            say(f"{what}: {fault(exc) if isinstance(exc, OSError) else exc}")
            is_done = False
    return is_done


def _titles(names: Iterable[str]) -> str:
    return listed((hosts()[name]["title"] for name in names), _SHOWN)


def _restore(journal: Journal, names: Sequence[str] | None, *, yes: bool) -> bool:
    """Bring back the named skills, or with None all."""
    away = journal.away()
    wanted = away if names is None else journal.away_named(names)
    if not wanted:
        say("Nothing to restore: name skills, or use --all." if away else _NOTHING_MOVED)
        return not away
    # What holds another comes first.
    wanted = sorted(wanted, key=lambda move: len(Path(move.source).parts))
    for move in wanted:
        back = (
            f"listed again by {_titles([move.switch])}" if move.switch else f"back to {move.source}"
        )
        say(f"{move.name}: {back}")
    if not has_consent(_OTHERWISE, yes=yes):
        return False
    index = open_user_index()
    before = _counts(index)
    undo = (partial(_switch_on if move.switch else move_back, journal, move) for move in wanted)
    is_done = _run_all(undo, "not restored")
    index.refresh(keep_missing=True)
    _show_counts(before, index)
    return is_done


def _counts(index: SkillIndex) -> dict[str, int]:
    """Return how many of the user's skills each host lists, but for those of plugins."""
    skills = ((Path(document.path).parent, document.name) for document in index.documents())
    return Listings().counts(skills)


def _show_counts(before: dict[str, int], index: SkillIndex) -> None:
    """Say of which hosts the listing has changed, and from how many skills to how many."""
    after = _counts(index)
    for host, count in before.items():
        if count != after[host]:
            change = f"{title_of(host)}: {count} → {after[host]} of your skills listed"
            say(f"{change}; all {len(index)} are found")


def _switch_on(journal: Journal, move: Move) -> None:
    if diff := switch_on(journal, move):
        click.echo(diff, err=True)
