import random

import pytest
import torch
from training import batches
from training.model import CPU_SHAPE, GPU_SHAPE, new_reader, reader_config
from training.sight_loss import SightLoss
from training.sights import NAMING
from transformers import LlamaForCausalLM

VOCABULARY = 1200
COMMON = list(range(5, 45))  # as many as in training


@pytest.fixture(scope="module")
def reader():
    return new_reader(reader_config(CPU_SHAPE, VOCABULARY, 0, 1, 2), COMMON, seed=3).eval()


def test_an_untrained_reader_already_repeats_what_it_has_seen():
    vocabulary = 9216  # the real one: common tokens, which some heads don't see, are few of it
    reader = new_reader(reader_config(CPU_SHAPE, vocabulary, 0, 1, 2), COMMON, seed=3).eval()
    rows = [batches.copy_row(random.Random(seed), vocabulary, 40) for seed in range(6)]
    right = total = 0
    with torch.no_grad():
        for row in rows:
            best = reader(torch.tensor([row.ids])).logits[0].argmax(-1)
            at = [i for _, first, end in row.replies for i in range(first, end)]
            right += sum(int(best[i - 1]) == row.ids[i] for i in at)
            total += len(at)
    assert right / total > 0.8


def test_what_a_naming_head_carries_is_a_good_part_of_what_is_there(reader):
    seen = {}
    for layer, _ in NAMING:
        reader.model.layers[layer].register_forward_pre_hook(
            lambda _, args, layer=layer: seen.__setitem__(layer, args[0][0])
        )
    with torch.no_grad():
        reader(torch.arange(100, 160)[None])
        for layer, head in NAMING:
            block = reader.model.layers[layer]
            rows = slice(head * block.self_attn.head_dim, (head + 1) * block.self_attn.head_dim)
            carried = block.input_layernorm(seen[layer]) @ block.self_attn.v_proj.weight[rows].T
            written = carried @ block.self_attn.o_proj.weight[:, rows].T
            share = written.norm(dim=-1) / seen[layer].norm(dim=-1)
            assert share.mean() > 0.3


def test_the_same_seed_gives_the_same_reader(reader):
    again = new_reader(reader.config, COMMON, seed=3)
    other = new_reader(reader.config, COMMON, seed=4)
    tokens = torch.arange(5, 45)[None]
    with torch.no_grad():
        assert torch.equal(reader(tokens).logits, again.eval()(tokens).logits)
        assert not torch.equal(reader(tokens).logits, other.eval()(tokens).logits)


def test_both_shapes_hold_between_five_and_nineteen_million_parameters():
    for shape in (CPU_SHAPE, GPU_SHAPE):
        with torch.device("meta"):
            model = LlamaForCausalLM(reader_config(shape, 9216, 0, 1, 2))
        assert 5e6 < sum(p.numel() for p in model.parameters()) < 19e6


def test_padding_does_not_change_the_score(reader):
    rows = [batches.copy_row(random.Random(seed), VOCABULARY, n) for seed, n in ((1, 12), (2, 30))]
    sight, weights = SightLoss(reader), batches.Weights(reading=0.0, sight=0.0)

    def scored(some):
        return batches.score(reader, sight, batches.collate(some, 0), weights, random.Random(0))

    alone = [scored([row]) for row in rows]
    together = scored(rows)
    assert together.right == alone[0].right + alone[1].right


def test_batches_hold_every_row_once_and_stay_within_the_token_limit():
    lengths = [random.Random(i).randint(10, 90) for i in range(32)]
    rows = iter([batches.Encoded([7] * n, []) for n in lengths])
    packed = []
    source = batches.pack(rows, 0, batch_tokens=200, pool=32)
    while sum(len(batch.rows) for batch in packed) < 32:
        packed.append(next(source))
    assert sorted(len(row.ids) for batch in packed for row in batch.rows) == sorted(lengths)
    assert all(batch.ids.numel() <= 200 or len(batch.rows) == 1 for batch in packed)
