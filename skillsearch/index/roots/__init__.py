"""The roots of an index: those it was built for, those it follows, and where each is seen."""
