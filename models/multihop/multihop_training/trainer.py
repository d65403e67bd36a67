"""A run of training that can be stopped at any step and goes on as if it hadn't been."""

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from extractor_training.average import WeightAverage
from extractor_training.schedule import learning_rate_share

from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer

from .adapted_llama import AdaptedLlama
from .lessons import Lesson
from .samples import Place, Sample, steps

_LOSS_KEPT = 0.98  # of the running mean
_WARM_UP_STEPS = 30


@dataclass(frozen=True)
class Plan:
    """What a run does.

    n_steps: of the whole run; may be changed when it goes on.
    n_tokens: of a step, at least.
    """

    n_steps: int = 1_200
    n_tokens: int = 2_560
    learning_rate: float = 1e-3
    seed: int = 0


@dataclass(slots=True)
class Progress:
    """Where a run stands; kept in the checkpoint. cpu_s: of steps; without evaluations."""

    step: int = 0
    questions: int = 0
    tokens: int = 0
    cpu_s: float = 0.0
    loss: float = 0.0
    place: dict[str, int] = field(default_factory=lambda: asdict(Place()))


class Trainer:
    """Model, optimizer, average and progress; written to and read from one checkpoint file."""

    def __init__(
        self,
        model: AdaptedLlama,
        tokenizer: PromptTokenizer,
        lessons: Sequence[Lesson],
        plan: Plan,
        checkpoint: Path,
    ) -> None:
        self.model = model
        self.plan = plan
        self.progress = Progress()
        self.average = WeightAverage(model)
        self._checkpoint = checkpoint
        self._optimizer = torch.optim.AdamW(
            model.parameters(), lr=plan.learning_rate, betas=(0.9, 0.99), weight_decay=0.0
        )
        if checkpoint.exists():
            self._load()
        place = Place(**self.progress.place)
        self._steps = steps(tokenizer, lessons, place, self._share_done, plan.n_tokens, plan.seed)
        self._samples, self._place = next(self._steps)

    @property
    def is_over(self) -> bool:
        """Whether all planned steps are taken."""
        return self.progress.step >= self.plan.n_steps

    @property
    def _share_done(self) -> float:
        return self.progress.step / self.plan.n_steps

    def step(self) -> None:
        """Take one optimizer step."""
        before_s = time.process_time()
        samples = self._samples
        loss = self.model.loss(samples)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        share = learning_rate_share(self.progress.step, self.plan.n_steps, _WARM_UP_STEPS)
        for group in self._optimizer.param_groups:
            group["lr"] = self.plan.learning_rate * share
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.average.update(self.progress.step)
        self._note(samples, float(loss.detach()))
        self._samples, self._place = self._steps.send(self._share_done)
        self.progress.cpu_s += time.process_time() - before_s

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        self._checkpoint.parent.mkdir(parents=True, exist_ok=True)
        partial = self._checkpoint.with_suffix(".partial")
        state = {
            "model": self.model.state_dict(),
            "average": self.average.weights,
            "optimizer": self._optimizer.state_dict(),
            "progress": asdict(self.progress),
        }
        torch.save(state, partial)
        os.replace(partial, self._checkpoint)

    def _load(self) -> None:
        saved = torch.load(self._checkpoint, map_location=self.model.device, weights_only=True)
        self.model.load_state_dict(saved["model"])
        self.average.load(saved["average"])
        self._optimizer.load_state_dict(saved["optimizer"])
        self.progress = Progress(**saved["progress"])

    def _note(self, samples: Sequence[Sample], loss: float) -> None:
        progress = self.progress
        known = min(_LOSS_KEPT, progress.step / (progress.step + 1))
        progress.loss = known * progress.loss + (1 - known) * loss
        progress.step += 1
        progress.questions += len(samples)
        progress.tokens += sum(len(sample.ids) for sample in samples)
        progress.place = asdict(self._place)
