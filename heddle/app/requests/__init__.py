"""What a request brings along, checked before it is admitted."""
