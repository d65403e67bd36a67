"""The optimizer: one rewrite a file; `runner` holds the order and is the only way to run them."""
