"""The cost of skills in a prompt: each level measured, and the cuts of each host in a listing."""
