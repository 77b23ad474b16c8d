"""Archives and URLs as roots, unpacked into the user's cache."""
