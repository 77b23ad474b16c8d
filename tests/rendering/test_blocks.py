"""Blocks of a report: their values as a person and as a program read them."""

import pytest

from skillsearch.rendering.blocks import Cell, RowGroup, Table, plain, shown


@pytest.mark.parametrize(
    ("value", "for_a_person", "for_programs"),
    [
        (0.4321, "43 %", "0.4321"),
        (12_345, "12,345", "12345"),
        (None, "-", ""),
        ("8,000", "8,000", "8,000"),
        (Cell("84.3", "81-87", is_best=True), "84.3", "84.3"),
    ],
)
def test_a_value_is_shown_by_its_type(value, for_a_person, for_programs):
    assert (shown(value), plain(value)) == (for_a_person, for_programs)


def test_a_table_without_rows_is_false():
    assert not Table("Tea", ["kind"], [RowGroup([], "green")])
    table = Table(
        "Tea", ["kind"], [RowGroup([["sencha"]], "green"), RowGroup([["assam"]], "black")]
    )
    assert table
    assert list(table.rows) == [["sencha"], ["assam"]]
