"""What an agent calls: tools with typed arguments, their definitions, and one safe edge."""
