"""What searching learns from use: a log on this machine, what it says for a skill, and a report."""
