"""A process that keeps embedder and indexes warm: used when it runs, never required."""
