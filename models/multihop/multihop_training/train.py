"""Train the multi-hop adapter in resumable legs, on one core and behind everything else.

    python -m multihop_training.train --steps 1200

Each call goes on from the last checkpoint. The average of the weights that answered best on the
dev questions is exported to DIR/best.safetensors.
"""

import argparse
import json
import os
import signal
import time
from dataclasses import asdict
from pathlib import Path

import torch

from heddle.app.models.smollm2 import smollm2_directory
from heddle.core.cache import cache_root
from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer

from .adapted_llama import AdaptedLlama
from .export import export_adapter
from .lesson_file import lessons_of
from .lessons import counts, digest
from .measures import dev_measures
from .trainer import Plan, Trainer

LAYERS, RANK = 16, 6  # the most whose half-precision factors stay under 2 MB
_LINE_EVERY = 25  # steps
_SAVE_EVERY_S = 120.0


class Leg:
    """One call of the command: trains, evaluates now and then, writes the curve."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.folder: Path = args.checkpoints
        self.folder.mkdir(parents=True, exist_ok=True)
        base = smollm2_directory()
        lessons = lessons_of(args.lessons)
        self._dev = lessons.dev
        self._tokenizer = PromptTokenizer.from_directory(base)
        plan = Plan(args.steps, args.step_tokens, args.learning_rate, args.seed)
        model = AdaptedLlama(base, LAYERS, RANK, args.seed, args.device)
        checkpoint = self.folder / "checkpoint.pt"
        self._trainer = Trainer(model, self._tokenizer, lessons.train, plan, checkpoint)
        self._best = self.folder / "best.json"
        self._evaluate_every = args.evaluate_steps
        self._is_stopping = False
        self._notes = {"digest": digest(lessons.train), "base": base.name}
        rows = {"train": counts(lessons.train), "dev": counts(lessons.dev)}
        self._note({"plan": asdict(plan), **self._notes, "rows": rows})

    def run(self, minutes: float) -> None:
        """Train until the steps or the minutes are over, or a signal says stop."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        trainer = self._trainer
        begun_s = saved_s = time.monotonic()
        while not (trainer.is_over or self._is_stopping or _since(begun_s) > 60 * minutes):
            trainer.step()
            step = trainer.progress.step
            if step % _LINE_EVERY == 0:
                self._note(asdict(trainer.progress))
            if _since(saved_s) > _SAVE_EVERY_S:
                trainer.save()
                saved_s = time.monotonic()
            if step % self._evaluate_every == 0 or trainer.is_over:
                self._evaluate()
        trainer.save()

    def _evaluate(self) -> None:
        """Measure the average of the weights; keep it if its answers are the likeliest so far."""
        trainer = self._trainer
        trainer.average.swap()
        found = dev_measures(trainer.model, self._tokenizer, self._dev)
        best = json.loads(self._best.read_text()) if self._best.exists() else None
        if best is None or found["loss"] < best["loss"]:
            about = {"step": trainer.progress.step, "tokens": trainer.progress.tokens, **found}
            notes = {name: str(value) for name, value in (self._notes | about).items()}
            export_adapter(trainer.model, self.folder / "best.safetensors", notes)
            self._best.write_text(json.dumps(about) + "\n")
        trainer.average.swap()
        self._note({"step": trainer.progress.step, "dev": found})

    def _note(self, values: dict[str, object]) -> None:
        """Append a line to the curve."""
        line = json.dumps({"time": time.strftime("%H:%M:%S", time.gmtime())} | values)
        with (self.folder / "curve.jsonl").open("a", encoding="utf-8") as curve:
            curve.write(line + "\n")
        print(line, flush=True)

    def _stop(self, *_: object) -> None:
        """A polite end: finish the step, write the checkpoint, leave."""
        self._is_stopping = True


def _since(past_s: float) -> float:
    return time.monotonic() - past_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--checkpoints", type=Path, default=cache_root() / "multihop")
    add("--steps", type=int, default=Plan.n_steps, help="of all legs together")
    add("--minutes", type=float, default=1e9, help="length of this leg")
    add("--step-tokens", type=int, default=Plan.n_tokens)
    add("--learning-rate", type=float, default=Plan.learning_rate)
    add("--seed", type=int, default=0)
    add("--evaluate-steps", type=int, default=100)
    add("--device", default="cpu", help="where it computes: cpu, cuda")
    add("--lessons", type=Path, help="file of the lessons; made where it is missing")
    args = parser.parse_args()
    os.nice(max(0, 19 - os.nice(0)))
    torch.set_num_threads(1)
    # Each prompt has another length, and cuDNN's attention plans each length anew.
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    Leg(args).run(args.minutes)


if __name__ == "__main__":
    main()
