"""docs/reference: pages that are generated from the code, and kept fresh by a test."""
