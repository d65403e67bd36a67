"""Several lanes behind one port: which lane prefills, which decodes, and the KV between them."""
