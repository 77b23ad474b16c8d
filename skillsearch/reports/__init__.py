"""The health of an installation, an index, skill folders and the cache, as plain data."""
