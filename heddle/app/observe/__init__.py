"""What a server counts and reports of itself."""
