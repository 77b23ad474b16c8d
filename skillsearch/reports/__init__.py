"""What there is to say about an installation, an index and skill folders, as plain data."""
