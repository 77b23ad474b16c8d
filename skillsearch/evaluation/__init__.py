"""Offline quality: judged collections, measures, comparison of systems, and calibration.

Systems are measured by their answers: rankings of document ids with scores. Only `answering`,
`judged_index` and `own_skills` know the index.
"""
