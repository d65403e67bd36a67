"""Fits and predictions: pure arithmetic over measured step times."""
