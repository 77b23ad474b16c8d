"""The version of the package, read by its build."""

__version__ = "0.1.0"
