"""Agentic Resource Discovery: skills as entries that search services and websites exchange."""
