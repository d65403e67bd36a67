"""Which lane computes on whose cores, and how its threads are placed on them."""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, repeat

from heddle.hosts.lane_spec import LaneSpec
from heddle.hosts.lending.idle_flag import IdleFlag

log = logging.getLogger(__name__)


def with_flags(specs: Sequence[LaneSpec]) -> tuple[list[LaneSpec], list[IdleFlag]]:
    """Return lanes whose lenders and borrowers know a flag, and the flags, which have to be kept.

    A lane borrows from another of these. Where the system has no such memory, none does.
    """
    known = {spec.name: spec for spec in specs}
    lenders = {spec.borrows for spec in specs if spec.borrows and known[spec.borrows].cpus}
    flags = _flags(sorted(lenders))
    found = []
    for spec in specs:
        if flag := flags.get(spec.name):
            spec = replace(spec, idle_flag=flag.path)
        if flag := flags.get(spec.borrows):
            spec = _borrowing(spec, known[spec.borrows].cpus, flag.path)
        found.append(spec)
    return found, list(flags.values())


def _flags(names: Sequence[str]) -> dict[str, IdleFlag]:
    if not hasattr(os, "memfd_create"):  # it is Linux's
        return {}
    try:
        return {name: IdleFlag.make(f"{name}-idle") for name in names}
    except OSError as error:
        log.warning("no cores are lent between lanes, as there is no memory to share: %s", error)
        return {}


def _borrowing(spec: LaneSpec, lent: tuple[int, ...], flag: str) -> LaneSpec:
    """Return a lane that may use these cores, too.

    Where more than its scans borrow, its OpenMP threads have a place each: as many as it has itself
    on any of its cores, the others on those that are lent. All its other threads begin on its own
    cores and stay there.
    """
    spec = replace(spec, borrowed_cpus=lent, borrowed_flag=flag)
    if spec.only_scans_borrow:
        return spec
    places = chain(repeat(spec.cpus, spec.threads), repeat(lent, len(lent)))
    placed = (
        ("OMP_PLACES", ",".join(_place(cpus) for cpus in places)),
        ("OMP_PROC_BIND", "close"),
    )
    return replace(spec, cpus=(*spec.cpus, *lent), environment=(*placed, *spec.environment))


def _place(cpus: Sequence[int]) -> str:
    return "{" + ",".join(map(str, cpus)) + "}"
