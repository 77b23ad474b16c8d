"""Offline quality: judged collections, measures, comparison of systems, and calibration.

Systems are measured by their answers: rankings of document ids with scores. Only `searching` and
`judged_index` know the index.
"""
