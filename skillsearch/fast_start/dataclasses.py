"""Dataclasses whose methods are compiled when they are first called, not when they are imported.

To make a frozen dataclass takes 1.7 ms, most of it for compiling eight methods; a cold query
imports 70 of them, and needs few of their methods.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True
    ) -> Any:
        """Make a dataclass, as the standard's does."""
        make = partial(_make, frozen=frozen, slots=slots, eq=eq)
        return make if cls is None else make(cls)


def _make(cls: type, *, frozen: bool, slots: bool, eq: bool) -> type:
    names = ["__init__", "__repr__", *(["__eq__"] if eq else [])]
    names = [name for name in names if name not in cls.__dict__]
    is_hashed = cls.__dict__.get("__hash__") is not None
    bare = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=frozen, slots=slots)
    made: Any = bare(cls)
    if eq and not is_hashed:
        made.__hash__ = None
        names += ["__hash__"] if frozen else []
    for name in names:
        setattr(made, name, _deferred(made, name, frozen=frozen))
    if "__init__" in names:
        made.__signature__ = _Signature(made, frozen=frozen)
    return cast("type", made)


def _deferred(cls: type, name: str, *, frozen: bool) -> Callable[..., Any]:
    """Return a method that has itself replaced by the compiled one, and calls that."""

    def method(self: object, /, *args: Any, **options: Any) -> Any:
        return _compile(cls, name, frozen=frozen)(self, *args, **options)

    return method


def _compile(cls: Any, name: str, *, frozen: bool) -> Callable[..., Any]:
    """Take a method from a dataclass of the same fields that has little else."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    types = {name: field.type for name, field in fields.items()}
    members = {**fields, "__annotations__": types, "__module__": cls.__module__, "__doc__": name}
    if hasattr(cls, "__post_init__"):
        members["__post_init__"] = cls.__post_init__
    make = dataclasses.dataclass(
        init=name == "__init__",
        repr=name == "__repr__",
        eq=name in ("__eq__", "__hash__"),
        frozen=frozen and name in ("__init__", "__hash__"),
    )
    method: Callable[..., Any] = make(type(cls.__name__, (), members)).__dict__[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    setattr(cls, name, method)
    return method


class _Signature:
    """The signature of a class, for which its ``__init__`` is compiled when somebody asks."""

    def __init__(self, cls: Any, *, frozen: bool) -> None:
        self._cls = cls
        self._frozen = frozen
        self._deferred = cls.__init__

    def __get__(self, _record: object, owner: Any) -> Any:
        """Return the signature of the class, or of one derived from it."""
        import inspect

        if owner.__init__ is self._deferred:
            _compile(self._cls, "__init__", frozen=self._frozen)
        signature = inspect.signature(owner.__init__)
        return signature.replace(parameters=list(signature.parameters.values())[1:])
