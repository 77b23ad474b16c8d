"""Settings, the variables and folders that they come from, and how their values are read."""
