"""Hosts of agents: where each looks for skills, what it lists, how it is made to use us."""
