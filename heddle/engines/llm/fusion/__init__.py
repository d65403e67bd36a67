"""KV fusion: reused chunks in a prompt, and which of their tokens are computed anew."""
