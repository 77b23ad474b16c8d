"""텍스트에서 주민등록번호, 전화번호, 이메일, 카드번호를 찾아 가립니다."""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

RRN = re.compile(r"(?<!\d)(\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))([- ]?)([1-8])\d{6}(?!\d)")
CARD = re.compile(r"(?<!\d)(\d{4})([- ]?)(\d{4})\2(\d{4})\2(\d{4})(?!\d)")
MOBILE = re.compile(r"(?<!\d)(01[016789])([-. ]?)(\d{3,4})([-. ]?)(\d{4})(?!\d)")
PHONE = re.compile(r"(?<!\d)(02|0[3-6]\d)([-. )])(\d{3,4})([-. ])(\d{4})(?!\d)")
EMAIL = re.compile(r"([A-Za-z0-9])([A-Za-z0-9._%+-]*)(@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)")


def luhn(digits: str) -> bool:
    """카드번호 검증식을 통과하는지 확인합니다."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit) * (1 + place % 2)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


def hide_card(match: re.Match[str]) -> str:
    """가운데 여덟 자리를 가립니다. 검증식에 맞지 않으면 그대로 둡니다."""
    if not luhn("".join(match.group(1, 3, 4, 5))):
        return match[0]
    return match[2].join([match[1], "****", "****", match[5]])


def hide_phone(match: re.Match[str]) -> str:
    """가운데 국번을 가립니다."""
    return f"{match[1]}{match[2]}{'*' * len(match[3])}{match[4]}{match[5]}"


RULES: list[tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    ("주민등록번호", RRN, lambda m: f"{m[1]}{m[2]}*******"),
    ("카드번호", CARD, hide_card),
    ("휴대전화", MOBILE, hide_phone),
    ("유선전화", PHONE, hide_phone),
    ("이메일", EMAIL, lambda m: f"{m[1]}{'*' * max(3, len(m[2]))}{m[3]}"),
]


def mask(text: str, counts: Counter[str]) -> str:
    """모든 규칙을 차례로 적용하고 가린 건수를 셉니다."""
    for name, pattern, hide in RULES:
        counts[name] = sum(hide(match) != match[0] for match in pattern.finditer(text))
        text = pattern.sub(hide, text)
    return text


def main() -> int:
    """명령행을 실행합니다. --check 에서 개인정보가 나오면 종료 코드는 1입니다."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", type=Path, help="입력 파일 (없으면 표준 입력)")
    parser.add_argument("--encoding", default="utf-8-sig", help="예: cp949")
    parser.add_argument("--check", action="store_true", help="바꾸지 않고 건수만 보고합니다")
    args = parser.parse_args()
    text = args.path.read_text(encoding=args.encoding) if args.path else sys.stdin.read()
    counts: Counter[str] = Counter()
    masked = mask(text, counts)
    if not args.check:
        sys.stdout.write(masked)
    for name, _, _ in RULES:
        if counts[name]:
            print(f"{name}: {counts[name]}건", file=sys.stderr)
    return 1 if args.check and counts.total() else 0


if __name__ == "__main__":
    sys.exit(main())
