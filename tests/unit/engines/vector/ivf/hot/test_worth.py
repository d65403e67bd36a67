from itertools import pairwise

from heddle.engines.vector.ivf.hot.worth import PROBE_GAP_MAX, Worth


def measured(host_s_per_vector, device_call_s):
    worth = Worth()
    for vectors in (1000, 5000, 2000, 8000, 3000, 6000):
        worth.saw_host(vectors // 100, vectors, host_s_per_vector * vectors)
        worth.saw_device(vectors, device_call_s + 1e-9 * vectors)
    return worth


def test_a_large_share_goes_to_the_device_and_a_small_one_does_not():
    worth = measured(host_s_per_vector=1e-7, device_call_s=3e-4)
    assert worth.uses_device(60, 6000)
    assert not worth.uses_device(10, 1000)


def test_a_device_that_never_pays_is_tried_ever_more_rarely():
    worth = measured(host_s_per_vector=1e-9, device_call_s=3e-3)
    probed = []
    for swap in range(300):
        worth.swapped()
        if worth.uses_device(50, 5000):
            probed.append(swap)
        assert not worth.uses_device(50, 5000), "one sub-stage is enough to find out"
    gaps = [later - earlier for earlier, later in pairwise(probed)]
    assert gaps == [2, 4, 8, *[PROBE_GAP_MAX] * len(gaps)][: len(gaps)]
    assert max(gaps) == PROBE_GAP_MAX


def test_a_device_that_has_become_fast_is_used_again():
    worth = measured(host_s_per_vector=1e-7, device_call_s=0.05)
    assert not worth.uses_device(60, 6000)
    for swap in range(300):
        worth.swapped()
        vectors = 3000 + 1000 * (swap % 7)
        if worth.uses_device(60, vectors):
            worth.saw_device(vectors, 1e-4)
    assert worth.uses_device(60, 6000)
