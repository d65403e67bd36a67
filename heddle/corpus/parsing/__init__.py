"""Files become documents: one file here for each format."""
