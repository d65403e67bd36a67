"""What benchmarks share: data, cache, the prepared index, the baselines' environment."""
