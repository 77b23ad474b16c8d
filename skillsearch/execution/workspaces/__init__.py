"""The folder that a command works in: what is put into it, and what is kept of it."""
