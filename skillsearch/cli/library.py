"""``skillsearch library``: skills out of the listing of hosts, still found, and back."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skillsearch.cli import app
from skillsearch.cli.app import Asked, command, flag, option, refuse
from skillsearch.cli.output import emit_json, say, show_rows
from skillsearch.config import load_settings, user_index_dir
from skillsearch.errors import SkillError
from skillsearch.hosts.entries import HOSTS, switch_entry
from skillsearch.hosts.files import Change, host_file
from skillsearch.hosts.moved import (
    Journal,
    Move,
    move_away,
    move_back,
    open_journal,
)
from skillsearch.hosts.places import Place, user_places
from skillsearch.hosts.table import hosts, library_folder, with_key
from skillsearch.index.request import IndexRequest
from skillsearch.index.root_change import RootChange
from skillsearch.text.safe_text import listed, visible

if TYPE_CHECKING:
    from skillsearch.index.documents import Document
    from skillsearch.index.skill_index import SkillIndex

_SHOWN = 10
_SWITCHES = tuple(with_key("switch"))


@command("library")
@click.argument("action", type=click.Choice(["move", "restore", "list"]))
@click.argument("names", nargs=-1, metavar="[NAME]...")
@flag("--all everything", "With restore: bring back all.")
@option(
    "--switch",
    "Leave the files, and tell only this host not to list the skills.",
    type=click.Choice(_SWITCHES),
)
@flag("--yes", "Do it without asking.")
@app.as_json
def library_command(asked: Asked) -> int:
    """Take skills out of the listing of hosts; search still finds them.

    "move" moves your own skills out of the folders of hosts into your library, which is indexed;
    with --switch it leaves them and writes the host's own switch. "restore" undoes that, "list"
    shows what is away. A journal beside the library is written before each step, so that whatever
    ends a move, the next command completes or undoes it. Skills of plugins and projects stay.
    """
    refuse(asked.action == "move" and not asked.names, "move needs the NAMEs of skills.")
    refuse(asked.everything and asked.action != "restore", "--all is for restore.")
    with open_journal() as journal:
        if asked.action == "move":
            done = _move(journal, asked)
        elif asked.action == "restore":
            done = _restore(journal, asked)
        else:
            done = True
        moves = journal.away()
    if asked.as_json:
        records = [move.to_dict() for move in moves]
        emit_json({"folder": str(library_folder()), "moves": records, "done": done})
    elif asked.action == "list":
        rows = [(move.name, move.switch or move.target, move.source) for move in moves]
        show_rows(rows, ("skill", "now", "from"), columns=("name", "now", "from"))
        say("" if moves else "No skill is away.")
    return 0 if done else 1


def _move(journal: Journal, asked: Asked) -> bool:
    index = _open_index()
    found = map(index.find, asked.names)
    documents = list({document.doc_id: document for document in found}.values())
    places = [_place_of(document) for document in documents]
    before = _counts(index)
    for document, place in zip(documents, places, strict=True):
        readers = [asked.switch] if asked.switch else place.hosts
        titles = listed((hosts()[name]["title"] for name in readers), _SHOWN)
        say(f"{document.name}: {Path(document.path).parent}, listed no more by {titles}")
    if not _agrees(asked):
        return False
    for document in documents:
        folder = Path(document.path).parent
        if asked.switch:
            _switch_off(journal, asked.switch, document.name)
        else:
            move_away(journal, folder, document.name)
    if not asked.switch:
        follows = IndexRequest.load(index.folder)
        is_followed = follows is not None and follows.follows == "hosts"
        roots = () if is_followed else (library_folder(),)
        index.apply(RootChange(roots, "add"), missing="keep")
    _tell(before, _counts(index) if not asked.switch else _less(before, asked), len(index))
    return True


def _restore(journal: Journal, asked: Asked) -> bool:
    away = journal.away()
    wanted = [move for move in away if asked.everything or move.name in asked.names]
    if lost := set(asked.names) - {move.name for move in away}:
        there = listed((move.name for move in away), _SHOWN) or "none"
        raise SkillError(f"{sorted(lost)[0]!r} is not away. Skills that are: {there}.")
    if not wanted:
        say("Nothing to restore: name skills, or use --all." if away else "No skill is away.")
        return not away
    for move in wanted:
        say(f"{move.name}: back to {move.source}")
    if not _agrees(asked):
        return False
    problems = []
    for move in wanted:
        try:
            (_switch_on if move.switch else move_back)(journal, move)
        except SkillError as exc:
            problems.append(str(exc))
    for problem in problems:
        say(f"not restored: {problem}")
    index = _open_index()
    index.refresh(keep_missing=True)
    return not problems


def _open_index() -> SkillIndex:
    """Open the user's index, made of what hosts look for if there is none."""
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.index.storage.cache import IndexFolder

    folder = user_index_dir().absolute()
    if IndexFolder(folder).exists():
        index = SkillIndex.open(folder)
        index.refresh(keep_missing=True)
        return index
    change = RootChange(settings=load_settings(index_dir=folder), follows="hosts")
    return SkillIndex.build(change, folder)[0]


def _place_of(document: Document) -> Place:
    """Return the folder of hosts that a skill lies in, or refuse what is not to be moved."""
    folder = Path(document.path).parent
    for place in user_places():
        is_movable = bool(place.hosts) and not place.plugin
        if is_movable and Path(place.path).resolve() in folder.parents:
            return place
    raise SkillError(
        f"{document.name} ({visible(document.path)}) lies in no folder where hosts look for skills "
        "of yours, so it is not moved. Those of plugins and projects are the hosts' to turn off."
    )


def _counts(index: SkillIndex) -> dict[str, int]:
    """Return how many of the user's skills each host lists, but for those of plugins."""
    found = dict.fromkeys(hosts(), 0)
    folders = {str(Path(place.path).resolve()): place for place in user_places()}
    for document in index.documents():
        place = folders.get(document.root)
        for host in place.hosts if place and not place.plugin else ():
            found[host] += 1
    return found


def _less(before: dict[str, int], asked: Asked) -> dict[str, int]:
    return before | {asked.switch: before[asked.switch] - len(asked.names)}


def _tell(before: dict[str, int], after: dict[str, int], found: int) -> None:
    for host, count in before.items():
        if count != after[host]:
            title = hosts()[host]["title"]
            say(f"{title}: {count} → {after[host]} of your skills listed; all {found} are found")


def _switch_off(journal: Journal, host: str, name: str) -> None:
    file = host_file(host, hook="hook" in HOSTS[host])
    number = max(journal.moves, default=0) + 1
    move = Move(number, name, str(file), "", "moving", switch=host)
    change = Change.plan(file, [switch_entry(host, name, is_off=True)])
    journal.note(move)
    _write(change)
    journal.note(replace(move, state="moved"))


def _switch_on(journal: Journal, move: Move) -> None:
    change = Change.plan(Path(move.source), [switch_entry(move.switch, move.name, is_off=False)])
    _write(change)
    journal.note(replace(move, state="restored"))


def _write(change: Change) -> None:
    if change.is_needed:
        click.echo(change.diff(), err=True)
        change.write()


def _agrees(asked: Asked) -> bool:
    """Return whether it may be done: asked on a terminal, else by ``--yes``."""
    if asked.yes or (sys.stdin.isatty() and sys.stderr.isatty()):
        return bool(asked.yes or click.confirm("Do this?", err=True))
    say("Nothing was changed. To do this, add --yes.")
    return False
