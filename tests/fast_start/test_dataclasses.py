"""Our dataclasses do what the standard's do, and compile no method before it is called."""

import copy
import dataclasses
import inspect
import pickle  # ours never write one: multiprocessing and Ray do
from dataclasses import field

import pytest

from skillsearch.fast_start import dataclasses as late

OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq}
    for frozen in (False, True)
    for slots in (False, True)
    for eq in (False, True)
]


def make(decorator, **options):
    """Return the same class by one of the two decorators."""

    class Point:
        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list, compare=False)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x is negative")

        @property
        def both(self) -> int:
            return self.x + self.y

    return decorator(**options)(Point)


def outcome(call):
    try:
        return call()
    except (TypeError, ValueError, AttributeError) as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("options", OPTIONS)
def test_they_behave_as_those_of_the_standard_library(options):
    ours, theirs = make(late.dataclass, **options), make(dataclasses.dataclass, **options)
    calls = (
        lambda cls: str(inspect.signature(cls)),
        lambda cls: repr(cls(x=1)),
        lambda cls: repr(cls(x=1, y=5, tags=["a"])),
        lambda cls: cls(1, 2, 3, 4),
        lambda cls: cls(),
        lambda cls: cls(x=-1),
        lambda cls: cls(x=1) == cls(x=1, tags=["a"]),
        lambda cls: cls(x=1) == cls(x=2),
        lambda cls: cls(x=1) == 1,
        lambda cls: hash(cls(x=1)) == hash(cls(x=1)),
        lambda cls: setattr(cls(x=1), "x", 3),
        lambda cls: delattr(cls(x=1), "x"),
        lambda cls: repr(dataclasses.replace(cls(x=1), y=7)),
        lambda cls: dataclasses.asdict(cls(x=1)),
        lambda cls: [each.name for each in dataclasses.fields(cls)],
        lambda cls: repr(copy.copy(cls(x=1, y=9))),
        lambda cls: repr(copy.deepcopy(cls(x=1, y=9))),
        lambda cls: cls(x=1).both,
        lambda cls: hasattr(cls(x=1), "__dict__"),
        lambda cls: cls.__match_args__,
    )
    for number, call in enumerate(calls):
        assert outcome(lambda: call(ours)) == outcome(lambda: call(theirs)), number  # noqa: B023


@late.dataclass(frozen=True, slots=True)
class Pair:
    """Two values."""

    first: int
    second: str = ""


def test_a_record_survives_another_process():
    assert pickle.loads(pickle.dumps(Pair(1, "a"))) == Pair(1, "a")


def test_a_record_of_the_standard_library_derives_from_ours():
    @dataclasses.dataclass(frozen=True, slots=True)
    class Triple(Pair):
        third: int = 3

    assert repr(Triple(1)).endswith("Triple(first=1, second='', third=3)")


def test_a_method_is_compiled_when_it_is_first_called():
    cls = make(late.dataclass, frozen=True)
    deferred = cls.__repr__
    assert deferred.__name__ == "method"
    repr(cls(x=1))
    assert cls.__repr__ is not deferred
