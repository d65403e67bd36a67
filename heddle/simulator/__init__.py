"""The same runtime and engine schedulers on a virtual clock, with faults, from one seed."""
