"""The stages of a request as a setting: "1.5,2" is 1.5 generations and 2 searches."""

import math

from heddle.core.errors import ConfigError
from heddle.costs.memory_split import StageMix


def stage_mix_of(text: str) -> StageMix:
    """Return what a text such as "1.5,2" says.

    Raises:
        ConfigError: it isn't two numbers from 0 on, of which one is above 0.
    """
    try:
        mix = StageMix(*map(float, text.split(",")))
    except (TypeError, ValueError):
        mix = StageMix(0.0, 0.0)
    if not any(mix) or not all(0 <= count < math.inf for count in mix):
        raise ConfigError(
            f"stage_mix is {text!r}: name the generations and the searches of a request on "
            "average, from 0 on and not both 0, such as 1.5,2"
        )
    return mix


def stage_mix_text(mix: StageMix) -> str:
    """Return the text of a mix, to three digits."""
    return f"{mix.generations:.3g},{mix.searches:.3g}"
