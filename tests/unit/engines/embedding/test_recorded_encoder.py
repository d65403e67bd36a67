"""Replayed batches have the states of launched ones; without a GPU the host stands in for it."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    Qwen3Config,
    Qwen3Model,
    RobertaConfig,
    RobertaModel,
)

from heddle.engines.embedding import recorded_encoder
from heddle.engines.embedding.padded_encoder import PaddedEncoder
from heddle.engines.embedding.recorded_encoder import BATCH_TOKENS_MAX, RecordedEncoder
from heddle.kernels.cuda_recorder import CudaRecorder
from tests.helpers.fake_ports import ManualClock
from tests.helpers.host_recorder import HostRecorder
from tests.helpers.logged import logged

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
LAUNCH_S, REPLAY_S = 15.0, 5.0
LENGTH_MAX = 600
FAMILIES = {
    "bert": (BertConfig, BertModel, {}),
    "roberta": (RobertaConfig, RobertaModel, {"max_position_embeddings": LENGTH_MAX + 2}),
    "mpnet": (MPNetConfig, MPNetModel, {"max_position_embeddings": LENGTH_MAX + 2}),
    "modernbert": (ModernBertConfig, ModernBertModel, {"local_attention": 8}),
    "qwen3": (Qwen3Config, Qwen3Model, {"num_key_value_heads": 1, "head_dim": 16}),
}


class LaunchingEncoder(PaddedEncoder):
    """An encoder whose batches take a set time, and are counted."""

    def __init__(self, model, clock):
        super().__init__(model, DEVICE)
        self.launches, self._clock = 0, clock

    def states(self, rows):
        self.launches += 1
        self._clock.time_s += LAUNCH_S
        return super().states(rows)

    def compute(self, ids, mask):
        if not mask.is_cuda:  # to look would wait for it
            assert mask.any(dim=1).all(), "a row of no token at all"
        return super().compute(ids, mask)


class TimedRecorder:
    """A recorder whose replays are counted, and take a time that depends on a batch's tokens."""

    def __init__(self, clock, replay_s=lambda tokens: REPLAY_S):
        self._inner = CudaRecorder(DEVICE) if DEVICE.type == "cuda" else HostRecorder()
        self.recordings = self.replays = 0
        self._replay_s, self._clock = replay_s, clock

    def record(self, run):
        outputs, replay = self._inner.record(run)
        self.recordings += 1

        def counted():
            self._clock.time_s += self._replay_s(outputs.shape[0] * outputs.shape[1])
            self.replays += 1
            replay()

        return outputs, counted


class FailingRecorder:
    """Fails at the third shape."""

    def __init__(self):
        self.tries = 0

    def record(self, run):
        self.tries += 1
        if self.tries < 3:
            return HostRecorder().record(run)
        raise RuntimeError("operation not permitted when stream is capturing")


def small_model(family="bert", **sizes):
    torch.manual_seed(0)
    config, model, more = FAMILIES[family]
    settings = {
        "vocab_size": 50,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": LENGTH_MAX,
        "pad_token_id": 1,
    }
    return model(config(**(settings | more | sizes))).eval().to(DEVICE)


def recorded(model, recorder=None, clock=None, length_max=LENGTH_MAX):
    """Return the encoder that launches, the one that has recorded all shapes, and the recorder."""
    clock = clock or ManualClock()
    launching = LaunchingEncoder(model, clock)
    recorder = recorder or TimedRecorder(clock)
    encoder = RecordedEncoder(launching, DEVICE, recorder, clock, length_max=length_max)
    encoder.record_shapes()
    launching.launches = recorder.replays = 0
    return launching, encoder, recorder


def texts(*lengths):
    return [[2 + (7 * i + j) % 48 for j in range(length)] for i, length in enumerate(lengths)]


def states_of(encoder, rows):
    with torch.inference_mode():
        return encoder.states(rows)


@pytest.mark.parametrize("family", FAMILIES)
def test_replayed_batches_have_the_states_of_launched_ones(family):
    model = small_model(family)
    launching, encoder, recorder = recorded(model)
    plain = PaddedEncoder(model, DEVICE)
    batches = [(1,), (3, 16, 9), (17,) * 8, (60, 2, 33, 5, 40), (100, 1), (1, 2, 14, 3), (33,)]
    for lengths in batches:
        rows = texts(*lengths)
        (states, mask), (expected, expected_mask) = states_of(encoder, rows), states_of(plain, rows)
        assert states.shape == expected.shape
        assert states.dtype == torch.float32
        assert torch.equal(mask, expected_mask)
        assert states.isfinite().all(), (
            "what padding gives is multiplied by 0, which needs a number"
        )
        torch.testing.assert_close(states[mask == 1], expected[mask == 1], rtol=1e-4, atol=1e-5)
    # MPNet copies positions from the host in each batch, which a GPU can't record.
    is_recorded = not (DEVICE.type == "cuda" and family == "mpnet")
    found = recorder.replays, launching.launches
    assert found == ((len(batches), 0) if is_recorded else (0, len(batches)))


def test_every_shape_is_recorded_once_when_a_lane_starts():
    _, encoder, recorder = recorded(small_model(max_position_embeddings=70), length_max=70)
    assert recorder.recordings == 28  # 7 numbers of rows, 4 lengths
    for lengths in [(5,), (16,), (70, 3), (2,) * 64]:
        states_of(encoder, texts(*lengths))
    assert (recorder.recordings, recorder.replays) == (28, 4)


@pytest.mark.parametrize(
    "lengths",
    [(4,) * 65, (513,), (300,) * 17],
    ids=["more rows", "a longer row", "more tokens"],
)
def test_batches_of_other_shapes_are_launched(lengths):
    launching, encoder, recorder = recorded(small_model())
    states_of(encoder, texts(*lengths))
    assert (launching.launches, recorder.replays) == (1, 0)


def test_no_batch_is_padded_beyond_what_the_model_takes():
    model = small_model(max_position_embeddings=40)
    _, encoder, recorder = recorded(model, length_max=40)
    states, _ = states_of(encoder, texts(40, 35))
    expected, _ = states_of(PaddedEncoder(model, DEVICE), texts(40, 35))
    assert recorder.replays == 1
    torch.testing.assert_close(states[0], expected[0], rtol=1e-4, atol=1e-5)


def test_a_shape_whose_replay_takes_longer_than_the_quickest_launch_is_launched():
    clock = ManualClock()
    slower_above = TimedRecorder(clock, lambda tokens: REPLAY_S if tokens <= 512 else 16.0)
    launching, encoder, recorder = recorded(small_model(), slower_above, clock)
    states_of(encoder, texts(*[64] * 8))
    assert (launching.launches, recorder.replays) == (0, 1)
    states_of(encoder, texts(*[65] * 8))
    assert (launching.launches, recorder.replays) == (1, 1)


def test_a_model_that_cannot_be_recorded_is_launched_and_the_log_says_so_once():
    with logged(recorded_encoder.log) as lines:
        launching, encoder, recorder = recorded(small_model(), FailingRecorder())
    assert recorder.tries == 3
    rows = texts(5, 9)
    states, _ = states_of(encoder, rows)
    assert launching.launches == 1
    [line] = lines
    assert "launched kernel by kernel" in line
    assert "not permitted when stream is capturing" in line
    expected, _ = states_of(launching, rows)
    torch.testing.assert_close(states, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_states_outlive_the_next_batch(dtype):
    _, encoder, _ = recorded(small_model().to(dtype))
    rows, others = texts(5, 9), texts(7, 3)[::-1]
    states, mask = states_of(encoder, rows)
    kept, kept_mask = states.clone(), mask.clone()
    later, _ = states_of(encoder, others)
    assert not torch.equal(states[:, :3], later[:, :3])
    assert torch.equal(states, kept)
    assert torch.equal(mask, kept_mask)
    assert states.dtype == torch.float32
    assert encoder.dtype == dtype


def test_the_largest_shapes_fit_the_room_for_inputs():
    _, encoder, recorder = recorded(small_model())
    for lengths in [(512,) * 16, (128,) * 64]:
        assert sum(lengths) == BATCH_TOKENS_MAX
        states, _ = states_of(encoder, texts(*lengths))
        assert states.isfinite().all()
    assert recorder.replays == 2
