"""Thin adapters to agent frameworks, each behind the extra of its name."""
