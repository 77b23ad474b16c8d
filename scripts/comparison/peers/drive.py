"""Ask one peer, in its own environment, and measure this process; only the peer is imported.

Usage: python drive.py PEER index|open SKILLS QUERIES ANSWERS

``index`` makes the index, ``open`` opens it. QUERIES are JSON lines with id and text, maybe none.
ANSWERS is written: an answer for each, and CPU seconds and peak memory of the process.
"""

import json
import os
import re
import resource
import sys
import time
from pathlib import Path

import adapters

MB = 1024


def peak_mb():
    """Return the peak memory of this program, or of a child of it; not of what started it."""
    own = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return max(int(own[1]), children) / MB


def main():
    """Ask everything."""
    peer, mode, skills, queries, answers = sys.argv[1:]
    search = getattr(adapters, peer)(Path(skills), mode == "index")
    rows = []
    for line in Path(queries).read_text("utf-8").splitlines():
        query = json.loads(line)
        started = time.process_time()
        hits, fits, named = search(query["text"])
        cpu_ms = 1000 * (time.process_time() - started)
        rows.append(
            {"id": query["id"], "hits": hits, "fits": fits, "named": named, "cpu_ms": cpu_ms}
        )
    times = os.times()
    cpu_s = time.process_time() + times.children_user + times.children_system
    report = {"cpu_s": cpu_s, "rss_mb": peak_mb(), "rows": rows}
    Path(answers).write_text(json.dumps(report), "utf-8")


if __name__ == "__main__":
    main()
