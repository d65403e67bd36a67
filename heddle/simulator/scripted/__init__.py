"""Engines without faults, over devices that take time and follow a script: for benchmarks."""
