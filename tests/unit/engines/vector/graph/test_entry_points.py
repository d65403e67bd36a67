"""Entry points in groups: each once, beside its like."""

import numpy as np

from heddle.engines.vector.graph.entry_points import entry_points


def test_every_entry_point_is_in_the_group_of_its_nearest_centre(tools):
    vectors = tools.clustered(400).astype(np.float16)
    nodes = np.random.default_rng(1).permutation(400)[:90].astype(np.int32)
    grouped = entry_points(nodes, vectors.view(np.uint16))
    assert sorted(grouped.nodes.tolist()) == sorted(nodes.tolist())
    np.testing.assert_array_equal(grouped.vectors, vectors.view(np.uint16)[grouped.nodes])
    centres = grouped.centres.view(np.float16).astype(np.float32)
    assert len(centres) == len(grouped.starts) - 1 == 9
    assert (grouped.starts[0], grouped.starts[-1]) == (0, 90)
    group_of = np.repeat(np.arange(9), np.diff(grouped.starts))
    wide = grouped.vectors.view(np.float16).astype(np.float32)
    distances = ((wide[:, None] - centres[None]) ** 2).sum(-1)
    mine = distances[np.arange(90), group_of]
    np.testing.assert_allclose(mine, distances.min(axis=1), atol=1e-2)


def test_without_entry_points_there_are_no_groups():
    empty = entry_points(np.zeros(0, np.int32), np.zeros((0, 4), np.uint16))
    assert (len(empty.nodes), empty.starts.tolist(), len(empty.centres)) == (0, [0], 0)
