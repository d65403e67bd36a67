"""The command line: turns arguments into calls, and results into text."""
