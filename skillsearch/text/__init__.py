"""Text: languages and scripts, terms, Markdown, and what is safe to show."""
