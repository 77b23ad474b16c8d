"""Thin adapters to frameworks for agents, each behind an extra of its own."""
