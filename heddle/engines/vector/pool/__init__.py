"""A pool that serves searches of two stages, prefill and decode, from one set of slots."""
