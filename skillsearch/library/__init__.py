"""The skills of an environment: found by name, loaded on demand."""
