"""Tuning of an embedder on skills: texts in, pairs, batches, a model folder out.

Nothing is fetched from a network. `queries`, `plan` and the choice of material are pure.
"""
