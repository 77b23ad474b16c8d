"""Checks of the MCP server: hosts, a model of the protocol, tools."""
