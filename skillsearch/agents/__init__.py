"""What agents use: tools, toolsets, sessions, the prompt, and integrations."""
