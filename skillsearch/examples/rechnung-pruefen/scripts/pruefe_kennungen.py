"""Prüft IBAN, deutsche USt-IdNr. und die Rechnung netto + Steuer = brutto."""

import argparse
import contextlib
import re
import sys
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation


def iban_ok(raw: str) -> bool:
    """Prüfziffer nach ISO 7064 Modulo 97; eine deutsche IBAN hat 22 Stellen."""
    iban = re.sub(r"\s", "", raw).upper()
    if not re.fullmatch(r"DE\d{20}|(?!DE)[A-Z]{2}\d{2}[A-Z0-9]{11,30}", iban):
        return False
    return int("".join(str(int(char, 36)) for char in iban[4:] + iban[:4])) % 97 == 1


def ust_id_ok(raw: str) -> bool:
    """Prüfziffer einer deutschen USt-IdNr. nach ISO 7064 Modulo 11,10."""
    number = re.sub(r"\s", "", raw).upper()
    if not re.fullmatch(r"DE[1-9]\d{8}", number):
        return False
    product = 10
    for digit in number[2:10]:
        product = 2 * ((int(digit) + product) % 10 or 10) % 11
    return (11 - product) % 10 == int(number[10])


def betrag(raw: str) -> Decimal:
    """Liest 1.234,56 ebenso wie 1234.56."""
    plain = raw.replace(".", "").replace(",", ".") if "," in raw else raw
    with contextlib.suppress(InvalidOperation):
        value = Decimal(plain)
        if value.is_finite():
            return value
    raise argparse.ArgumentTypeError(f"{raw!r} ist kein Betrag")


def main() -> int:
    """Startet die Befehlszeile; Rückgabewert 1 heißt: etwas stimmt nicht."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iban", help="Bankverbindung des Ausstellers")
    parser.add_argument("--ust-id", help="USt-IdNr., zum Beispiel DE123456789")
    parser.add_argument("--netto", type=betrag)
    parser.add_argument("--satz", type=betrag, default=Decimal(19), help="Prozent; Vorgabe: 19")
    parser.add_argument("--brutto", type=betrag)
    args = parser.parse_args()
    if (args.netto is None) != (args.brutto is None):
        parser.error("--netto und --brutto gehören zusammen")
    if args.iban is None and args.ust_id is None and args.netto is None:
        parser.error("nichts zu prüfen")
    results: dict[str, bool] = {}
    if args.iban is not None:
        results[f"IBAN {args.iban}"] = iban_ok(args.iban)
    if args.ust_id is not None:
        results[f"USt-IdNr. {args.ust_id}"] = ust_id_ok(args.ust_id)
    if args.netto is not None:
        tax = (args.netto * args.satz / 100).quantize(Decimal("0.01"), ROUND_HALF_UP)
        title = f"{args.netto} + {tax} Steuer ({args.satz} %) = {args.brutto}"
        results[title] = abs(args.netto + tax - args.brutto) <= Decimal("0.01")
    for title, fine in results.items():
        print(f"{'ok    ' if fine else 'FEHLER'} {title}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
