"""Kill writers of an index at random, or read it while it is written, and look for wrong answers.

Usage: python scripts/soak_index.py kill [--size 100000] [--kills 50] [--update COMMAND]
       python scripts/soak_index.py readers [--size 2000] [--seconds 300] [--readers 8]

``kill``: builds and updates end by SIGKILL, and what is left of the index is checked; see
`soaks.kills`. ``readers``: processes search while one writes; see `soaks.readers`.

Exits with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import soaks.kills
import soaks.readers
from soaks.states import BUILD


def show(report: Mapping[str, Any]) -> None:
    """Print a report as a table."""
    for name, value in report.items():
        if isinstance(value, dict):
            cells = (f"{key} {cell}" for key, cell in value.items())
            print(f"{name:<34}", ", ".join(cells))
        else:
            print(f"{name:<34}", f"{value:,}" if isinstance(value, int) else value)


def main() -> None:
    """Run a soak."""
    if sys.argv[1:2] == ["write"]:
        soaks.kills.write(int(sys.argv[2]), *sys.argv[3:])
        return
    if sys.argv[1:2] == ["read"]:
        soaks.readers.read(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    kill = commands.add_parser("kill", help="kill writers")
    kill.add_argument("--size", type=int, default=100_000, help="skills at first")
    kill.add_argument("--kills", type=int, default=50)
    readers = commands.add_parser("readers", help="read while one writes")
    readers.add_argument("--size", type=int, default=2_000, help="skills at first")
    readers.add_argument("--seconds", type=float, default=300)
    readers.add_argument("--readers", type=int, default=8)
    for command in (kill, readers):
        command.add_argument(
            "--update",
            default=BUILD,
            metavar="COMMAND",
            help="of an update, with {index}, {root}, {path}, {folder} (default: %(default)s)",
        )
        command.add_argument("--seed", type=int, default=1)
        command.add_argument("--work", type=Path, help="folder of the skills and the index")
        command.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.work and args.work.absolute()) as folder:
        work, size, update, seed = Path(folder), args.size, args.update, args.seed
        if args.command == "kill":
            report = soaks.kills.soak(work, size, args.kills, update, seed)
        else:
            report = soaks.readers.soak(work, size, args.readers, args.seconds, update, seed)
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        show(report)
    sys.exit(1 if report["faults"] else 0)


if __name__ == "__main__":
    main()
