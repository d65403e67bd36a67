"""Steps whose layers the kernel computes in one call each are those of layers called one by one."""

import numpy as np
import pytest
import torch
from torch import nn

from heddle.engines.llm.attention.compiled_rows import CompiledRows
from heddle.engines.llm.attention.context import AttentionContext
from heddle.engines.llm.attention.key_rotation import PairRotation
from heddle.engines.llm.model import few_token_steps
from heddle.engines.llm.model.few_token_steps import PLANS_MAX, FewTokenSteps
from heddle.engines.llm.model.fused_layers import fuse_layers
from heddle.engines.llm.model.grid import round_to_grid
from heddle.engines.llm.model.packed_linear import pack_linears
from heddle.engines.llm.model.worker import TransformersWorker, kv_shape
from heddle.engines.llm.quantized.panels import Panels
from heddle.engines.llm.quantized.quantized_linear import QuantizedLinear
from heddle.engines.llm.step_batch import BatchRow, Draw, StepBatch
from heddle.kernels.operations import Operations
from heddle.kv.page_store import PageStore
from heddle.kv.rows import SharedKeys, SlotRun
from tests.helpers.row_kernels import row_kernel
from tests.helpers.tiny_models import prompt, tiny_model

SLOTS = 700
SHAPES = {"hidden_size": 96, "num_attention_heads": 6, "intermediate_size": 160}
PACKED, ON_GRID, ON_GRID_EXACT = "packed bfloat16", "grid, bfloat16", "grid, float32"


def put_on_grids(model, kernel):
    """Mutates: the model's layers."""
    for parent in list(model.model.layers.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                grid = round_to_grid(child.weight.detach().float(), name)
                panels = Panels.of(grid)
                setattr(parent, name, QuantizedLinear(panels, child.bias, kernel.quantized))


def model_of(family, kind, **overrides):
    """Return a fused model with weights of a kind, and the kernel that reads them."""
    dtype = torch.float32 if kind == ON_GRID_EXACT else torch.bfloat16
    kernel = row_kernel(dtype)
    model = tiny_model(family, **SHAPES, **overrides).to(dtype)
    fuse_layers(model)
    if kind == PACKED:
        pack_linears(model)
    else:
        put_on_grids(model, kernel)
    return model, kernel


def pool_of(model):
    generator = torch.Generator().manual_seed(3)
    store = PageStore(kv_shape(model.config, model.dtype), SLOTS, torch.device("cpu"))
    for tensor in (*store.keys, *store.values):
        tensor.copy_(torch.randn(tensor.shape, generator=generator))
    return store


def step_of(rows):
    """Return the rows and the slots of their new tokens; each (queries, context, shared)."""
    found, slots, start = [], [], 0
    for number, (queries, context, shared) in enumerate(rows):
        first, own = 200 * number, context - shared
        parts = ()
        if shared:
            keys = 600 + np.arange(shared)
            parts = (SharedKeys(np.arange(shared), keys, None, 5),)
        run = SlotRun(first, own)
        found.append(BatchRow(start, start + queries, context, (run,), Draw(), shared=parts))
        slots += range(first + own - queries, first + own)
        start += queries
    return found, torch.tensor(slots)


def context_of(rows, slots, store, rotation, kernel):
    compiled, blocks = CompiledRows.of(rows, kernel, rotation), ((),) * len(rows)
    return AttentionContext(
        store, slots, None, rows, blocks, rotation, compiled=compiled, kernel=kernel
    )


class Decoder:
    """A model's decoder with few-token steps, and the states behind steps of any rows."""

    def __init__(self, kind, family="llama"):
        model, self.kernel = model_of(family, kind)
        self.core, self.store = model.model, pool_of(model)
        self.rotation = PairRotation(self.core)
        self.steps = FewTokenSteps.of(self.core, self.kernel, self.store)

    def states(self, rows):
        rows, slots = step_of(rows)
        generator = torch.Generator().manual_seed(0)
        hidden = torch.randn(len(slots), self.core.config.hidden_size, generator=generator)
        factors = self.rotation.embeddings(hidden, torch.arange(len(slots))[None])[0][0]
        context = context_of(rows, slots, self.store, self.rotation, self.kernel)
        with torch.inference_mode():
            return self.steps.run(hidden, factors, context)


STEPS = {
    "a decode": [(1, 60, 0)],
    "decodes over shared keys": [(1, 90, 40), (1, 7, 0), (1, 130, 40)],
    "decodes with drafts": [(4, 80, 0), (1, 12, 0), (3, 100, 30)],
}


@pytest.mark.parametrize("kind", [PACKED, ON_GRID, ON_GRID_EXACT])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])  # biases; norms of heads
@pytest.mark.parametrize("step", STEPS)
def test_they_are_the_layers_one_by_one_number_by_number(family, kind, step):
    model, kernel = model_of(family, kind)
    core, rotation = model.model, PairRotation(model.model)
    one_by_one, together = pool_of(model), pool_of(model)
    steps = FewTokenSteps.of(core, kernel, together)
    rows, slots = step_of(STEPS[step])
    for seed in range(2):  # the second time over what the first one left
        torch.manual_seed(seed)
        hidden = torch.randn(1, len(slots), core.config.hidden_size).to(model.dtype)
        places = torch.tensor([row.context - 1 for row in rows for _ in range(row.queries)])
        factors = rotation.embeddings(hidden, places[None])
        with torch.inference_mode():
            expected = hidden.clone()
            context = context_of(rows, slots, one_by_one, rotation, kernel)
            for layer in core.layers:
                expected = layer(expected, factors, context)
            context = context_of(rows, slots, together, rotation, kernel)
            got = steps.run(hidden[0], factors[0][0], context)
        assert got.isfinite().all()
        assert torch.equal(got, expected[0])
    for mine, theirs in zip(together.keys, one_by_one.keys, strict=True):
        assert torch.equal(mine, theirs)
    for mine, theirs in zip(together.values, one_by_one.values, strict=True):
        assert torch.equal(mine, theirs)


def test_what_the_kernel_has_no_step_for_is_called_layer_by_layer():
    model, kernel = model_of("llama", ON_GRID_EXACT, hidden_act="gelu")
    assert FewTokenSteps.of(model.model, kernel, pool_of(model)) is None


def test_weights_that_it_cannot_read_are_left_to_torch():
    model = tiny_model("llama")
    fuse_layers(model)
    pack_linears(model)  # in float32
    kernel = row_kernel(torch.float32)
    assert FewTokenSteps.of(model.model, kernel, pool_of(model)) is None
    assert FewTokenSteps.of(model.model, None, pool_of(model)) is None


def drawn(worker):
    """Return what a worker draws behind a prompt, a token a step."""
    tokens, probabilities = list(prompt(20, 1)), []
    for begin, stop in ((0, 20), *((place, place + 1) for place in range(20, 30))):
        places = np.arange(begin, stop)
        run = SlotRun(0, stop)
        row = BatchRow(0, stop - begin, stop, (run,), Draw(wants_probability=True))
        batch = StepBatch(np.array(tokens[begin:]), places, places, (row,))
        result = worker.run(batch)
        tokens += result.token_ids
        probabilities += result.probabilities
    return tokens, probabilities


def test_a_worker_draws_the_same_with_and_without_them(monkeypatch):
    model, _ = model_of("llama", ON_GRID_EXACT)
    ran = []
    run = FewTokenSteps.run

    def noted(steps, hidden, *args):
        ran.append(len(hidden))
        return run(steps, hidden, *args)

    monkeypatch.setattr(FewTokenSteps, "run", noted)
    got = drawn(TransformersWorker(model, SLOTS))
    assert ran == [1] * 10, "each decode, and not the prompt"
    monkeypatch.setattr(FewTokenSteps, "of", lambda *_: None)
    assert drawn(TransformersWorker(model, SLOTS)) == got
    assert len(ran) == 10


@pytest.fixture
def lent(monkeypatch):
    """Return a function that sets how many threads torch has from the next layer on."""
    before, wanted = torch.get_num_threads(), []

    class Lending:
        def look(self):
            if wanted:
                torch.set_num_threads(wanted.pop(0))

    monkeypatch.setattr(few_token_steps, "BORROWED", Lending())
    yield wanted.extend
    torch.set_num_threads(before)


def test_cores_that_come_and_go_in_a_step_change_nothing(lent):
    decoder, rows = Decoder(ON_GRID_EXACT), STEPS["decodes with drafts"]
    torch.set_num_threads(1)
    expected = decoder.states(rows)
    for threads in ([3, 1, 2], [1, 4, 4], [2, 3, 1]):
        lent(threads)
        assert torch.equal(decoder.states(rows), expected)


def test_plans_that_are_kept_are_bounded(lent, monkeypatch):
    decoder, made = Decoder(ON_GRID_EXACT), []

    class Noted(Operations):
        def __init__(self, team, operations):
            made.append(self)
            super().__init__(team, operations)

    monkeypatch.setattr(few_token_steps, "Operations", Noted)
    layers, sizes = len(decoder.core.layers), range(1, decoder.steps.tokens_max + 1)
    assert 3 * len(sizes) > PLANS_MAX
    for threads in (1, 2, 3, 3, 1):
        torch.set_num_threads(threads)
        for tokens in sizes:
            decoder.states([(tokens, 40, 0)])
    assert len(made) == 4 * len(sizes) * layers, "those of one thread were made again"
