"""The version of the package, read by what asks for it without the package's own imports."""

__version__ = "1.0.0"
