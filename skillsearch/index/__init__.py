"""Retrieval: text to terms and vectors, the index, and its search."""
