"""How a server is put together: the lanes it has, their cores and bytes, the embedding pool."""
