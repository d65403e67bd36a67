"""The engine against transformers: eight families, fp32, logits and tokens.

A prompt is served alone, in a batch, in chunks, preempted, with a warm prefix and after a
handover; the logits of every drawn token must equal a plain forward over the same tokens.
"""

from pathlib import Path

import pytest
import torch

from heddle.core.commands import Admit, Transfer
from heddle.core.frames import Done, Failed
from heddle.core.payloads import DecodePayload, PrefillPayload, Sampling, Segment
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from heddle.engines.llm.build import LlmSettings, assemble
from tests.helpers.tiny_models import FAMILIES, prompt, tiny_model
from tests.unit.engines.llm.fake_worker import FakeDecoder

NEW_TOKENS = 32
TOLERANCE = 1e-5
LENGTHS = (5, 40, 77, 16)


class Serving:
    """An engine on a tiny model that keeps the logits behind every token."""

    def __init__(self, model, name="llm", exchange=None, **settings):
        sizes = {"kv_bytes": 2 << 20, "max_num_seqs": 4, "max_num_batched_tokens": 512}
        settings = LlmSettings(Path("in memory"), **{**sizes, **settings})
        self.engine = assemble(name, 1, settings, model, "tiny", FakeDecoder(), exchange)
        self.worker = self.engine._worker
        self.logits = {}  # (sequence id) -> rows
        self.results = {}
        self._wrap()

    def _wrap(self):
        plain, plan = self.worker.logits, self.engine._scheduler.plan
        planned = []

        def planning(tokens):
            planned.append(plan(tokens))
            return planned[-1]

        def logits(batch):
            rows = plain(batch)
            ids = [part.sequence.id for part in planned[-1].slices if part.samples]
            for sequence, row in zip(ids, rows, strict=True):
                self.logits.setdefault(sequence, []).append(row.clone())
            return rows

        self.worker.logits, self.engine._scheduler.plan = logits, planning

    def admit(self, number, ids, decode=True):
        payload = PrefillPayload((Segment(ids),))
        who = Identity(number, "n")
        self.engine.apply(Admit(Task(2 * number, PrimitiveKind.PREFILLING, who, payload)))
        if decode:
            self.decode(number)

    def decode(self, number):
        payload = DecodePayload(2 * number, Sampling(NEW_TOKENS, ignore_eos=True))
        task = Task(2 * number + 1, PrimitiveKind.DECODING, Identity(number, "n"), payload)
        self.engine.apply(Admit(task))

    def drain(self):
        while self.engine.has_work:
            for event in self.engine.step(0.0, float("inf")).events:
                assert not isinstance(event, Failed), event
                if isinstance(event, Done):
                    self.results[event.task_id] = event.result
            self.engine.check()

    def check(self, model, number, ids):
        """Every logit row equals transformers' own over the prompt and the tokens before it."""
        generated = self.results[2 * number + 1].token_ids
        whole = torch.tensor([[*ids, *generated[:-1]]])
        before = model.config._attn_implementation
        model.set_attn_implementation("sdpa")
        with torch.inference_mode():
            expected = model(whole, use_cache=False).logits[0, len(ids) - 1 :].float()
        model.set_attn_implementation(before)
        got = torch.stack(self.logits[2 * number])
        assert got.shape == expected.shape
        difference = (got - expected).abs().max() / expected.abs().max()
        assert difference < TOLERANCE, f"logits differ by {difference:.1e}"
        assert generated == tuple(expected.argmax(-1).tolist())


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return tiny_model(request.param)


def test_alone(model):
    serving = Serving(model)
    for number, length in enumerate(LENGTHS):
        serving.admit(number, prompt(length, number))
        serving.drain()
        serving.check(model, number, prompt(length, number))


@pytest.mark.parametrize(
    ("settings", "preempts"),
    [
        ({}, False),
        ({"max_num_batched_tokens": 7}, False),
        ({"kv_bytes": 0, "context_tokens_max": 144, "max_num_batched_tokens": 50}, True),
    ],
    ids=["batch", "chunked", "preempted"],
)
def test_together(model, settings, preempts):
    if preempts:
        layers = model.config.num_hidden_layers
        token_bytes = 2 * layers * 2 * 16 * 4
        settings = {**settings, "kv_bytes": token_bytes * 16 * 9}
    serving = Serving(model, **settings)
    for number, length in enumerate(LENGTHS):
        serving.admit(number, prompt(length, number))
    serving.drain()
    for number, length in enumerate(LENGTHS):
        serving.check(model, number, prompt(length, number))
    preemptions = sum(serving.results[2 * n + 1].preemptions for n in range(len(LENGTHS)))
    assert (preemptions > 0) == preempts


def test_a_warm_prefix(model):
    serving = Serving(model)
    shared = prompt(50, 9)
    for number in range(3):
        serving.admit(number, (*shared, *prompt(4 + number, number)))
        serving.drain()
        serving.check(model, number, (*shared, *prompt(4 + number, number)))
    assert serving.results[2].tokens_reused == 48


class Exchange:
    """Carries sequences in a list."""

    def __init__(self):
        self.box = []

    def send(self, lane, sequence):
        self.box.append(sequence)

    def receive(self, lane):
        box, self.box = self.box, []
        return box if lane == "two" else []


def test_a_prefill_handed_to_a_second_engine(model):
    exchange = Exchange()
    one = Serving(model, name="one", exchange=exchange)
    two = Serving(model, name="two", exchange=exchange)
    ids = prompt(37, 5)
    one.admit(0, ids, decode=False)
    one.drain()
    one.engine.apply(Transfer(one.results[0].handle, "two"))
    two.engine.step(0.0, float("inf"))
    two.decode(0)
    two.drain()
    two.check(model, 0, ids)


def test_a_sampled_request_ignores_its_neighbours(model):
    def run(neighbours):
        serving = Serving(model)
        serving.admit(0, prompt(20, 0), decode=False)
        payload = DecodePayload(0, Sampling(16, temperature=0.9, top_p=0.9, seed=3))
        who = Identity(0, "n")
        serving.engine.apply(Admit(Task(1, PrimitiveKind.DECODING, who, payload)))
        for number in range(1, 1 + neighbours):
            serving.admit(number, prompt(10 * number, number))
        serving.drain()
        return serving.results[1].token_ids

    assert run(0) == run(3)
