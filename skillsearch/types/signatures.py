"""What callers in Python pass: checked by its annotations, and told by ``help`` in full."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from numbers import Real
from os import PathLike
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    runtime_checkable,
)

from skillsearch.errors import QueryError
from skillsearch.fast_start.patterns import lazy_pattern

if TYPE_CHECKING:
    from skillsearch.types.answers import SearchResult


@runtime_checkable
class _Submitting(Protocol):
    """An executor of `concurrent.futures`, or what serves as one."""

    def submit(self) -> object:
        """Begin a call in the background."""


_KINDS: dict[str, Any] = {
    "None": type(None), "Path": PathLike, "float": Real, "str": str, "bool": bool,
    "Collection": Collection, "Iterable": Iterable, "Sequence": Collection,
    "Mapping": Mapping, "MutableMapping": Mapping, "Callable": Callable, "Progress": Callable,
    "Executor": _Submitting,
}  # fmt: skip
_UNPACKED = lazy_pattern(r"Unpack\[(\w+)\]")
_INNER = lazy_pattern(r"\[[^\[\]]*\]")
_NAMES = lazy_pattern(r"\b(?:Collection|Iterable|Sequence)\[str(?: \| Path)?\]")

_Class = TypeVar("_Class", bound=type)
_P = ParamSpec("_P")
_Self = TypeVar("_Self")
_First = TypeVar("_First")
_Options = TypeVar("_Options")
_Result = TypeVar("_Result")


class _Search(Protocol[_P]):
    """A ``search`` of an object: a query, and options by position or name."""

    def __call__(self, query: str, *args: _P.args, **options: _P.kwargs) -> SearchResult: ...


class _SearchMethod(Protocol[_P]):
    """A ``search`` of a class."""

    def __get__(self, searched: object, owner: type | None = None) -> _Search[_P]: ...


def takes(
    make: Callable[_P, _Options],
) -> Callable[
    [Callable[[_Self, _First, _Options], _Result]],
    Callable[Concatenate[_Self, _First, _P], _Result],
]:
    """Let callers of a method pass the fields of its last argument, a dataclass, as arguments.

    The fields and their defaults are the signature; what the dataclass says of its attributes is
    added to the docstring.
    """

    def wrap(method: Callable[..., _Result]) -> Callable[..., _Result]:
        plain = inspect.signature(method)
        *own, _ = plain.parameters.values()
        first_name = own[1].name

        @wraps(method)
        def taking(self: object, *args: Any, **options: Any) -> _Result:
            first, *more = args or [options.pop(first_name)]
            return method(self, first, make(*more, **options))

        fields = inspect.signature(make).parameters.values()
        taking.__signature__ = plain.replace(parameters=[*own, *fields])  # type: ignore[attr-defined]
        _, _, described = (inspect.getdoc(make) or "").partition("Attributes:\n")
        if described:
            taking.__doc__ = f"{inspect.getdoc(method)}\n\nOptions:\n{described}"
        return taking

    return wrap


def searches(
    make: Callable[_P, _Options],
) -> Callable[[Callable[[_Self, str, _Options], SearchResult]], _SearchMethod[_P]]:
    """Do what `takes` does for a method ``search``; its query may be passed by name."""
    return cast(
        "Callable[[Callable[[_Self, str, _Options], SearchResult]], _SearchMethod[_P]]", takes(make)
    )


def public(own: Mapping[str, object] = {}) -> Callable[[_Class], _Class]:
    """Make a class raise `QueryError` for arguments of public methods that are of another kind.

    Options taken as one typed dictionary are shown one by one in the signature, with the defaults
    of the class, or some of their `own`.
    """

    def wrap(cls: _Class) -> _Class:
        parameters = inspect.signature(cls).parameters
        usual = {name: each.default for name, each in parameters.items()} | {**own}
        for name, member in list(vars(cls).items()):
            if name == "__init__" or not name.startswith("_"):
                if isinstance(member, classmethod):
                    setattr(cls, name, classmethod(_checking(member.__func__, usual)))
                elif inspect.isfunction(member):
                    setattr(cls, name, _checking(member, usual))
        return cls

    return wrap


def _checking(function: Callable[..., Any], defaults: Mapping[str, object]) -> Callable[..., Any]:
    shown = _signature(function, defaults)
    texts = {each.name: str(each.annotation) for each in shown.parameters.values()}
    kinds = {name: types for name, text in texts.items() if (types := _kinds(text))}

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            arguments = shown.bind(*args, **kwargs).arguments
        except TypeError as exc:
            raise TypeError(f"{function.__qualname__}() {exc}") from exc
        for name, value in arguments.items():
            if name in kinds and not _fits(value, kinds[name], texts[name]):
                wanted = texts[name].replace(" | ", " or ")
                raise QueryError(f"{function.__name__}: {name} is {value!r:.80}; give {wanted}.")
        return function(*args, **kwargs)

    checked.__signature__ = shown  # type: ignore[attr-defined]
    return checked


def _signature(function: Callable[..., Any], defaults: Mapping[str, object]) -> inspect.Signature:
    """Return the signature of a function, with each option of an unpacked dictionary."""
    plain = inspect.signature(function)
    parameters: list[inspect.Parameter] = []
    for each in plain.parameters.values():
        unpacked = _UNPACKED.fullmatch(str(each.annotation))
        if (options := function.__globals__.get(unpacked[1]) if unpacked else None) is None:
            parameters.append(each)
            continue
        for name, hint in options.__annotations__.items():
            text, default = getattr(hint, "__forward_arg__", hint), defaults.get(name)
            option = inspect.Parameter(name, each.KEYWORD_ONLY, default=default, annotation=text)
            parameters.append(option)
    return plain.replace(parameters=parameters)


def _kinds(annotation: str) -> tuple[type, ...]:
    """Return the types that an annotation allows; none if some of it cannot be checked here."""
    plain, count = annotation, 1
    while count:
        plain, count = _INNER.subn("", plain)
    parts = plain.split(" | ")
    types: list[Any] = [_KINDS[part] for part in parts if part in _KINDS]
    return tuple(types) if len(types) == len(parts) else ()


def _fits(value: object, kinds: tuple[type, ...], annotation: str) -> bool:
    if (
        isinstance(value, str | PathLike)
        and PathLike in kinds
        and not {Iterable, Collection} & {*kinds}
    ):
        # One of many that no file can have is reported, and the others are used.
        return isinstance(value, kinds) and "\0" not in str(value)
    if isinstance(value, str | bytes | bytearray):  # none of them is meant as many
        return isinstance(value, str) and str in kinds
    if isinstance(value, list | tuple | set | frozenset) and _NAMES.search(annotation):
        return all(isinstance(each, str | PathLike) for each in value)
    return isinstance(value, kinds) and not (isinstance(value, bool) and Real in kinds)
