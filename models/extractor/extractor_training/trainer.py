"""A run of training that can be stopped at any step and goes on as if it hadn't been."""

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from .average import WeightAverage
from .batches import Exercise, Place, pack, steps
from .precision import autocast
from .schedule import learning_rate_share
from .span_loss import question_loss, span_scores
from .span_model import SpanModel
from .training_list import Lesson

_LAYER_DECAY = 0.9  # of the rate from one layer to the one below it
_HEAD_GAIN = 5.0  # the head starts from nothing
_WEIGHT_DECAY = 0.01
_LOSS_KEPT = 0.98  # of the running mean


@dataclass(frozen=True)
class Plan:
    """What a run does.

    n_steps: of the whole run; may be changed when it goes on.
    n_tokens: of a step, at least.
    n_negatives: passages without an answer that go with a question.
    """

    n_steps: int
    n_tokens: int = 4_096
    n_negatives: int = 2
    learning_rate: float = 2e-4
    seed: int = 0


@dataclass(slots=True)
class Progress:
    """Where a run stands; kept in the checkpoint.

    cpu_s: of steps; without evaluations.
    """

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
        model: SpanModel,
        tokenizer: Tokenizer,
        lessons: Sequence[Lesson],
        plan: Plan,
        checkpoint: Path,
    ) -> None:
        self.model = model
        self.plan = plan
        self.checkpoint = checkpoint
        self.progress = Progress()
        self.average = WeightAverage(model)
        self._optimizer = torch.optim.AdamW(
            _groups(model), lr=plan.learning_rate, betas=(0.9, 0.99), fused=True
        )
        if checkpoint.exists():
            self._load()
        self._steps = steps(
            tokenizer,
            lessons,
            Place(**self.progress.place),
            n_tokens=plan.n_tokens,
            n_negatives=plan.n_negatives,
            seed=plan.seed,
        )

    @property
    def is_over(self) -> bool:
        """Whether all planned steps are taken."""
        return self.progress.step >= self.plan.n_steps

    def step(self) -> None:
        """Take one optimizer step."""
        before_s = time.process_time()
        exercises, place = next(self._steps)
        loss = batch_loss(self.model, exercises)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        share = learning_rate_share(self.progress.step, self.plan.n_steps)
        for group in self._optimizer.param_groups:
            group["lr"] = self.plan.learning_rate * share * group["gain"]
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.average.update(self.progress.step)
        self._note(exercises, float(loss.detach()), place)
        self.progress.cpu_s += time.process_time() - before_s

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        partial = self.checkpoint.with_suffix(".partial")
        state = {
            "model": {n: p.detach() for n, p in self.model.named_parameters() if p.requires_grad},
            "average": self.average.weights,
            "optimizer": self._optimizer.state_dict(),
            "progress": asdict(self.progress),
        }
        torch.save(state, partial)
        os.replace(partial, self.checkpoint)

    def _load(self) -> None:
        saved = torch.load(self.checkpoint, weights_only=True)
        self.model.load_state_dict(saved["model"], strict=False)
        self.average.load(saved["average"])
        self._optimizer.load_state_dict(saved["optimizer"])
        self.progress = Progress(**saved["progress"])

    def _note(self, exercises: list[Exercise], loss: float, place: Place) -> None:
        progress = self.progress
        known = min(_LOSS_KEPT, progress.step / (progress.step + 1))
        progress.loss = known * progress.loss + (1 - known) * loss
        progress.step += 1
        progress.questions += len(exercises)
        progress.tokens += sum(one.n_tokens for one in exercises)
        progress.place = asdict(place)


def batch_loss(model: SpanModel, exercises: Sequence[Exercise]) -> Tensor:
    """The mean loss of some questions."""
    windows = [window for one in exercises for window in one.windows]
    tokens = pack(windows)
    with autocast():
        logits = model(tokens)
    parts = torch.split(logits, tokens.lengths)
    scores = iter(
        span_scores(part, window.first, len(window.offsets))
        for part, window in zip(parts, windows, strict=True)
    )
    losses = [question_loss([next(scores) for _ in one.windows], one.spans) for one in exercises]
    return torch.stack(losses).mean()


def _groups(model: SpanModel) -> list[dict[str, object]]:
    """Trained parameters with the share of the learning rate that each takes."""
    top = model.shape.n_layers - 1
    groups = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            layer = int(name.split(".")[2]) if name.startswith("encoder.layer.") else None
            gain = _HEAD_GAIN if layer is None else _LAYER_DECAY ** (top - layer)
            decay = _WEIGHT_DECAY if parameter.dim() == 2 else 0.0
            groups.append({"params": [parameter], "gain": gain, "weight_decay": decay})
    return groups
