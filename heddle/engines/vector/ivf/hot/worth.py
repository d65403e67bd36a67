"""Whether a sub-stage gains by using the device, from measured times. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from heddle.costs.linear_fit import LinearFit

HOST_PRIOR_S: Final[Mapping[str, float]] = MappingProxyType(
    {"call": 2e-5, "lists": 1.5e-6, "vectors": 1.2e-7}
)
DEVICE_PRIOR_S: Final[Mapping[str, float]] = MappingProxyType({"call": 1e-2, "vectors": 1e-6})
"""Seconds for a call, a list of a query, and a vector compared with a query, before anything is
measured. The device's are far too high: a fit comes down from there with its first probe, and
would be slow to come up."""
FORGETTING: Final = 0.98
HOST_EVERY_SCAN_UNTIL, HOST_EVERY = 64, 8  # learning takes time too
PROBE_GAP_MAX: Final = 16  # swaps between two probes: rare, but its fit needs some to see a change


class Worth:
    """Compares the time of lists on the host with that of having the device scan them.

    The device's cost is what the sub-stage spends on it: packing, launching, waiting for what
    isn't there yet when the host is done, and merging. So work that the host overlaps is free.
    A device that doesn't pay is tried again after a swap, then after two, four and so on: what
    else runs on it may have ended.
    """

    def __init__(self) -> None:
        self._host = LinearFit("host", HOST_PRIOR_S, FORGETTING)
        self._device = LinearFit("device", DEVICE_PRIOR_S, FORGETTING)
        self._host_scans = 0
        self._probe_gap = self._swaps_left = 1

    def swapped(self) -> None:
        """Note that other lists may be on the device from now on."""
        self._swaps_left -= 1

    def uses_device(self, lists: int, vectors: int) -> bool:
        """Whether the device is to scan these: because that pays, or to find out whether it does.

        `vectors` counts pairs of a query and a vector, `lists` those of a query and a list.
        """
        if self._pays(lists, vectors):
            self._probe_gap = self._swaps_left = 1
            return True
        if self._swaps_left > 0:
            return False
        self._probe_gap = self._swaps_left = min(2 * self._probe_gap, PROBE_GAP_MAX)
        return True

    def saw_host(self, lists: int, vectors: int, seconds: float) -> None:
        """Learn from a scan on the host."""
        self._host_scans += 1
        if self._host_scans > HOST_EVERY_SCAN_UNTIL and self._host_scans % HOST_EVERY:
            return
        features = {"call": 1.0, "lists": float(lists), "vectors": float(vectors)}
        self._host.observe(features, seconds)

    def saw_device(self, vectors: int, seconds: float) -> None:
        """Learn from what a sub-stage spent on the device."""
        self._device.observe({"call": 1.0, "vectors": float(vectors)}, seconds)

    def _pays(self, lists: int, vectors: int) -> bool:
        """Whether the host needs longer for these lists than the device costs."""
        host_s = self._host.predict_s({"lists": lists, "vectors": vectors})
        return host_s > self._device.predict_s({"call": 1.0, "vectors": vectors})
