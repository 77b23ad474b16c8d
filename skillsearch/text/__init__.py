"""Text: languages and scripts, terms, Markdown, and text that is safe to show."""
