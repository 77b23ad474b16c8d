"""Files and folders: paths from outside, links refused, atomic writes, arrays on disk."""
