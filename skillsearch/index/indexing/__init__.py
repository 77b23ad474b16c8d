"""Building: what changed on disk, and the generation that follows from it."""
