"""Four ways to offer skills to an agent, each under names of its own, all over one library."""
