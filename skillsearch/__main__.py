"""``python -m skillsearch``."""

from skillsearch.cli import main

main()
