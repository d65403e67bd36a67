"""A corpus in a PostgreSQL database, in a schema of its own. (docs/guide/postgresql.md)"""
