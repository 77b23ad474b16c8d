"""The version of the package, read by what asks for it without the package's own imports."""

__version__ = "0.1.0"
