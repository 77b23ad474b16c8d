"""Commands for a person who looks and types: on the terminal and in the browser."""
