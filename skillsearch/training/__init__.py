"""Tuning of an embedder on skills: texts in, a model folder out; nothing is fetched."""
