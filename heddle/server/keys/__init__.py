"""API keys: who may ask this server for what, for which tenant, and how much."""
