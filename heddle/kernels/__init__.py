"""Kernels in C, compiled once by the machine that runs them; the LLM and the encoders share them.

`compiled_kernel` finds and runs what `compiled_kernel.c` holds: attention of rows over keys that
lie anywhere, norms, gates, and products of few rows, in float32 and, where the CPU multiplies it,
in bfloat16.
`quantized_kernel` has the products with weights of 8 bits, and `kernel_library` compiles, keeps and
loads a library.

`cuda_recorder` launches what a GPU has run once before, kernels of any kind, at once.
"""
