"""A corpus as tools of the Model Context Protocol (MCP), for assistants and editors."""
