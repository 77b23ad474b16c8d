"""``python -m skillsearch.daemon``."""

from skillsearch.daemon.server import main

main()
