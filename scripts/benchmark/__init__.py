"""What a benchmark is made of: corpora, measures, rivals, rows and plots."""
