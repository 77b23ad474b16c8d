"""One model of reports, and what shows it: blocks for a terminal, a page or other programs."""
