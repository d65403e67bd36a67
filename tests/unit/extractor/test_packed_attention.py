import torch
from extractor_training.packed_attention import PackedAttention
from torch.nn import functional

LENGTHS, N_HEADS, WIDTH = [5, 1, 8], 4, 32


def plain_attention(projected):
    parts = []
    for rows in projected.split(LENGTHS):
        query, key, value = (
            part.unflatten(1, (N_HEADS, -1)).transpose(0, 1) for part in rows.chunk(3, 1)
        )
        attended = functional.scaled_dot_product_attention(query, key, value)
        parts.append(attended.transpose(0, 1).flatten(1))
    return torch.cat(parts)


def test_values_and_gradients_are_those_of_plain_attention():
    projected = torch.randn(sum(LENGTHS), 3 * WIDTH, requires_grad=True)
    weights = torch.randn(sum(LENGTHS), WIDTH)
    ours = PackedAttention.apply(projected, LENGTHS, N_HEADS)
    (gradient,) = torch.autograd.grad((ours * weights).sum(), projected)
    wanted = plain_attention(projected)
    (wanted_gradient,) = torch.autograd.grad((wanted * weights).sum(), projected)
    torch.testing.assert_close(ours, wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradient, wanted_gradient, atol=1e-5, rtol=1e-5)
