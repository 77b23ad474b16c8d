"""What attackers write, where they stand, and what they gain."""
