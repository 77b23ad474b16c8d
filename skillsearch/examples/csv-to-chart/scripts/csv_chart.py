"""Draw one SVG bar or line chart from two columns of a CSV file, without any library."""

import argparse
import csv
import html
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 800, 450, 80, 50, 80
INK, GRID, FILL = "#222222", "#dddddd", "#3366aa"


def load(path: Path, label: str, value: str) -> dict[str, float]:
    """Sum the value column per label, in the order in which labels first appear."""
    totals: dict[str, float] = {}
    with path.open(encoding="utf-8-sig", newline="") as handle:
        for number, row in enumerate(csv.DictReader(handle), start=2):
            try:
                amount = float(row[value])
            except (KeyError, TypeError, ValueError):
                raise SystemExit(f"row {number}: column {value!r} holds no number") from None
            if row.get(label) is None:
                raise SystemExit(f"row {number}: no column {label!r}")
            totals[row[label]] = totals.get(row[label], 0.0) + amount
    return totals


def text(x: float, y: float, body: str, anchor: str = "middle", size: int = 12) -> str:
    """Return one SVG text element."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{INK}" font-family="sans-serif">{html.escape(body)}</text>'
    )


def draw(points: dict[str, float], title: str, kind: str) -> str:
    """Return the whole SVG document; the value axis always includes zero."""
    low, high = min(0.0, *points.values()), max(0.0, *points.values())
    span = (high - low) or 1.0

    def y_of(amount: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - amount) / span

    step = (WIDTH - LEFT - 20) / len(points)
    parts = [text(WIDTH / 2, 28, title, size=18)]
    for tick in range(5):
        amount = low + span * tick / 4
        y = y_of(amount)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>'
        )
        parts.append(text(LEFT - 8, y + 4, f"{amount:,.4g}", "end"))
    spots = []
    for i, (name, amount) in enumerate(points.items()):
        x = LEFT + step * (i + 0.5)
        spots.append(f"{x:.1f},{y_of(amount):.1f}")
        if i % max(1, len(points) // 12) == 0:
            parts.append(text(x, HEIGHT - BOTTOM + 22, name[:14]))
        if kind == "bar":
            y = min(y_of(amount), y_of(0.0))
            parts.append(
                f'<rect x="{x - step * 0.35:.1f}" y="{y:.1f}" width="{step * 0.7:.1f}" '
                f'height="{abs(y_of(amount) - y_of(0.0)):.1f}" fill="{FILL}"/>'
            )
    if kind == "line":
        path = " ".join(spots)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{FILL}" stroke-width="2"/>')
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
    svg += f'aria-label="{html.escape(title)}">'
    paper = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    return "\n".join([svg, paper, *parts, "</svg>\n"])


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="CSV file with a header row")
    parser.add_argument("--label", required=True, help="column for the horizontal axis")
    parser.add_argument("--value", required=True, help="numeric column; summed per label")
    parser.add_argument("--kind", choices=["bar", "line"], default="bar")
    parser.add_argument("--sort", action="store_true", help="largest first (bars only)")
    parser.add_argument("--title", help="default: VALUE by LABEL")
    parser.add_argument("--out", type=Path, default=Path("chart.svg"), help="default: %(default)s")
    args = parser.parse_args()
    points = load(args.path, args.label, args.value)
    if not points:
        print("no rows to draw", file=sys.stderr)
        return 1
    if args.sort and args.kind == "bar":
        points = dict(sorted(points.items(), key=lambda item: -item[1]))
    title = args.title or f"{args.value} by {args.label}"
    args.out.write_text(draw(points, title, args.kind), encoding="utf-8")
    print(f"{args.out}: {len(points)} points")
    return 0


if __name__ == "__main__":
    sys.exit(main())
