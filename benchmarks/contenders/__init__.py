"""The same four-step HyDE request under other orchestrators, on the same fake engines.

These modules run in the baselines' environment, so they import nothing of Heddle.
"""
