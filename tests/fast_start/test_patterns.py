"""Expressions that are compiled late find the same as those of the standard library."""

import re

import pytest

from skillsearch.fast_start.patterns import lazy_pattern


def test_it_does_what_the_compiled_expression_does():
    text = r"(?P<word>b+)|c"
    lazy, eager = lazy_pattern(text, re.IGNORECASE), re.compile(text, re.IGNORECASE)
    for text in ("", "abBc", "ccc"):
        assert [m.span() for m in lazy.finditer(text)] == [m.span() for m in eager.finditer(text)]
        assert lazy.sub("-", text) == eager.sub("-", text)
        assert lazy.split(text) == eager.split(text)
        assert bool(lazy.fullmatch(text)) == bool(eager.fullmatch(text))
    for name in ("pattern", "flags", "groupindex"):
        assert getattr(lazy, name) == getattr(eager, name)


def test_it_is_compiled_at_its_first_use(monkeypatch):
    compiled = []
    real = re.compile
    monkeypatch.setattr(re, "compile", lambda *args: (compiled.append(args[0]), real(*args))[1])
    pattern = lazy_pattern("a+")
    assert compiled == []
    assert pattern.match("aa")
    assert pattern.search("ba")
    assert compiled == ["a+"]
    with pytest.raises(re.error):
        lazy_pattern("(").match("a")
