"""The parts of `heddle bench workflows`: the load, the contenders, and how they are compared."""
