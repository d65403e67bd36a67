"""The memory of a process: left out of collections once it has started, given back at rest."""
