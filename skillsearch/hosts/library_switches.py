"""Skills that a host's own switch takes out of its listing, and back, by the journal of moves."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from skillsearch.hosts.entries import switch_entry
from skillsearch.hosts.files import FileChange, switched_off, switches
from skillsearch.hosts.library_moves import Journal, Move, MoveState


def switch_off(journal: Journal, host: str, names: Iterable[str], change: FileChange) -> None:
    """Make a change of a host's file by which it lists skills no more, and note that.

    A ConfigError if the file cannot be written; then none is switched off.
    """
    values, away = switches(host), {(move.switch, move.name): move for move in journal.away()}
    moves = []
    for name in names:
        same = away.get((host, name))
        number = same.number if same else max(journal.moves, default=0) + 1
        before = json.dumps(values[name]) if name in values else ""
        source = str(change.path)
        move = Move(number, name, source, target="", state="moving", switch=host, before=before)
        journal.note(move)
        moves.append(move)
    state: MoveState = "restored"
    try:
        change.write()
        state = "moved"
    finally:
        for move in moves:
            journal.note(replace(move, state=state))


def switch_on(journal: Journal, move: Move) -> str:
    """Have a host list a skill again as before it was switched off; return what was changed.

    Nothing is if its user has said otherwise since. A ConfigError if the file cannot be written.
    """
    file, diff = Path(move.source), ""
    if move.name in switched_off(move.switch, file):
        entry = switch_entry(move.switch, move.name, is_off=False)
        value = json.loads(move.before) if move.before else None
        change = FileChange.plan(file, [entry._replace(value=value)])
        change.write()
        diff = change.diff()
    journal.note(replace(move, state="restored"))
    return diff
