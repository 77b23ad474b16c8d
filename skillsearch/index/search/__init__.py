"""Searching: a request, its candidates, their scores, and the answer."""
