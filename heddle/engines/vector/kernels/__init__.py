"""Compiled loops over vectors."""

from heddle.engines.vector.kernels.code_cache import keep_compiled_code

keep_compiled_code()  # before anything here is compiled
