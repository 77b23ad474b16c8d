"""Test one revision for `git bisect run`: build, test several times, answer in bisect's codes."""

import argparse
import shlex
import subprocess
import sys

GOOD, BAD, SKIP, ABORT = 0, 1, 125, 128
NAMES = {GOOD: "good", BAD: "bad", SKIP: "skip"}


def run(command: str, timeout: float) -> int | None:
    """Run one command without a shell; None means that it ran out of time."""
    try:
        return subprocess.run(shlex.split(command), timeout=timeout, check=False).returncode
    except subprocess.TimeoutExpired:
        return None


def probe(args: argparse.Namespace) -> int:
    """Return bisect's verdict on the revision that is checked out."""
    if args.build and run(args.build, args.build_timeout) != 0:
        return SKIP
    for attempt in range(1, args.repeat + 1):
        code = run(args.test, args.timeout)
        if code is None:
            print(f"attempt {attempt}: timed out", file=sys.stderr)
            return BAD if args.slow_is_bad else SKIP
        if code in (args.skip_code, 126, 127):
            return SKIP
        if code != 0:
            print(f"attempt {attempt}: exit {code}", file=sys.stderr)
            return BAD
    return GOOD


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="Exit status: 0 good, 1 bad, 125 this revision cannot be judged, 128 stop. "
        "Keep this file outside the working tree: bisect checks out old revisions.",
    )
    parser.add_argument("--test", required=True, help="command that fails on the regression")
    parser.add_argument("--build", help="command that must pass first; failing it skips")
    parser.add_argument("--repeat", type=int, default=1, help="runs that must all pass (flaky bug)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for each test run")
    parser.add_argument("--build-timeout", type=float, default=1800, help="seconds to build")
    parser.add_argument("--slow-is-bad", action="store_true", help="a time-out is the regression")
    parser.add_argument("--skip-code", type=int, default=125, help="exit code that means: skip")
    args = parser.parse_args()
    try:
        verdict = probe(args)
    except FileNotFoundError as error:
        print(f"cannot start: {error}", file=sys.stderr)
        return ABORT
    print(f"verdict: {NAMES[verdict]}", file=sys.stderr)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
