"""A background process that keeps embedder and indexes open; used if it runs, never required."""
