"""The parts of a day with a GPU; `python -m tools.gpu_day` runs them. (docs/development/gpu-day.md)

A part is a function of a place and of what takes its rows; it returns a flat headline. Interpreted,
the same code computes small sizes on the CPU, and Triton's kernels run in its interpreter.
"""
