"""Heat: how often something is used, counted with exponential decay, as one number."""

import math

COLD = -math.inf  # never used


def warmed(heat: float, now: float, half_life: float) -> float:
    """Return the heat after one more use now, by any clock that `half_life` is of as well.

    Heat is log2 of the decayed use count, with the decay written on the clock: a use at time t
    counts 2^(t / half_life). The order of two heats then never changes while neither is used, so
    nothing has to be decayed when they are compared.
    """
    age = now / half_life
    return age + math.log1p(2.0 ** (heat - age)) / math.log(2)


def uses(heat: float, now: float, half_life: float) -> float:
    """Return the decayed number of uses that a heat stands for now."""
    return float(2.0 ** (heat - now / half_life))
