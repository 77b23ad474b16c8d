"""The Agent Skills format: finding, reading, checking and opening SKILL.md folders."""
