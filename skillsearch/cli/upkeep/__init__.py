"""Commands that look after the index, its caches and the daemon."""
