"""The model on its device: what a step computes, layer by layer, and the tokens it draws."""
