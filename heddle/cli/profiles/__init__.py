"""What `heddle profile` measures beside the embedding lanes."""
