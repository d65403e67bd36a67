"""Files that clients have sent, and vector stores: named sets of them that are searched."""
