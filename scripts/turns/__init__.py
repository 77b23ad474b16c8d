"""Turns of an agent with a library of skills: tokens, time, and the right skill."""
