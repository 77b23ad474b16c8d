"""核对发票清单: 查重复号码、缺项、过期票据, 并按类别汇总金额."""

import argparse
import contextlib
import csv
import datetime
import sys
from decimal import Decimal, InvalidOperation
from pathlib import Path

COLUMNS = ("发票号码", "开票日期", "类别", "金额")


def read_rows(path: Path, encoding: str) -> list[dict[str, str]]:
    """读取清单, 去掉单元格首尾空白."""
    with path.open(encoding=encoding, newline="") as handle:
        reader = csv.DictReader(handle)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or [])]
        if missing:
            raise SystemExit(f"清单缺少列: {'、'.join(missing)}")
        return [{name: (row[name] or "").strip() for name in COLUMNS} for row in reader]


def check_row(row: dict[str, str], oldest: datetime.date) -> list[str]:
    """返回一张发票的全部问题."""
    faults = [f"{name}为空" for name in COLUMNS if not row[name]]
    number = row["发票号码"]
    if number and (not number.isdigit() or len(number) not in (8, 20)):
        faults.append("号码应为 8 位或 20 位数字")
    if row["开票日期"]:
        try:
            if datetime.date.fromisoformat(row["开票日期"]) < oldest:
                faults.append(f"早于 {oldest}, 已过报销期限")
        except ValueError:
            faults.append("日期应写成 2025-03-31 的形式")
    return faults


def amount_of(raw: str) -> Decimal | None:
    """把金额文字变成数, 不成数则返回 None."""
    with contextlib.suppress(InvalidOperation):
        value = Decimal(raw.replace(",", "").lstrip("¥"))
        return value if value.is_finite() else None
    return None


def main() -> int:
    """命令行入口; 有问题时退出码为 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="CSV 清单, 列: " + "、".join(COLUMNS))
    parser.add_argument("--encoding", default="utf-8-sig", help="Excel 导出常为 gbk")
    parser.add_argument("--days", type=int, default=180, help="报销期限天数, 默认 180")
    args = parser.parse_args()
    oldest = datetime.date.today() - datetime.timedelta(days=args.days)
    totals: dict[str, Decimal] = {}
    seen: dict[str, int] = {}
    problems = 0
    for line, row in enumerate(read_rows(args.path, args.encoding), start=2):
        faults = check_row(row, oldest)
        amount = amount_of(row["金额"])
        if row["金额"] and amount is None:
            faults.append("金额不是数字")
        if row["发票号码"] and seen.setdefault(row["发票号码"], line) != line:
            faults.append(f"与第 {seen[row['发票号码']]} 行号码重复")
        if faults:
            problems += 1
            print(f"第 {line} 行: {'; '.join(faults)}")
        elif amount is not None:
            totals[row["类别"]] = totals.get(row["类别"], Decimal(0)) + amount
    for kind, total in sorted(totals.items()):
        print(f"{kind}\t{total:.2f}")
    print(f"合计(仅无问题的票据)\t{sum(totals.values(), Decimal(0)):.2f}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
