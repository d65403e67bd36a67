"""Search in inverted lists, sub-stage by sub-stage."""
