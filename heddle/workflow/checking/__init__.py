"""What the builders of workflows refuse."""
