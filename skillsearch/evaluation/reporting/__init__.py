"""What an evaluation found: in words, tables, plots and pages, and over time."""
