"""A corpus as rows of tables: statements that every database runs alike."""
