"""Check a values file against a dump of PDF form fields before the form is filled."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def check_one(field: dict[str, Any], value: str | None) -> str | None:
    """Return what is wrong with one value, or None."""
    if value is None or value == "":
        return "required, but no value given" if field.get("required") else None
    options = field.get("options")
    if options and value not in options:
        return f"{value!r} is not one of {', '.join(map(repr, options))}"
    limit = field.get("max_length")
    if limit and len(value) > limit:
        return f"{len(value)} characters, the field takes {limit}"
    return None


def check(fields: dict[str, dict[str, Any]], values: dict[str, str]) -> list[str]:
    """Return one line for each problem, in the order of the form."""
    faults = [(name, check_one(field, values.get(name))) for name, field in fields.items()]
    problems = [f"{name}: no such field in the form" for name in values if name not in fields]
    return problems + [f"{name}: {fault}" for name, fault in faults if fault]


def main() -> int:
    """Run the command line; exit status 1 means that something does not fit."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="fields.json is a list of objects with name, and optionally required, options "
        "and max_length; values.json is one object of field name to text.",
    )
    parser.add_argument("fields", type=Path, help="fields.json, dumped from the form")
    parser.add_argument("values", type=Path, help="values.json, what shall be written")
    args = parser.parse_args()
    form = json.loads(args.fields.read_text(encoding="utf-8"))
    values = json.loads(args.values.read_text(encoding="utf-8"))
    problems = check({field["name"]: field for field in form}, values)
    print("\n".join(problems) or f"ok: {len(values)} values fit {len(form)} fields")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
