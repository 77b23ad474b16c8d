"""Toolsets that offer one library under the names of other systems, a module for each system."""
