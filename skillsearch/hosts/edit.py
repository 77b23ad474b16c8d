"""Puts an entry into the text of a host's file, or takes it out; every other byte stays.

A pattern finds places where the entry may belong, and the text is spliced there. The real parser
then reads the new text: unless it holds the old data with exactly this entry changed, the next
place is tried, and without one the edit is refused.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator

from skillsearch.errors import EditError, ParseError, UnusableError
from skillsearch.hosts.entries import Entry, Steps, is_our_hook, nested, yaml_lines
from skillsearch.text.jsonc import parse_jsonc, without_comments, without_last_commas
from skillsearch.types.json_values import Json

_BOM = "\ufeff"
_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\r\n]*)?(?=\r?\n)")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_JSON = json.JSONDecoder()
_MAX_LINES = 100
"""Of an entry of ours, with the additions of its user."""
_MAX_TRIED_CHARS = 4_000_000
"""Of all texts that are tried, together: about a second of parsing."""


def edit(data: bytes, entry: Entry) -> bytes:
    """Return the bytes of a file with an entry in it, or without it; the same if it is so already.

    EditError is raised if the file is broken, or written in a way that this cannot edit.
    """
    try:
        text = data.decode()
        mark = _BOM * text.startswith(_BOM)
        return (mark + _edited(text.removeprefix(_BOM), entry)).encode()
    except (ValueError, ParseError, RecursionError) as exc:  # ValueError: not UTF-8 either
        raise EditError(f"is not valid {entry.form.upper()} ({exc})") from exc


def _edited(text: str, entry: Entry) -> str:
    present = list(_present(_parse(entry.form, text), entry))
    if entry.value is not None and [value for _, value in present] == [entry.value]:
        return text
    for path, _ in reversed(present):
        text = _without(text, entry, path)
    return text if entry.value is None else _with(text, entry)


def _present(data: Json, entry: Entry) -> Iterator[tuple[Steps, Json]]:
    """Yield where data hold an entry, and its value; a hook may be there more than once."""
    table = _at(data, entry.path[:-1])
    if isinstance(table, dict) and entry.path[-1] in table:
        yield entry.path, table[entry.path[-1]]
    for number, group in enumerate(table if isinstance(table, list) else ()):
        hooks = group.get("hooks") if isinstance(group, dict) else None
        for position, hook in enumerate(hooks if isinstance(hooks, list) else ()):
            if is_our_hook(entry.host, hook):
                path = (*entry.path[:-1], number)
                is_alone = group == {"hooks": [hook]}
                yield path if is_alone else (*path, "hooks", position), {"hooks": [hook]}


def _with(text: str, entry: Entry) -> str:
    """Add an entry that is not there yet."""
    data, path = _parse(entry.form, text), entry.path
    depth = next(n for n in reversed(range(len(path))) if _at(data, path[:n]) is not None)
    node, container = _at(data, path[:depth]), dict if isinstance(path[depth], str) else list
    if not isinstance(node, container):
        name = json.dumps(path[depth - 1])
        wanted = "table" if container is dict else "list"
        raise EditError(f"has {name} as a {type(node).__name__}, where a {wanted} belongs")
    value = nested(path[depth + 1 :], entry.value)
    is_last = entry.form == "toml" or (entry.form == "yaml" and not depth)
    if isinstance(node, list):
        node.insert(len(node) if is_last else 0, value)
    else:
        node[path[depth]] = value
        for key in () if is_last else list(node)[:-1]:
            node[key] = node.pop(key)
    add = {"json": _add_json, "toml": _add_toml, "yaml": _add_yaml}[entry.form]
    return _first(entry.form, add(text, entry, depth), [data])


def _without(text: str, entry: Entry, path: Steps) -> str:
    """Remove the value at a path, and tables around it that hold nothing else, even no comments.

    These stay if something is to be put there again, unless they have no line of their own.
    """
    data, paths = _parse(entry.form, text), [path]
    may_go = entry.value is None or entry.form == "toml"
    while may_go and len(path) in (2, 3) and _holds_one(_at(data, path[:-1])):
        paths.append(path := path[:-1])
    allowed = [copy.deepcopy(data) for _ in paths]
    for less, gone in zip(allowed, paths, strict=True):
        _remove(_at(less, gone[:-1]), gone[-1])
    remove = _remove_json if entry.form == "json" else _remove_lines
    texts = (
        new for at in reversed(paths) for new in remove(text, data, at, is_outer=at in paths[1:])
    )
    return _first(entry.form, texts, allowed)


def _holds_one(node: Json) -> bool:
    return isinstance(node, dict | list) and len(node) == 1


def _remove(node: Json, step: str | int) -> None:
    if isinstance(node, dict):
        node.pop(str(step))
    elif isinstance(node, list):
        node.pop(int(step))


def _at(data: Json, path: Steps) -> Json:
    for step in path:
        if isinstance(data, dict) and isinstance(step, str):
            data = data.get(step)
        elif isinstance(data, list) and data and isinstance(step, int):
            data = data[step]
        else:
            data = None
    return data


def _first(form: str, texts: Iterator[str], allowed: list[Json]) -> str:
    """Return the first text that holds data that are allowed; order counts, and 1 is not true."""
    wanted, room = set(map(repr, allowed)), _MAX_TRIED_CHARS
    for text in texts:
        room -= len(text)
        if room < 0:
            break
        try:
            if repr(_parse(form, text)) in wanted:
                return text
        except (ValueError, ParseError):
            continue
    raise EditError("is written in a way that cannot be edited without risk")


def _parse(form: str, text: str) -> Json:
    if form == "toml":
        return tomllib.loads(text)
    if form == "yaml":
        from skillsearch.skills.frontmatter import load_yaml

        data, findings = load_yaml(text)
        if findings:
            raise UnusableError(findings[0].message)
        return {key: {} if value is None else value for key, value in data.items()}
    return parse_jsonc(text)


def _as_in(text: str, new: str) -> str:
    return new.replace("\n", "\r\n") if "\r\n" in text else new


def _blanks(text: str, at: int = 0, kinds: str | None = " \t") -> str:
    """Return the blanks from a place on."""
    return text[at : len(text) - len(text[at:].lstrip(kinds))]


def _add_json(text: str, entry: Entry, depth: int) -> Iterator[str]:
    bare, path = without_comments(text), entry.path
    if not bare.strip():
        yield text + "\n" * (text[-1:] not in ("", "\n")) + _as_in(text, entry.text)
    value = nested(path[depth + 1 :], entry.value)
    key = f"{json.dumps(path[depth])}: " if isinstance(path[depth], str) else ""
    unit = indent[1] if (indent := re.search(r"\n([ \t]+)\S", text)) else "  "
    opening = rf"{json.dumps(path[depth - 1])}\s*:\s*[\[{{]" if depth else r"\{"
    for match in re.finditer(opening, bare):
        at = match.end()
        comma = "" if re.match(r"\s*[\]}]", bare[match.end() :]) else ","
        outer = _blanks(text, text.rfind("\n", 0, at) + 1)
        rest = _REST_OF_LINE.match(text, at)
        new = f"{_blanks(text, at)}{key}{json.dumps(value)}{comma}"
        if rest or not comma:
            lines = json.dumps(value, indent=unit).replace("\n", f"\n{outer}{unit}")
            new = f"\n{outer}{unit}{key}{lines}{comma}" + ("" if rest else f"\n{outer}")
        at = rest.end() if rest else at
        yield text[:at] + _as_in(text, new) + text[at:]


def _remove_json(text: str, data: Json, path: Steps, *, is_outer: bool) -> Iterator[str]:
    bare = without_comments(text)
    plain = without_last_commas(bare)
    key = rf"{json.dumps(path[-1])}\s*:\s*" if isinstance(path[-1], str) else r"(?=\{)"
    for match in re.finditer(key, bare):
        try:
            value, end = _JSON.raw_decode(plain, match.end())
        except ValueError:
            continue
        start = match.start()
        if value != _at(data, path) or (is_outer and text[start:end] != bare[start:end]):
            continue
        begin, rest = len(text[:start].rstrip(" \t")), text
        begin -= 2 if text[:begin].endswith("\r\n") else text[:begin].endswith("\n")
        if comma := re.match(r"\s*,", text[end:]):
            end += comma.end()
        elif bare[:start].rstrip().endswith(","):
            last = bare.rindex(",", 0, start)
            rest = text[:last] + text[last + 1 :]
            begin, start, end = begin - 1, start - 1, end - 1
        elif text[:begin].rstrip()[-1] in "[{" and text[end:].lstrip()[0] in "]}":
            end += len(_blanks(text, end, None))
        yield rest[:begin] + rest[end:]
        yield rest[:start] + rest[end:]


def _add_toml(text: str, entry: Entry, _depth: int) -> Iterator[str]:
    lead = "\n" * (bool(text) + (text[-1:] not in ("", "\n")))
    yield text + _as_in(text, lead + entry.text)


def _add_yaml(text: str, entry: Entry, _depth: int) -> Iterator[str]:
    lines = _LINE.findall(text)
    for at, line in enumerate(lines):
        if re.match(rf"{entry.path[0]}[ \t]*:[ \t]*(?:\{{[ \t]*\}}[ \t]*)?(?:#|\r?$)", line):
            opened = re.sub(r":[ \t]*\{[ \t]*\}", ":", line)
            opened += _as_in(text, "\n") * (not line.endswith("\n"))
            inner = next((line for line in lines[at + 1 :] if line.split("#")[0].strip()), "")
            new = yaml_lines(entry, _blanks(inner) or "  ")
            yield "".join([*lines[:at], opened, _as_in(text, new), *lines[at + 1 :]])
    yield text + _as_in(text, "\n" * (text[-1:] not in ("", "\n")) + entry.text)


def _remove_lines(text: str, _data: Json, path: Steps, *, is_outer: bool) -> Iterator[str]:
    """Try to leave out lines from one with our name on, of TOML or YAML, the fewest first."""
    lines = _LINE.findall(text)
    name = next(step for step in reversed(path) if isinstance(step, str))
    named = re.compile(rf"\b{re.escape(name)}[\"']?[ \t]*[]:=.]")
    for start in reversed([n for n, line in enumerate(lines) if named.search(line)]):
        is_header = lines[start].lstrip().startswith("[")
        blank = is_header and start > 0 and not lines[start - 1].strip()
        for end in range(start + 1, min(start + _MAX_LINES, len(lines)) + 1):
            if is_outer and "#" in lines[end - 1]:
                break
            if lines[end - 1].split("#")[0].strip():
                yield "".join(lines[: start - blank] + lines[end:])
