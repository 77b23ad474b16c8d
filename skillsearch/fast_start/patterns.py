"""Regular expressions that are compiled when they are first used, not when they are imported."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Pattern:
    """Proxy for a regular expression, compiled at first use."""

    def __init__(self, source: Any, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        """Compile the expression, and keep its methods, so that this is called once."""
        compiled = re.compile(self._source, self._flags)
        for each in ("search", "match", "fullmatch", "finditer", "findall", "sub", "split"):
            self.__dict__[each] = getattr(compiled, each)
        return getattr(compiled, name)


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return an expression that is compiled when it is first used; it raises no earlier."""
    return cast("re.Pattern[AnyStr]", _Pattern(source, flags))
