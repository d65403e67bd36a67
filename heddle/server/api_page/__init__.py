"""GET /docs: what the HTTP API takes, as a page that asks for nothing else."""
