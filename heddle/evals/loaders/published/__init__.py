"""The files in which the data sets of the papers are published, one set or shape a module."""
