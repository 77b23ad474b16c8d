"""Draft a changelog section from the commits of a git range, grouped by kind of change."""

import argparse
import datetime
import re
import subprocess
import sys

SUBJECT = re.compile(r"(?P<type>[a-z]+)(\((?P<scope>[^)]*)\))?(?P<bang>!)?:\s*(?P<text>.+)", re.I)
SECTIONS = {
    "feat": "Added",
    "fix": "Fixed",
    "perf": "Changed",
    "refactor": "Changed",
    "revert": "Changed",
    "deprecate": "Deprecated",
    "remove": "Removed",
    "security": "Security",
}
QUIET = {"chore", "ci", "test", "tests", "style", "build", "docs"}
ORDER = ["Breaking", "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "To sort"]


def commits(revisions: str) -> list[tuple[str, str, str]]:
    """Return (short hash, subject, body) of each commit, merges left out."""
    shape = "%h%x1f%s%x1f%b%x1e"
    done = subprocess.run(
        ["git", "log", "--no-merges", f"--format={shape}", "--end-of-options", revisions],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    records = [record.strip("\n").split("\x1f") for record in done.stdout.split("\x1e")]
    return [(r[0], r[1], r[2]) for r in records if len(r) == 3]


def place(subject: str, body: str) -> tuple[str, str] | None:
    """Return the section and the line for one commit, or None for housekeeping."""
    match = SUBJECT.fullmatch(subject)
    breaking = re.search(r"^BREAKING[ -]CHANGE:\s*(.+)", body, re.M)
    if breaking:
        return "Breaking", breaking[1]
    if match is None:
        return "To sort", subject
    text = f"{match['scope']}: {match['text']}" if match["scope"] else match["text"]
    if match["bang"]:
        return "Breaking", text
    kind = match["type"].lower()
    return None if kind in QUIET else (SECTIONS.get(kind, "To sort"), text)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revisions", help="git range, for example v1.2.0..HEAD")
    parser.add_argument("--version", default="Unreleased", help="heading; default: %(default)s")
    parser.add_argument("--hashes", action="store_true", help="append the short commit hash")
    args = parser.parse_args()
    found: dict[str, list[str]] = {}
    skipped = 0
    for short, subject, body in commits(args.revisions):
        spot = place(subject, body)
        if spot is None:
            skipped += 1
            continue
        line = spot[1][:1].upper() + spot[1][1:]
        found.setdefault(spot[0], []).append(f"- {line}" + f" ({short})" * args.hashes)
    date = "" if args.version == "Unreleased" else f" - {datetime.date.today().isoformat()}"
    print(f"## [{args.version}]{date}")
    for section in ORDER:
        if section in found:
            print(f"\n### {section}\n")
            print("\n".join(found[section]))
    print(f"{skipped} housekeeping commits left out", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
