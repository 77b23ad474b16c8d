"""Offline quality: judged collections, measures, comparison of systems, and calibration.

What is measured is answers: rankings of document ids with scores, by whatever system. Only
`searching` knows the index.
"""
