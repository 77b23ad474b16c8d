"""The collection in a browser: search, skills, families, map, hosts, health and reports."""
