"""Metrics of one answer, and intervals around means of many."""
