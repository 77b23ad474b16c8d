"""Tests of what is said on the way to an answer."""

from skillsearch.cli import output


def test_a_long_run_without_a_terminal_says_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    with output.progress_bars() as tell:
        tell("embed", 1, 3_000)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(output, "SILENT_SECONDS", 0.0)
    with output.progress_bars() as tell:
        tell("embed", 1_200, 3_000)
    assert capsys.readouterr().err == "Embedding texts: 1,200 of 3,000\n"
