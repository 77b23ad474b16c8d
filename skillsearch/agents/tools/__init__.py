"""Tools for agents: what a tool is, how a host calls several, and the default ones."""
