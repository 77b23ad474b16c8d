"""The dense side: vectors, channels, and the nearest documents."""
