"""Pieces of HTML."""

from pathlib import Path

import pytest

from skillsearch.rendering.blocks import Cell, RowGroup, Table
from skillsearch.rendering.html_page import load_templates, text

TEMPLATES = load_templates(Path(__file__).parent)
PIECES = TEMPLATES.get_template("blocks.html").module
cell, figures, table = PIECES.cell, PIECES.figures, PIECES.table


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("tea & <b>cake</b>", "tea &amp; &lt;b&gt;cake&lt;/b&gt;"),
        ("\"x\" 'y'", "&quot;x&quot; &#x27;y&#x27;"),
        ("one\n two\x00\u202e", "one two"),
        ("", ""),
    ],
)
def test_text_is_shown_and_does_nothing(value, shown):
    assert text(value) == f"<bdi>{shown}</bdi>"


def test_text_is_cut_before_it_is_escaped():
    assert text("&" * 10, 3) == "<bdi>&amp;&amp;…</bdi>"
    assert len(text("x" * 10_000)) == 5_000 + len("<bdi></bdi>")


def test_cells_have_dashes_for_hyphens_and_a_second_line():
    assert cell("-3.2") == "<td>&ndash;3.2</td>"
    assert cell("<0.001") == "<td>&lt;0.001</td>"
    shown = "<td><b>84.3</b><small>81&ndash;87</small></td>"
    assert cell(Cell("84.3", "81-87", is_best=True)) == shown


def test_a_table_names_columns_rows_and_groups():
    html = table(
        Table("Tea", ["kind", "price"], [RowGroup([("black", "2")]), RowGroup([], "rare")])
    )
    assert html == (
        '<div class="scroll" role="group" tabindex="0" aria-label="Tea">\n<table>\n'
        '<caption>Tea</caption>\n<thead><tr><th scope="col"><bdi>kind</bdi></th>'
        '<th scope="col"><bdi>price</bdi></th></tr></thead>\n'
        '<tbody>\n<tr><th scope="row"><bdi>black</bdi></th><td data-label="price">2</td></tr>\n'
        "</tbody>\n"
        '<tbody>\n<tr><th class="group" colspan="2" scope="rowgroup"><bdi>rare</bdi></th></tr>\n'
        "</tbody>"
        "\n</table>\n</div>"
    )


def test_text_in_a_table_is_escaped_and_rows_can_lead_to_sections():
    rows = [(Cell("<a>", link="#c0"), Cell("<b>", "<i>")), ("more", "<u>")]
    html = table(Table("Tea", ["<p>", '"<s>'], [RowGroup(rows, "<q>")]))
    assert not any(f"<{tag}>" in html for tag in "abipqsu")
    assert html.count("&lt;") == 9
    assert html.count('data-label="&#34;&lt;s&gt;"') == 2
    assert '<a href="#c0"><bdi>&lt;a&gt;</bdi></a>' in html
    assert html.count("<a ") == 1


def test_details_are_closed_unless_asked_for():
    call = (
        '{%% from "blocks.html" import details %%}{%% call details("more"%s) %%}text{%% endcall %%}'
    )
    shut, wide = (TEMPLATES.from_string(call % more).render() for more in ("", ", is_open=true"))
    assert shut.startswith("<details>\n<summary>more</summary>\ntext")
    assert wide.startswith("<details open>")


def test_plots_that_there_are_not_leave_no_trace():
    assert figures([(None, "nothing"), ("<svg></svg>", "this")]).count("<figure>") == 1
    assert figures([(None, "nothing")]) == ""
