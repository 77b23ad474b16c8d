"""Soaks of an index: writers that are killed, readers beside a writer, states on disk."""
