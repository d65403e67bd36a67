"""Measurements of a server that a plan is made from: `heddle profile --memory`."""
