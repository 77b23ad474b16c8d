"""What an index knows of a skill: its document, names, near-copies, and who selects it."""
