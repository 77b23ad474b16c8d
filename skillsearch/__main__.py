"""``python -m skillsearch``."""

from skillsearch.cli import run_process

run_process()
