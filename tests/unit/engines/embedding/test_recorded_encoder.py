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
        self.launches, self.launch_s, self._clock = 0, LAUNCH_S, clock

    def states(self, rows):
        self.launches += 1
        self._clock.time_s += self.launch_s
        return super().states(rows)

    def compute(self, ids, mask):
        if not mask.is_cuda:  # to look would wait for it
            assert mask.any(dim=1).all(), "a row of no token at all"
        return super().compute(ids, mask)


class TimedRecorder:
    """A recorder whose replays take a set time, and are counted."""

    def __init__(self, clock):
        self._inner = CudaRecorder(DEVICE) if DEVICE.type == "cuda" else HostRecorder()
        self.recordings = self.replays = 0
        self.replay_s, self._clock = REPLAY_S, clock

    def record(self, run):
        outputs, replay = self._inner.record(run)
        self.recordings += 1

        def counted():
            self._clock.time_s += self.replay_s
            self.replays += 1
            replay()

        return outputs, counted


class FailingRecorder:
    def __init__(self):
        self.tries = 0

    def record(self, run):
        self.tries += 1
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


def recorded(model, recorder=None, length_max=LENGTH_MAX):
    """Return the encoder that launches, the one that replays, and the recorder."""
    clock = ManualClock()
    launching = LaunchingEncoder(model, clock)
    recorder = recorder or TimedRecorder(clock)
    return (
        launching,
        RecordedEncoder(launching, DEVICE, recorder, clock, length_max=length_max),
        recorder,
    )


def texts(*lengths):
    return [[2 + (7 * i + j) % 48 for j in range(length)] for i, length in enumerate(lengths)]


def states_of(encoder, rows):
    with torch.inference_mode():
        return encoder.states(rows)


BATCHES = [(1,), (3, 16, 9), (17,) * 8, (60, 2, 33, 5, 40), (5, 90)]


@pytest.mark.parametrize("family", FAMILIES)
def test_replayed_batches_have_the_states_of_launched_ones(family):
    if DEVICE.type == "cuda" and family == "mpnet":
        pytest.skip("MPNet copies positions from the host in each batch, which no GPU records")
    model = small_model(family)
    _, encoder, recorder = recorded(model)
    for _ in range(2):
        for lengths in BATCHES:
            states_of(encoder, texts(*lengths))
    assert recorder.recordings == len(BATCHES)
    plain = PaddedEncoder(model, DEVICE)
    for lengths in [*BATCHES, (2,), (1, 2, 14, 3), (64,) * 7, (33,), (100, 1)]:
        rows = texts(*lengths)
        before = recorder.replays
        (states, mask), (expected, expected_mask) = states_of(encoder, rows), states_of(plain, rows)
        assert recorder.replays == before + (lengths != (33,)), lengths
        assert states.shape == expected.shape
        assert states.dtype == torch.float32
        assert torch.equal(mask, expected_mask)
        assert states.isfinite().all(), (
            "what padding gives is multiplied by 0, which needs a number"
        )
        torch.testing.assert_close(states[mask == 1], expected[mask == 1], rtol=1e-4, atol=1e-5)


def test_a_shape_is_recorded_with_its_second_batch_and_replayed_from_the_third_on():
    launching, encoder, recorder = recorded(small_model())
    counts = []
    for lengths in [(5,), (16,), (9,), (2,)]:
        before = recorder.replays
        states_of(encoder, texts(*lengths))
        counts.append((launching.launches, recorder.recordings, recorder.replays - before))
    timed = recorded_encoder.REPLAYS_TIMED
    assert counts == [(1, 0, 0), (2, 1, timed), (2, 1, 1), (2, 1, 1)]


def test_a_lane_that_starts_records_all_shapes_so_that_each_batch_is_replayed():
    launching, encoder, recorder = recorded(small_model(max_position_embeddings=70), length_max=70)
    encoder.record_shapes()
    launches, replays = launching.launches, recorder.replays
    assert (launches, recorder.recordings) == (2 * 28, 28)  # 7 numbers of rows, 4 lengths
    for lengths in BATCHES[:-1]:
        states_of(encoder, texts(*lengths))
    assert launching.launches == launches
    assert recorder.replays == replays + len(BATCHES) - 1


@pytest.mark.parametrize(
    "lengths",
    [(4,) * 65, (513,), (300,) * 17],
    ids=["more rows", "a longer row", "more tokens"],
)
def test_batches_of_other_shapes_are_launched(lengths):
    launching, encoder, recorder = recorded(small_model())
    for _ in range(3):
        states_of(encoder, texts(*lengths))
    assert launching.launches == 3
    assert recorder.recordings == 0


def test_no_batch_is_padded_beyond_what_the_model_takes():
    model = small_model(max_position_embeddings=40)
    launching, encoder, recorder = recorded(model, length_max=40)
    for _ in range(3):
        states, _ = states_of(encoder, texts(40, 35))
    expected, _ = states_of(PaddedEncoder(model, DEVICE), texts(40, 35))
    assert launching.launches == 2
    assert recorder.recordings == 1
    torch.testing.assert_close(states[0], expected[0], rtol=1e-4, atol=1e-5)


def test_a_shape_whose_replay_takes_longer_than_the_quickest_launch_is_launched():
    launching, encoder, recorder = recorded(small_model())
    recorder.replay_s = 14.0
    for _ in range(3):
        states_of(encoder, texts(*[50] * 8))
    assert launching.launches == 2, "14 s are less than 15"
    launching.launch_s = 13.0
    states_of(encoder, texts(5))
    states_of(encoder, texts(*[50] * 8))
    assert launching.launches == 4


def test_a_model_that_cannot_be_recorded_is_launched_and_the_log_says_so_once():
    recorder = FailingRecorder()
    launching, encoder, _ = recorded(small_model(), recorder)
    rows = texts(5, 9)
    with logged(recorded_encoder.log) as lines:
        encoder.record_shapes()
        launching.launches = 0
        for _ in range(4):
            states, _ = states_of(encoder, rows)
        states_of(encoder, texts(50))
        states_of(encoder, texts(50))
    assert launching.launches == 6
    assert recorder.tries == 1
    [line] = lines
    assert "launched kernel by kernel" in line
    assert "not permitted when stream is capturing" in line
    expected, _ = states_of(launching, rows)
    torch.testing.assert_close(states, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_states_outlive_the_next_batch(dtype):
    _, encoder, _ = recorded(small_model().to(dtype))
    rows, others = texts(5, 9), texts(7, 3)[::-1]
    for _ in range(2):
        states_of(encoder, rows)
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
        for _ in range(3):
            states, _ = states_of(encoder, texts(*lengths))
        assert states.isfinite().all()
    assert recorder.recordings == 2
