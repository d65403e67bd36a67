"""Decides, never computes: stores, wavefront, scheduling, one loop, one clock."""
