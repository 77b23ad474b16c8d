"""Embedders: from the name of a model to unit vectors."""
