"""Models that other servers run, behind the OpenAI-compatible HTTP API."""
