"""Commands for authors of skills: check, explain, improve and measure them."""
