"""Tests of the JSON Schemas of arguments, checked by jsonschema."""

from enum import StrEnum
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, ValidationError

from skillsearch.agents.default_tools import (
    ListSkillsArgs,
    LoadSkillArgs,
    ReadSkillFileArgs,
    SearchSkillsArgs,
)
from skillsearch.agents.schemas import arguments_schema
from skillsearch.agents.tool import ToolArguments


class Colour(StrEnum):
    """A colour, in words for programmers."""

    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    """A point."""

    title: str
    x: float = 0


class Drawing(ToolArguments):
    """Not for models."""

    title: str
    points: list[Point]
    by_name: dict[str, Point] = Field(default={})
    colour: Colour | None = Field(default=None, description="Of the line.")
    mode: Literal["a", "b"] | None = None
    either: int | Point | None = None
    pair: tuple[int, Point]


class Tree(ToolArguments):
    """Refers to itself."""

    name: str = Field(max_length=9, min_length=1)
    children: list["Tree"] = Field(default=[])


POINT = {
    "type": "object",
    "description": "A point.",
    "properties": {"title": {"type": "string"}, "x": {"type": "number", "default": 0}},
    "required": ["title"],
    "additionalProperties": False,
}


def test_a_schema_is_plain_and_written_in_one_piece():
    assert arguments_schema(Drawing) == {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "points": {"type": "array", "items": POINT},
            "by_name": {"type": "object", "additionalProperties": POINT, "default": {}},
            "colour": {
                "type": ["string", "null"],
                "enum": ["red", "blue", None],
                "description": "Of the line.",
            },
            "mode": {"type": ["string", "null"], "enum": ["a", "b", None]},
            "either": {"anyOf": [{"type": "integer"}, POINT, {"type": "null"}], "default": None},
            "pair": {
                "type": "array",
                "prefixItems": [{"type": "integer"}, POINT],
                "maxItems": 2,
                "minItems": 2,
            },
        },
        "required": ["title", "points", "pair"],
        "additionalProperties": False,
    }


def test_only_what_contains_itself_stays_a_definition():
    node = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    schema = arguments_schema(Tree)
    definition = schema.pop("$defs")["Tree"]
    definition.pop("description")
    assert schema == definition == node


@pytest.mark.parametrize(
    "model", [Drawing, Tree, SearchSkillsArgs, LoadSkillArgs, ReadSkillFileArgs, ListSkillsArgs]
)
def test_every_schema_is_valid(model):
    Draft202012Validator.check_schema(arguments_schema(model))


VALUES = st.none() | st.booleans() | st.integers(-5, 2000) | st.floats() | st.text(max_size=3)


@given(
    st.dictionaries(st.sampled_from(["query", "n", "threshold", "k"]), VALUES).filter(
        lambda arguments: arguments.get("query") != ""
    )
)
def test_schema_and_check_agree(arguments):
    if Draft202012Validator(arguments_schema(SearchSkillsArgs)).is_valid(arguments):
        if arguments.get("threshold") == arguments.get("threshold"):  # NaN is no JSON
            SearchSkillsArgs.model_validate(arguments)
    else:
        with pytest.raises(ValidationError):
            SearchSkillsArgs.model_validate(arguments, strict=True)
