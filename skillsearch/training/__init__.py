"""Tuning of an embedder on skills: texts in, pairs, batches, a model folder out.

Reads nothing from a network. `phrases`, `queries`, `groups` and `batches` are pure; `contrastive`
alone knows torch.
"""
