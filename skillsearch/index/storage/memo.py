"""Values that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Memo(dict[_Key, _Value]):
    """Values by their keys, each computed when first asked for; once full, it begins anew."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def of(self, key: _Key, compute: Callable[[], _Value]) -> _Value:
        """Return the value of a key."""
        if key not in self:
            if len(self) >= self._limit:
                self.clear()
            self[key] = compute()
        return self[key]
