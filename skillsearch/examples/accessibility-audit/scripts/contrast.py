"""Compute the WCAG contrast ratio of two colours and say which levels it passes."""

import argparse
import re
import sys

NEEDS = {
    "text": {"AA": 4.5, "AAA": 7.0},
    "large": {"AA": 3.0, "AAA": 4.5},
    "ui": {"AA": 3.0, "AAA": 3.0},
}


def parse_colour(raw: str) -> bytes:
    """Read #rgb or #rrggbb, the hash sign optional."""
    digits = raw.strip().removeprefix("#")
    if len(digits) == 3:
        digits = "".join(digit * 2 for digit in digits)
    if not re.fullmatch(r"[0-9a-fA-F]{6}", digits):
        raise argparse.ArgumentTypeError(f"{raw!r} is not a colour such as #1a2b3c or #fff")
    return bytes.fromhex(digits)


def luminance(colour: bytes) -> float:
    """Return the relative luminance as WCAG 2.x defines it."""
    shares = [channel / 255 for channel in colour]
    red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def main() -> int:
    """Run the command line; exit status 1 means that the asked level is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("foreground", type=parse_colour, help="such as #595959")
    parser.add_argument("background", type=parse_colour, help="such as #fff")
    parser.add_argument(
        "--use",
        choices=NEEDS,
        default="text",
        help="large: 24px, or 18.66px bold, and up; ui: borders, icons, focus",
    )
    parser.add_argument("--level", choices=["AA", "AAA"], default="AA")
    args = parser.parse_args()
    need = NEEDS[args.use][args.level]
    low, high = sorted([luminance(args.foreground), luminance(args.background)])
    value = (high + 0.05) / (low + 0.05)  # from 1.0 (equal) to 21.0 (black on white)
    verdict = "pass" if value >= need else "FAIL"
    print(f"{value:.2f}:1  {verdict} ({args.use}, {args.level}: at least {need}:1)")
    return 0 if value >= need else 1


if __name__ == "__main__":
    sys.exit(main())
