"""What the first screen of the project says: a figure for each question of a reader."""

from __future__ import annotations

import answers
import benchmark.report
import markdown_tables

from page_parts.fit import EVERYDAY, OF_SKILLS
from page_parts.results import measured
from skillsearch.embedders.embedder import PACKAGED_MODEL
from skillsearch.evaluation.assess import means
from skillsearch.evaluation.reporting.report import percent

USUAL_SKILLS = 10_000
"""The first screen speaks of the smallest corpus with so many."""
EMBEDDER = ("model.onnx", "model.onnx_data", "words.bin")
READER = ("reader.onnx", "reader.onnx_data")


def figures() -> str:
    """Return what a reader of the first screen asks, a row for each, with its figure."""
    fitted = measured("quality")["collections"]
    ten = means(fitted[name] for name in (*EVERYDAY, *OF_SKILLS))
    nothing = measured("answers")["collections"]["real-nothing"]["unanswerable"]["nothing"]
    real, *_ = measured("compare")["sizes"]["real-nothing"]
    report = measured("bench")
    middle = next(row for row in report["sizes"] if row["skills"] >= USUAL_SKILLS)
    cold = middle["cold_query"]["on"]
    library = measured("end_to_end")["libraries"][1]
    hook, listing = library["ways"]["hook"], library["ways"]["claude-code"]
    mb = {
        part: sum((PACKAGED_MODEL / name).stat().st_size for name in names) / 1e6
        for part, names in {"embed": EMBEDDER, "read": READER}.items()
    }
    rows = (
        (
            "nDCG@10, mean of ten judged collections that the fit never saw",
            f"{percent(ten['read'])}; BM25 alone {percent(ten['bm25'])},"
            f" embeddings alone {percent(ten['dense'])}",
        ),
        (
            "the same for requests in 17 languages, over English skills",
            percent(fitted["requests-languages"]["read"]),
        ),
        (
            f"{nothing['requests']} requests that none of {real:,} real skills fits: those that get"
            " one all the same; those that get an empty list",
            "; ".join(map(answers.in_percent, (nothing["answered"], nothing["none"]["list"]))),
        ),
        (
            f"first answer of a new process, {middle['skills']:,} skills",
            f"{benchmark.report.digits(cold['cpu_s'])} CPU s, {cold['rss_mb']:.0f} MB",
        ),
        (
            f"what the hook adds to a prompt, with {library['skills']:,} skills (it offers the"
            f" right one in {100 * hook['right']['whole']:.0f} % of tasks)",
            f"{hook['tokens']:,.0f} tokens; all names in Claude Code: {listing['tokens']:,.0f}",
        ),
        (
            "models, in the package: no torch, no hub, no network",
            f"{mb['embed']:.0f} MB to embed, {mb['read']:.0f} MB to read",
        ),
    )
    return markdown_tables.text(["what is measured", "figure"], rows)
