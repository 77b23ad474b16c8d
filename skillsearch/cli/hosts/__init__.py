"""Hosts of agents: what makes each one use our server and hook, and the files that say so."""
