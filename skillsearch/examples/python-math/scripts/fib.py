"""Print Fibonacci numbers, one a line, exact however long they are."""

import argparse
import sys
from collections.abc import Iterator

MAX_INDEX = 200_000


def fibonacci(start: int, count: int) -> Iterator[int]:
    """Yield the numbers F(start), F(start + 1), ...; F(0) is 0 and F(1) is 1."""
    one, two = pair(start)
    for _ in range(count):
        yield one
        one, two = two, one + two


def pair(index: int) -> tuple[int, int]:
    """Return F(index) and F(index + 1), by way of the two at half the index."""
    if index == 0:
        return 0, 1
    one, two = pair(index // 2)
    even, odd = one * (2 * two - one), one * one + two * two
    return (odd, even + odd) if index % 2 else (even, odd)


def natural(raw: str) -> int:
    """Read a whole number from 0 to the largest index."""
    if not raw.isdecimal() or len(raw) > 9 or int(raw) > MAX_INDEX:
        raise argparse.ArgumentTypeError(f"{raw!r} is no whole number from 0 to {MAX_INDEX:,}")
    return int(raw)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=natural, help="how many numbers")
    parser.add_argument(
        "--from", dest="start", type=natural, default=0, help="index of the first; default: 0"
    )
    parser.add_argument("--sum", action="store_true", help="print also the sum of all")
    args = parser.parse_args()
    sys.set_int_max_str_digits(0)
    total = 0
    for number in fibonacci(args.start, args.count):
        total += number
        print(number)
    if args.sum:
        print("sum", total)
    return 0


if __name__ == "__main__":
    sys.exit(main())
