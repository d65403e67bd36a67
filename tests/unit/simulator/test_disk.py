"""The simulated disk keeps the chunks that were written, and fails as disks do."""

import errno
import random

import pytest

from heddle.simulator.disk import Disk
from heddle.simulator.faults import DISK_FAULTS, FaultRates, FaultSource


def failing(**rates):
    return Disk(FaultSource(FaultRates(**rates), random.Random(1), DISK_FAULTS), {1, 2})


def test_a_reliable_disk_keeps_what_was_written():
    disk = Disk()
    disk.write([3, 4])
    assert disk.stored == {3, 4}


@pytest.mark.parametrize(
    ("fault", "code", "kept"),
    [
        ("disk_full", errno.ENOSPC, {1, 2}),
        ("disk_error", errno.EIO, {1, 2}),
        ("torn_write", errno.EIO, {1, 2, 3}),
    ],
)
def test_a_write_that_fails_says_so(fault, code, kept):
    disk = failing(**{fault: 1.0})
    with pytest.raises(OSError) as caught:
        disk.write([3, 4])
    assert caught.value.errno == code
    assert disk.stored == kept


def test_rot_takes_a_chunk_that_was_written_earlier_until_it_is_written_again():
    disk = failing(bit_rot=1.0)
    disk.write([3])
    [rotten] = disk.rotten
    assert rotten in {1, 2}
    assert disk.stored == {1, 2, 3} - {rotten}
    disk.faults = Disk().faults
    disk.write([rotten])
    assert not disk.rotten
