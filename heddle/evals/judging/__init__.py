"""A judge model that says which statements of an answer its passages support."""
