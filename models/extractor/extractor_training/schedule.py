"""The learning rate: a short rise, a plateau, a fall to nothing at the planned end."""

WARM_UP_STEPS = 150
FALLING_SHARE = 0.4  # of all steps


def learning_rate_share(step: int, n_steps: int, warm_up_steps: int = WARM_UP_STEPS) -> float:
    """The part of the highest rate that a step takes, in [0, 1].

    The plateau lets a run be made longer or shorter while it is on it, and go on as if planned so.
    """
    rising = (step + 1) / warm_up_steps
    falling = (n_steps - step) / (FALLING_SHARE * n_steps)
    return max(0.0, min(1.0, rising, falling))
