"""Attention over the lane's KV: plain torch, a compiled C kernel, and Triton on a GPU.

`choice` decides which of the three a worker uses. `context` is what one step hands to every layer,
and `attend`, which the layers call. A file's name begins with its back end: `torch_prompts` and
`torch_decodes`; `compiled_rows` over `heddle.kernels`; `triton_rows` over `triton_kernel`.
`token_store` writes new keys and values, `gathered_keys` reads shared ones, `key_rotation` moves
keys to another position, and `meters` measures what a question attends to.
"""
