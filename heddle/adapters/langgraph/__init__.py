"""LangGraph's graphs under `heddle.wrap`."""
