"""Commands for hosts of agents: their entries, their prompts, and the skills that they list."""
