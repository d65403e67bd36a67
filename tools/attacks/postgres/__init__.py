"""A corpus in PostgreSQL whose server restarts, is away, and ends connections in mid-COPY."""
