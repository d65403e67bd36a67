"""How an embedding lane's engine is built over a worker."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from heddle.core.commands import Admit
from heddle.core.payloads import EmbedPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from heddle.encoder.tokenized_text import TokenizedText
from heddle.engines.embedding import build
from heddle.engines.embedding.build import EmbeddingSettings
from heddle.engines.embedding.worker import TransformerWorker
from heddle.runtime.supervision import LaneLimits
from tests.helpers.bare_model import write_bare_model
from tests.helpers.fake_ports import ManualClock


class SlowWorker:
    """A model of billions of weights: each word takes it a tenth of a second."""

    dims, on_gpu, dtype, word_s = 2, False, "float32", 0.1

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock

    def warm_up(self) -> tuple[float, int]:
        return 0.0, 0

    def tokenize(self, texts: Sequence[str]) -> list[TokenizedText]:
        return [TokenizedText([1] * len(text.split())) for text in texts]

    def embed(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        self.clock.time_s += self.word_s * sum(map(len, rows))
        return np.ones((len(rows), self.dims), np.float32)


def test_the_first_step_of_a_slow_model_is_not_taken_for_hung(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(build, "PerfClock", lambda: clock)
    monkeypatch.setattr(TransformerWorker, "load", lambda *_: SlowWorker(clock))
    model = write_bare_model(tmp_path / "model")
    engine = build.build_engine("embed", 1, EmbeddingSettings(str(model)))
    payload = EmbedPayload(("word " * 30,))
    engine.apply(Admit(Task(1, PrimitiveKind.EMBEDDING, Identity(1, "n"), payload)))
    limit_s = LaneLimits().step_s_max(engine.predicted_step_s())
    assert engine.step(0.0, 1.0).seconds == pytest.approx(3.0)
    assert limit_s > 3.0
