"""Roots that are no folders: archives and URLs, unpacked into the user's cache."""
