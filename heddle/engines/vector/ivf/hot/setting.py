"""How much of an index is kept on a device, and on which, as users say it. Pure."""

import re
from dataclasses import dataclass
from typing import Final

from heddle.core.errors import ConfigError

AUTO: Final = "auto"
OFF: Final = "off"
AUTO_SHARE: Final = 0.2  # where the paper's queries find 69 % of their clusters (§3.3)


@dataclass(frozen=True, slots=True)
class HotSettings:
    """The share of the vectors that the device holds, in (0, 1], and its name in torch."""

    share: float
    device: str


def hot_settings(setting: str, *, has_gpu: bool) -> HotSettings | None:
    """Return what `auto`, `off` or `20%` means on a machine; None = no device takes part.

    "auto" keeps AUTO_SHARE where there is a GPU, else nothing. A percentage without a GPU lets
    the host's memory play the device, which only tests gain from.

    Raises:
        ConfigError: it is neither auto, off nor a percentage.
    """
    if setting == OFF or (setting == AUTO and not has_gpu):
        return None
    device = "cuda" if has_gpu else "cpu"
    if setting == AUTO:
        return HotSettings(AUTO_SHARE, device)
    match = re.fullmatch(r"(\d{1,3})%", setting)
    if match is None or not 1 <= int(match[1]) <= 100:
        raise ConfigError(f"hot_clusters: need auto, off or a share such as 20%, got {setting!r}")
    return HotSettings(int(match[1]) / 100, device)
