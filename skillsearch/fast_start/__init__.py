"""Regular expressions and dataclasses that are compiled at their first use, to start fast."""
