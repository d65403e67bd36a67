"""Each cluster brings its vectors to light when it is its turn."""

import numpy as np

from benchmarks.support.scan_in_turns import scan_in_turns
from heddle.engines.vector.locality.scans import FAR


def test_what_each_turn_brings_to_light():
    distances = np.array([0.5, 0.2, 0.9, 0.1, 0.3, 0.4], np.float32)
    turn = np.array([1, 3, 1, 0, 2, 3])
    kth, found = scan_in_turns(distances, turn, 3, 3)
    assert found.tolist() == [1, 1, 2, 3]  # the final three are 0.1, 0.2 and 0.3
    np.testing.assert_allclose(kth, [FAR, 0.9, 0.5, 0.3], rtol=1e-6)
