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


def check(fields: list[dict[str, Any]], values: dict[str, str]) -> list[str]:
    """Return one line for each problem, in the order of the form."""
    known = {field["name"] for field in fields}
    problems = [f"{name}: no such field in the form" for name in values if name not in known]
    for field in fields:
        fault = check_one(field, values.get(field["name"]))
        if fault:
            problems.append(f"{field['name']}: {fault}")
    return problems


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
    fields = json.loads(args.fields.read_text(encoding="utf-8"))
    values = json.loads(args.values.read_text(encoding="utf-8"))
    problems = check(fields, values)
    for line in problems:
        print(line)
    if not problems:
        print(f"ok: {len(values)} values fit {len(fields)} fields")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
