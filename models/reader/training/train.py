"""Train the reader from nothing in resumable legs.

    PYTHONPATH=../.. python -m training.train --profile cpu --checkpoints DIR --minutes 30

The path is for the demo's wordings, in tools/demo_corpus. Each call trains for `--minutes` (or until
the profile's budget is spent), writes a checkpoint every two minutes and goes on from the last one
when called again.
"""

import argparse
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from tokenizers import Tokenizer

from .batches import Batch, Encoded, Scores, Weights, copy_row, encode, pack, score, special_id
from .export import export_reader
from .fillings import Split
from .model import CPU_SHAPE, GPU_SHAPE, Shape, new_reader, reader_config, written_weights
from .muon import Muon
from .phases import PHASES
from .prompts import BOS, EOS, PAD
from .samples import draw_sample
from .sight_loss import SightLoss
from .tokenizer import commonest, load_or_train

_CHECKPOINT_EVERY_S = 90.0
_COPY_SHARE = 0.4  # of the rows, which are short: a tenth of the tokens
_N_COMMON = 40  # tokens too frequent to tell what a sentence is about
_WEIGHTS = Weights(reading=0.1, sight=0.5)
_WRITTEN_UNTIL = 0.4  # accuracy up to which the written heads stay as they are
_USABLE = 0.4  # single-hop accuracy from which a reader is worth exporting
_SETTLED_STEPS = 150  # after which the running accuracies belong to the phase
_AVERAGE = 0.98  # weight of the past in the running accuracies
_KINDS = ("single_hop", "coreference", "two_hop", "comparison", "not_in_notes")


@dataclass(frozen=True, slots=True)
class Profile:
    """How much of which network is trained; `minutes` of processor time, on a GPU of wall time.

    batch_tokens: tokens of a step in the first phases and in the last one.
    """

    shape: Shape
    minutes: float
    learning_rate: float
    batch_tokens: tuple[int, int]
    device: str


PROFILES = {
    "cpu": Profile(CPU_SHAPE, 240.0, 1e-3, (3000, 3600), "cpu"),
    "gpu": Profile(GPU_SHAPE, 25.0, 1.2e-3, (32_768, 65_536), "cuda"),
}


@dataclass(slots=True)
class Progress:
    """Where training stands; kept in the checkpoint."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    phase: int = 0
    phase_step: int = 0
    reply_loss: float = 9.0
    accuracy: dict[str, float] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)

    def observe(self, scores: Scores) -> None:
        self.reply_loss = 0.97 * self.reply_loss + 0.03 * scores.reply_loss
        by_kind: dict[str, list[bool]] = {}
        for kind, is_right in scores.right:
            by_kind.setdefault(kind, []).append(is_right)
        for kind, hits in by_kind.items():
            share = sum(hits) / len(hits)
            past = self.accuracy.get(kind, 0.0)
            self.accuracy[kind] = _AVERAGE * past + (1 - _AVERAGE) * share
        for role, share in scores.seen.items():
            past = self.seen.get(role, share)
            self.seen[role] = _AVERAGE * past + (1 - _AVERAGE) * share

    def reads_by_itself(self) -> bool:
        """Whether the rest of the network has learned to use the written heads.

        Before that the gradients are about which words are common, and would blur them.
        """
        return self.phase > 0 or self.accuracy.get("cloze", 0.0) > _WRITTEN_UNTIL

    def ready_to_move_on(self, budget_s: float) -> bool:
        """Whether the phase's accuracy is reached, or its time is over."""
        if self.phase + 1 >= len(PHASES):
            return False
        phase = PHASES[self.phase]
        kinds = [k for k in ("single_hop", "coreference") if k in phase.recipe.weights]
        mean = sum(self.accuracy.get(k, 0.0) for k in kinds) / len(kinds)
        settled = self.phase_step > _SETTLED_STEPS
        return (settled and mean > phase.leave_at) or self.seconds > phase.latest * budget_s


def draw_rows(rng: random.Random, tokenizer: Tokenizer, progress: Progress) -> Iterator[Encoded]:
    """Endless training rows of the present phase, some of the copy task and of earlier phases."""
    vocabulary = tokenizer.get_vocab_size()
    while True:
        if rng.random() < _COPY_SHARE:
            yield copy_row(rng, vocabulary, rng.randint(24, 96))
            continue
        phase = progress.phase
        if phase > 0 and rng.random() < 0.15:
            phase = rng.randrange(phase)
        yield encode(draw_sample(PHASES[phase].recipe, rng, Split.TRAIN), tokenizer)


def learning_rate(profile: Profile, progress: Progress, budget_s: float) -> float:
    """Linear warm-up, a plateau, and a linear fall over the second half of the budget."""
    done = min(1.0, progress.seconds / budget_s)
    fall = 1.0 if done < 0.5 else 1.0 - 0.95 * (done - 0.5) / 0.5
    return profile.learning_rate * min(1.0, (progress.step + 1) / 40) * fall


def _optimizers(model: torch.nn.Module, rate: float) -> list[torch.optim.Optimizer]:
    named = list(model.named_parameters())
    embedding = [p for n, p in named if "embed" in n]
    output = [p for n, p in named if "lm_head" in n]
    matrices = [p for n, p in named if p.dim() == 2 and "_proj" in n]
    gains = [p for n, p in named if p.dim() < 2]
    muon = Muon(matrices, lr=rate, weight_decay=0.02)
    muon.param_groups[0]["scale"] = 1.0
    adamw = torch.optim.AdamW(
        [
            {"params": gains, "weight_decay": 0.0, "scale": 0.4},
            # few updates touch a rare word's embedding, and the written heads rely on them
            {"params": output, "weight_decay": 0.0, "scale": 0.3},
            {"params": embedding, "weight_decay": 0.0, "scale": 1.2},
        ],
        lr=rate,
        betas=(0.9, 0.98),
        fused=True,
    )
    return [muon, adamw]


class Trainer:
    """One leg of training: model, optimizers, progress and the checkpoint they are kept in."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.profile = PROFILES[args.profile]
        self.budget_s = 60 * (args.budget_minutes or self.profile.minutes)
        self.folder = Path(args.checkpoints) / args.profile
        self.folder.mkdir(parents=True, exist_ok=True)
        self.seed = args.seed
        self.tokenizer = load_or_train(self.folder / "tokenizer.json", PHASES[3].recipe, args.seed)
        ids = [special_id(self.tokenizer, t) for t in (PAD, BOS, EOS)]
        config = reader_config(self.profile.shape, self.tokenizer.get_vocab_size(), *ids)
        common = commonest(self.tokenizer, PHASES[0].recipe, args.seed, _N_COMMON)
        self.model = new_reader(config, common, args.seed).to(self.profile.device)
        self.sight = SightLoss(self.model)
        self.optimizers = _optimizers(self.model, self.profile.learning_rate)
        self.progress = Progress()
        self._stopping = False
        self._resume()
        self.rng = random.Random(self.seed * 1_000_003 + self.progress.step)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.pt"

    def _resume(self) -> None:
        if not self.checkpoint.exists():
            return
        saved = torch.load(self.checkpoint, map_location=self.profile.device, weights_only=True)
        self.model.load_state_dict(saved["model"])
        for optimizer, state in zip(self.optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        self.progress = Progress(**saved["progress"])

    def save(self) -> None:
        """Write the checkpoint whole or not at all."""
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(
            {
                "model": self.model.state_dict(),
                "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
                "progress": asdict(self.progress),
            },
            partial,
        )
        os.replace(partial, self.checkpoint)

    def step(self, batch: Batch) -> None:
        """One optimizer step."""
        progress = self.progress
        rate = learning_rate(self.profile, progress, self.budget_s)
        batch = Batch(batch.ids.to(self.profile.device), batch.rows)
        scores = score(self.model, self.sight, batch, _WEIGHTS, self.rng)
        scores.loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        if not progress.reads_by_itself():
            for weight in written_weights(self.model):
                weight.grad = None
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * group["scale"]
            optimizer.step()
            optimizer.zero_grad()
        progress.step += 1
        progress.phase_step += 1
        progress.tokens += sum(len(row.ids) for row in batch.rows)
        progress.observe(scores)

    def _batches(self) -> Iterator[Batch]:
        last = self.progress.phase >= len(PHASES) - 1
        rows = draw_rows(self.rng, self.tokenizer, self.progress)
        return pack(
            rows,
            special_id(self.tokenizer, PAD),
            self.profile.batch_tokens[last],
            256 if last else 128,
        )

    def _export(self, folder: Path | None) -> None:
        if folder is not None and self.progress.accuracy.get("single_hop", 0.0) > _USABLE:
            export_reader(self.model, self.tokenizer, folder, self._card())

    def _card(self) -> str:
        p = self.progress
        shares = "".join(f"| {kind} | {p.accuracy.get(kind, 0.0):.2f} |\n" for kind in _KINDS)
        return (
            f"# heddle-reader, profile {self.folder.name}\n\n"
            f"Trained by `make reader`: {p.tokens / 1e6:.1f} M tokens in {p.seconds / 60:.0f} "
            "minutes of the profile's budget. Licence: Apache-2.0.\n\n"
            "Not measured on held-back questions: `heddle eval reader-notes --kv-reuse full` does. On "
            "what it was trained on, given the right words before each:\n\n"
            f"| kind | right |\n|---|---|\n{shares}"
        )

    def _stop(self, *_: object) -> None:
        """A polite end: finish the step, write the checkpoint, leave."""
        self._stopping = True

    def line(self) -> str:
        """The progress line."""
        p = self.progress
        known = [k for k in (*_KINDS, "cloze", "copy") if k in p.accuracy]
        shares = " ".join(f"{k} {p.accuracy[k]:.2f}" for k in known)
        seen = " ".join(f"{k} {v:.2f}" for k, v in p.seen.items())
        speed = p.tokens / max(p.seconds, 1e-9)
        return (
            f"step {p.step} {p.seconds / 60:.1f} min {p.tokens / 1e6:.2f}M tokens "
            f"{speed:.0f}/s phase {PHASES[p.phase].name} loss {p.reply_loss:.3f} | "
            f"{shares} | {seen}"
        )

    def run(self, minutes: float, export_to: Path | None) -> None:
        """Train until the leg or the budget ends."""
        leg_ends_s = min(self.budget_s, self.progress.seconds + 60 * minutes)
        saved_at_s = self.progress.seconds
        batches = self._batches()
        signal.signal(signal.SIGTERM, self._stop)
        # processor time, so that a stopped or starved process does not use up its budget
        clock = time.process_time if self.profile.device == "cpu" else time.monotonic
        before_s = clock()
        while self.progress.seconds < leg_ends_s and not self._stopping:
            self.step(next(batches))
            now_s = clock()
            self.progress.seconds += now_s - before_s
            before_s = now_s
            if self.progress.step % 25 == 0:
                print(self.line(), flush=True)
            if self.progress.ready_to_move_on(self.budget_s):
                self.progress.phase += 1
                self.progress.phase_step = 0
                print("moving on", json.dumps(self.progress.accuracy), flush=True)
                batches = self._batches()
            if self.progress.seconds - saved_at_s > _CHECKPOINT_EVERY_S:
                saved_at_s = self.progress.seconds
                self.save()
                self._export(export_to)
        self.save()
        self._export(export_to)


def main() -> None:
    home = Path(os.environ.get("HEDDLE_HOME", Path.home() / ".cache" / "heddle"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="cpu")
    parser.add_argument("--checkpoints", default=str(home / "reader-checkpoints"))
    parser.add_argument("--minutes", type=float, default=1e9, help="length of this leg")
    parser.add_argument("--budget-minutes", type=float, help="all legs together")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument(
        "--export", type=Path, help="where to write the reader, at every checkpoint"
    )
    args = parser.parse_args()
    Trainer(args).run(args.minutes, args.export)


if __name__ == "__main__":
    main()
