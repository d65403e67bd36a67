"""Everything that needs a GPU, in order of worth: `python -m tools.gpu_day`.

docs/development/gpu-day.md says how to use it.
"""
