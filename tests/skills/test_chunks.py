"""Bodies taken apart into chunks."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from skillsearch.errors import SkillError
from skillsearch.skills import chunks
from skillsearch.skills.chunks import Chunk, find_chunk, parse_chunks
from skillsearch.types.skills import Skill, SkillMetadata

MEGABYTE = 1 << 20


def codes(body):
    return [(finding.code, finding.line) for finding in parse_chunks(body).findings]


def ids(body):
    return [chunk.id for chunk in parse_chunks(body).chunks]


def test_chunks_are_taken_out_of_a_body():
    body = (
        '# Data\n\nIntro.\n\n<chunk id="load" description="How to load">\n## Load\n\nRead it.\n'
        '</chunk>\n\n<chunk id="plot" description="How to plot">Plot it.</chunk>\n\nEnd.\n'
    )
    parsed = parse_chunks(body)
    assert parsed.core == "# Data\n\nIntro.\n\nEnd."
    assert parsed.chunks == (
        Chunk("load", "How to load", "## Load\n\nRead it."),
        Chunk("plot", "How to plot", "Plot it."),
    )
    assert parsed.findings == ()


@pytest.mark.parametrize(
    "body", ["", " \n# Title\n\n\n\nText.\n ", "chunks of <meat>", "`<chunk id=a>`", "<chunky>x"]
)
def test_a_body_without_chunks_is_its_own_core(body):
    assert parse_chunks(body).core is body
    assert parse_chunks(body).chunks == ()


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ('<chunk id="a b" description="x > y">', ("a b", "x > y")),
        ("<chunk id='a b' description='x > y'>", ("a b", "x > y")),
        ("<chunk description='x > y' id=\"a b\">", ("a b", "x > y")),
        ('<CHUNK ID="a b" Description="x &gt; y">', ("a b", "x > y")),
        ('<chunk\n  id = "a b"\n\tdescription="x\n&#62;&#32;y"\n>', ("a b", "x > y")),
        ('<chunk id="a b"description="x > y" lang=en hidden>', ("a b", "x > y")),
        ('<chunk id="a b" id="c" description="x > y" description="z">', ("a b", "x > y")),
        ('<chunk id="a\x00\u200b \t b" description="\x1b x &gt; &#xA;y\u202e ">', ("a b", "x > y")),
        ("<chunk id=load-1 description=How>", ("load-1", "How")),
        ("<chunk id=a/b description=c/>", ("a/b", "c")),
        ("<chunk id= a description = b >", ("a", "b")),
        ("<chunk id=&amp; description='&#0;&bogus;'>", ("&", "\ufffd&bogus;")),
        ("<chunk id='\u00e4\u6570' description='\ud800'>", ("\u00e4\u6570", "\ufffd")),
    ],
)
def test_attributes_come_in_any_order_and_quoting(tag, expected):
    content = "" if tag.endswith("/>") else "text"
    assert parse_chunks(f"{tag}text</chunk>").chunks == (Chunk(*expected, content),)


@pytest.mark.parametrize(
    "tag", ['<chunk id="a>', "<chunk id=a", "<chunk id='a\n\nb'>", '<chunk "a">', "<chunk =a>"]
)
def test_what_is_no_tag_is_text(tag):
    body = f"{tag}\n\ntext\n\n<chunk id=b description=c>more</chunk>"
    assert parse_chunks(body).core == f"{tag}\n\ntext"
    assert ids(body) == ["b"]


def test_long_ids_and_descriptions_are_cut():
    (chunk,) = parse_chunks(f"<chunk id={'a' * 500} description={'b ' * 5_00}>x</chunk>").chunks
    assert chunk.id == "a" * 199 + "…"
    (chunk,) = parse_chunks(f"<chunk id=a description='{'b' * 2_000}'>x</chunk>").chunks
    assert chunk.description == "b" * 1_023 + "…"


@pytest.mark.parametrize(
    "body",
    [
        "```xml\n<chunk id=a>\nx\n</chunk>\n```", "~~~\n<chunk id=a>x</chunk>",
        "Write `<chunk id=a>` and `</chunk>`.", "Write `` ` <chunk id=a> `` only.",
        "Over `two\n<chunk id=a>\nlines`.", "- item\n    ```\n    <chunk id=a>\n    ```",
        r"Write \<chunk id=a> so.",
    ],
)  # fmt: skip
def test_code_is_no_markup(body):
    assert parse_chunks(body).core is body
    assert codes(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "One ` and <chunk id=a description=d>x</chunk>",
        "One ` here.\n\n<chunk id=a description=d>x</chunk> and ` there",
        "`` one ` <chunk id=a description=d>x</chunk>",
        r"\` <chunk id=a description=d>x</chunk> `",
        r"\\<chunk id=a description=d>x</chunk>",
        "`a\\` <chunk id=a description=d>x</chunk> `b`",
        "<chunk id=a description='the `'>x</chunk> ` it",
        "```\ncode\n```\n<chunk id=a description=d>x</chunk>",
    ],
)
def test_what_only_looks_like_code_hides_no_chunk(body):
    """A span needs two runs of as many backticks in one paragraph."""
    assert [chunk.content for chunk in parse_chunks(body).chunks] == ["x"]


SPANS = MarkdownIt("commonmark")
FRAGMENTS = st.sampled_from(
    ["`", "``", "\\", "a", " ", "<chunk id=a>", "</chunk>", '<chunk id="`">', "<chunk", "&lt;"]
)


@given(st.lists(FRAGMENTS, max_size=12).map("".join))
def test_the_tags_are_those_of_another_parser(text):
    text = f"x {text} x"
    inline = SPANS.parse(text)[1].children
    tags = [token.content for token in inline if token.type == "html_inline"]
    depth = strays = 0
    for tag in tags:
        strays += tag == "</chunk>" and not depth
        depth = max(depth + (-1 if tag == "</chunk>" else 1), 0)
    parsed = parse_chunks(text)
    assert len(parsed.chunks) == sum(tag != "</chunk>" for tag in tags)
    counts = Counter(finding.code for finding in parsed.findings)
    assert (counts["chunk-stray-end"], counts["chunk-unclosed"]) == (strays, depth)


def test_a_chunk_in_another_is_one_of_its_own_but_not_in_a_fence():
    body = (
        "top\n<chunk id=a description=1>\none\n\n<chunk id=b description=2>two</chunk>\n\n"
        "three\n<chunk id=c description=3>four</chunk></chunk>\nend"
    )
    parsed = parse_chunks(body)
    contents = [(chunk.id, chunk.content) for chunk in parsed.chunks]
    assert contents == [("a", "one\n\nthree"), ("b", "two"), ("c", "four")]
    assert (parsed.core, parsed.findings) == ("top\n\nend", ())
    body = "<chunk id=a description=d>\n```\n</chunk>\n<chunk>\n```\n</chunk>\nrest"
    assert parse_chunks(body).chunks == (Chunk("a", "d", "```\n</chunk>\n<chunk>\n```"),)
    assert parse_chunks(body).core == "rest"


def test_an_unclosed_chunk_goes_on_to_the_end():
    body = "top\n\n<chunk id=a description=1>\none\n<chunk id=b description=2>\ntwo\n"
    assert parse_chunks(body).chunks == (Chunk("a", "1", "one"), Chunk("b", "2", "two"))
    assert parse_chunks(body).core == "top"
    assert codes(body) == [("chunk-unclosed", 3), ("chunk-unclosed", 5)]


def test_an_end_that_ends_nothing_stays_text():
    body = "a</chunk>\n<chunk id=a description=d>x</chunk>\nb</chunk>"
    assert parse_chunks(body).core == "a</chunk>\n\nb</chunk>"
    assert codes(body) == [("chunk-stray-end", 1), ("chunk-stray-end", 3)]
    assert parse_chunks("a\n</chunk >").core == "a\n</chunk >"
    assert codes("a\n</chunk >") == [("chunk-stray-end", 2)]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["a", "a", "a"], ["a", "a-2", "a-3"]),
        (["a", "a", "a-2"], ["a", "a-3", "a-2"]),
        (["a", "A"], ["a", "A"]),
        (["a-2", "a-2", "a", "a"], ["a-2", "a-2-2", "a", "a-3"]),
        (["", "", "x"], ["chunk-1", "chunk-2", "x"]),
        (["", "chunk-1", "chunk-1"], ["chunk-1-2", "chunk-1", "chunk-1-3"]),
    ],
)
def test_ids_are_made_unique(written, expected):
    body = "".join(f"<chunk id='{chunk_id}' description=d>x</chunk>" for chunk_id in written)
    assert ids(body) == expected


def test_each_fault_is_reported_with_its_line():
    body = (
        "<chunk id=a description=d>x</chunk>\n<chunk id=a description=d>x</chunk>\n"
        "<chunk description=d>x</chunk>\n<chunk id=' ' description=''>x</chunk>\n"
        "<chunk id=e description=d/>\n<chunk id=f description=d>\n\n</chunk>\n"
    )
    parsed = parse_chunks(body)
    expected = [
        ("duplicate-id", 2, "a-2"),
        ("missing-id", 3, "chunk-3"),
        ("missing-id", 4, "chunk-4"),
        ("missing-description", 4, "chunk-4"),
        ("empty", 5, "e"),
        ("empty", 6, "f"),
    ]
    for finding, (code, line, name) in zip(parsed.findings, expected, strict=True):
        assert (finding.code, finding.line) == (f"chunk-{code}", line)
        assert f"'{name}'" in finding.message
        assert finding.severity == "warning"
    assert parsed.chunks[4:] == (Chunk("e", "d", ""), Chunk("f", "d", ""))


def test_of_very_many_findings_the_first_are_listed():
    findings = parse_chunks("</chunk>\n" * 60).findings
    assert [finding.line for finding in findings] == list(range(1, 51))
    assert findings[-1].message.endswith("Not listed: 10 more problems with chunks.")


@pytest.mark.parametrize(
    ("body", "core"),
    [
        ("a\n\n{}\n\nb", "a\n\nb"),
        ("a\n{}\nb", "a\n\nb"),
        ("a {} b", "a  b"),
        ("a{}\nb", "a\nb"),
        ("a\n\n\n{}\n\n{}\n\n\n    b", "a\n\n    b"),
        ("a\n\n\n\nb\n{}", "a\n\n\n\nb"),
        ("{}\n\na\n", "a"),
        ("{}", ""),
    ],
)
def test_what_a_removal_leaves_is_one_blank_line_at_most(body, core):
    assert parse_chunks(body.replace("{}", "<chunk id=a>x</chunk>")).core == core


TREES = st.recursive(
    st.just(None), lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=12
)
GAPS = st.sampled_from([" ", "\n", "\n\n", "\n\n\n  "])


@st.composite
def nested(draw):
    """Write a body of words and nested chunks; return it and the words of the core and each."""
    words = [[]]
    parts = []

    def write(node, owner):
        if node is None:
            words[owner].append(f"w{len(parts)}")
            parts.append(f"{draw(GAPS)}{words[owner][-1]}{draw(GAPS)}")
            return
        words.append([])
        mine = len(words) - 1
        parts.append(f"<chunk id=c{mine} description=d>")
        for child in node:
            write(child, mine)
        parts.append("</chunk>")

    for node in draw(st.lists(TREES, max_size=4)):
        write(node, 0)
    return "".join(parts), words


@given(nested())
def test_every_word_is_in_the_innermost_chunk_around_it(example):
    body, words = example
    parsed = parse_chunks(body)
    assert [text.split() for text in (parsed.core, *(c.content for c in parsed.chunks))] == words
    assert {finding.code for finding in parsed.findings} <= {"chunk-empty"}


SOUP = st.lists(
    st.sampled_from(
        "word <chunk> <chunk/> </chunk> <chunk\nid=a> <chunk\tid='b'\tdescription=c> \n \n\n <chunk"
        " `` \\ \u2028".split(" ")
    )
    | st.text(max_size=3),
    max_size=30,
)


@given(SOUP.map(" ".join))
def test_no_text_is_lost_whatever_the_markup(body):
    parsed = parse_chunks(body)
    parts = (parsed.core, *(chunk.content for chunk in parsed.chunks))
    tags = (tag[0] for tag in chunks._tags(body))
    assert sum(part.count("word") for part in (*parts, *tags)) == body.count("word")
    names = [chunk.id for chunk in parsed.chunks]
    assert len(set(names)) == len(names)
    for name in names:
        assert name == " ".join(name.split()) != ""


@pytest.mark.parametrize(
    "unit",
    [
        "<chunk", "<chunk ", "<chunk id=", "<chunk a a ", '<chunk id="', "<chunk a=\"' b='",
        "<chunk a=\" b=' ", "</chunk ", "</chunk>", "<chunk/>", "<chunk id=a>", "`", "` ",
        "`` ` ```\n", "\\", "\\`", "\n", "```\n",
    ],
)  # fmt: skip
@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_hostile_body_takes_linear_time(unit):
    body = "<chunk id=a>" + unit * (MEGABYTE // 4 // len(unit))
    parse_chunks(body)


@pytest.mark.slow
def test_chunks_nest_as_deep_as_they_like():
    depth = 100_000
    parsed = parse_chunks("<chunk>x" * depth + "</chunk>" * depth)
    assert len(parsed.chunks) == depth
    assert {chunk.content for chunk in parsed.chunks} == {"x"}


def make(body):
    folder = Path("/skills/tea")
    return Skill("skills:tea", SkillMetadata("tea", "d"), body, folder / "SKILL.md", folder, "0")


def test_a_chunk_is_found_by_its_id_and_an_unknown_id_gets_those_that_there_are():
    skill = make("<chunk id=a>x</chunk><chunk id=a>y</chunk>")
    assert find_chunk(skill, "a-2").content == "y"
    many = make("".join(f"<chunk id=c{n}>x</chunk>" for n in range(13)))
    with pytest.raises(
        SkillError, match=r"'tea' has no chunk 'C0'; .* of its 13, .*: c0, .*, c9\.$"
    ):
        find_chunk(many, "C0")
    with pytest.raises(SkillError, match=r"ask for one of: a\.$"):
        find_chunk(make("<chunk id=a>x</chunk>"), "b")
    with pytest.raises(SkillError, match="no chunks at all"):
        find_chunk(make("text"), "b")
