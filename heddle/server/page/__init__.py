"""The page at /: its files, and the routes that only a page needs."""
