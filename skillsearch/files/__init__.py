"""Files and folders: paths that came from outside, atomic writes, arrays on disk."""
