"""Prompts of one operation are attended to as each by itself."""

import torch
from multihop_training.attention import attended


def test_prompts_of_one_operation_do_not_see_each_other():
    torch.manual_seed(0)
    lengths = (5, 17, 11)
    queries = [torch.randn(6, length, 8) for length in lengths]
    keys, values = ([torch.randn(2, length, 8) for length in lengths] for _ in range(2))
    alone = attended(queries, keys, values, at_once=False)
    assert alone.shape == (6, sum(lengths), 8)
    torch.testing.assert_close(attended(queries, keys, values, at_once=True), alone)
