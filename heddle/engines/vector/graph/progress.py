"""How far the build of a graph is."""

from collections.abc import Callable

OnPhase = Callable[[str, int, int], None]
"""Hears the phase of a build (clusters, neighbours, edges) and its rows done, of how many."""
