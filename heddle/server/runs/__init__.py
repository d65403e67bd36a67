"""Runs of programs that drive from outside: whose call a request is, and a run's end."""
