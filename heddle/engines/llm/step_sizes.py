"""How long a step is where neither the user nor a measurement says. Read by settings, too."""

from typing import Final

STEP_TOKENS: Final = 512
BACKGROUND_STEP_S: Final = 0.25  # as long as a query waits for a step without any
