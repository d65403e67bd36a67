"""The parts of `heddle bench speculation`: recorded searches, a virtual world, rival policies."""
