"""What pages say of the soaks: servers, indexes and runs under load, in the last night of each."""

from __future__ import annotations

from page_parts.results import last_night

READ = ("readers", "searches")
RUN = ("runs", "callers_killed", "mounts_left")
"""What the results of a night say of readers, and of runs."""


def server() -> str:
    """Return what came of the last night in which ``soak_mcp.py`` ran."""
    figures, date = last_night("mcp")
    calls, errors = (f"{figures[key]:,.0f}" for key in ("calls", "errors"))
    halves = [figures[f"resident_mb.{half}_half"] for half in ("first", "second")]
    return (
        f"{calls} calls, {errors} errors; {halves[0]:.0f} MB in the first half of the time, "
        f"{halves[1]:.0f} MB in the second, {figures['resident_mb.most']:.0f} MB at most "
        f"({date})."
    )


def index() -> str:
    """Return what came of the last nights in which ``soak_index.py`` ran."""
    killed, on = last_night("kills")
    kills = (
        f"{killed['killed']:,.0f} writers were killed at {killed['skills']:,.0f} skills: "
        f"{killed['faults']:,.0f} wrong answers or leftovers ({on})."
    )
    read, on = last_night("readers")
    ways = ("opening anew", "kept open")
    readers, searches = (sum(read[f"{way} {key}"] for way in ways) for key in READ)
    return (
        f"{kills} {readers:.0f} processes made {searches:,.0f} searches at {read['skills']:,.0f} "
        f"skills, while another wrote {read['generations written']:,.0f} generations: "
        f"{read['faults']:,.0f} errors or torn reads ({on})."
    )


def runs() -> str:
    """Return what came of the last night in which ``soak_run.py`` ran."""
    figures, date = last_night("run")
    started, killed, left = (
        sum(value for key, value in figures.items() if key.endswith(f".{end}")) for end in RUN
    )
    texts = (
        f"{started:,.0f} runs",
        f"{killed:,.0f} of their callers killed",
        f"{left:,.0f} mounts left",
    )
    return f"{', '.join(texts)} ({date})."
