"""The MCP server: search and skills for every agent that speaks the Model Context Protocol."""
