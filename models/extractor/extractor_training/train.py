"""Train the extractor in resumable legs, on one core and behind everything else.

    python -m extractor_training.train --checkpoints DIR --steps 12000

Each call goes on from the last checkpoint. The weights that answered best on the dev questions
are exported to DIR/best, with their measures.
"""

import argparse
import json
import os
import random
import shutil
import signal
import time
from dataclasses import asdict
from pathlib import Path

import torch

from .base_encoder import base_directory, untrained_model
from .export import export_extractor, load_extractor
from .handbook import is_held, kept_handbook_rows
from .measures import oracle_measures, retrieved_measures
from .rows import Row
from .split import Split, load_split
from .trainer import Plan, Trainer
from .training_list import counts, digest, training_list
from .windows import load_tokenizer
from .word_index import WordIndex

_LINE_EVERY = 50  # steps
_SAVE_EVERY_S = 120.0
_LOOK_EVERY_S = 1.0
_SAMPLE_SEED = 0


class Leg:
    """One call of the command: trains, evaluates now and then, writes the curve."""

    def __init__(self, args: argparse.Namespace) -> None:
        split = load_split()
        self._samples = _samples(split, args.evaluated)
        asked = [split.train, *self._samples.values()]
        self._index = WordIndex(
            list(split.corpus.values()), [row.question for rows in asked for row in rows]
        )
        self.folder: Path = args.checkpoints
        self.folder.mkdir(parents=True, exist_ok=True)
        written = [asked for asked in kept_handbook_rows(self.folder) if not is_held(asked[0])]
        lessons = training_list(split, self._index, written)
        plan = Plan(args.steps, args.step_tokens, args.negatives, args.learning_rate, args.seed)
        self._tokenizer = load_tokenizer(base_directory())
        self._trainer = Trainer(
            load_extractor(args.weights) if args.weights else untrained_model(args.seed),
            self._tokenizer,
            lessons,
            plan,
            self.folder / "checkpoint.pt",
        )
        self._paused_by: Path | None = args.pause_while
        self._evaluate_every_s = 60 * args.evaluate_minutes
        self._best = _best_so_far(self.folder / "best" / "config.json", len(self._samples["dev"]))
        self._is_stopping = False
        self._note({"plan": asdict(plan), "digest": digest(lessons), "rows": counts(lessons)})

    def run(self, minutes: float, export_to: Path | None) -> None:
        """Train until the steps or the minutes are over, or a signal says stop.

        export_to: where the best weights go after the last step.
        """
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        trainer = self._trainer
        begun_s = saved_s = evaluated_s = time.monotonic()
        while not (trainer.is_over or self._is_stopping or _since(begun_s) > 60 * minutes):
            self._wait_while_paused()
            trainer.step()
            if trainer.progress.step % _LINE_EVERY == 0:
                self._note(asdict(trainer.progress))
            if _since(saved_s) > _SAVE_EVERY_S:
                trainer.save()
                saved_s = time.monotonic()
            if _since(evaluated_s) > self._evaluate_every_s:
                trainer.save()
                self._evaluate()
                evaluated_s = time.monotonic()
        trainer.save()
        if not self._is_stopping:
            self._evaluate()
        if trainer.is_over and export_to is not None:
            shutil.copytree(self.folder / "best", export_to, dirs_exist_ok=True)

    def _evaluate(self) -> None:
        """Measure the average of the weights; keep it if it is the best on the dev questions."""
        trainer = self._trainer
        trainer.average.swap()
        measures: dict[str, float] = {}
        for name, rows in self._samples.items():
            found = oracle_measures(trainer.model, self._tokenizer, rows)
            found |= retrieved_measures(trainer.model, self._tokenizer, rows, self._index)
            found["questions"] = len(rows)
            measures |= {f"{name}_{key}": value for key, value in found.items()}
        score = measures["dev_f1"] + measures["dev_five_f1"]
        if score > self._best:
            self._best = score
            step = {"step": trainer.progress.step}
            export_extractor(trainer.model, self.folder / "best", step | measures)
        trainer.average.swap()
        self._note(asdict(trainer.progress) | {"measures": measures, "best": score == self._best})

    def _wait_while_paused(self) -> None:
        while self._paused_by is not None and self._paused_by.exists() and not self._is_stopping:
            time.sleep(_LOOK_EVERY_S)

    def _note(self, values: dict[str, object]) -> None:
        """Append a line to the curve."""
        line = json.dumps({"time": time.strftime("%H:%M:%S", time.gmtime())} | values)
        with (self.folder / "curve.jsonl").open("a", encoding="utf-8") as curve:
            curve.write(line + "\n")
        print(line, flush=True)

    def _stop(self, *_: object) -> None:
        """A polite end: finish the step, write the checkpoint, leave."""
        self._is_stopping = True


def _samples(split: Split, n_rows: int) -> dict[str, list[Row]]:
    """Some dev and some test questions, the same in each call; test figures choose nothing."""
    rng = random.Random(_SAMPLE_SEED)
    parts = {"dev": split.dev, "test": split.test}
    return {name: rng.sample(rows, min(n_rows, len(rows))) for name, rows in parts.items()}


def _best_so_far(config: Path, n_questions: int) -> float:
    """The score of the weights kept, 0 if it was taken on another number of dev questions."""
    measures = json.loads(config.read_text())["measures"] if config.exists() else {}
    if measures.get("dev_questions") != n_questions:
        return 0.0
    return float(measures["dev_f1"] + measures["dev_five_f1"])


def _since(past_s: float) -> float:
    return time.monotonic() - past_s


def default_checkpoints() -> Path:
    """$HEDDLE_CACHE/extractor, else ~/.cache/heddle/extractor."""
    home = Path(os.environ.get("HEDDLE_CACHE", Path.home() / ".cache" / "heddle"))
    return home / "extractor"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--checkpoints", type=Path, default=default_checkpoints())
    add("--steps", type=int, default=6_000, help="of all legs together")
    add("--minutes", type=float, default=1e9, help="length of this leg")
    add("--step-tokens", type=int, default=Plan.n_tokens)
    add("--negatives", type=int, default=Plan.n_negatives, help="passages a question")
    add("--learning-rate", type=float, default=Plan.learning_rate)
    add("--seed", type=int, default=0)
    add("--weights", type=Path, help="exported weights to begin with, instead of the encoder's")
    add("--evaluate-minutes", type=float, default=15)
    add("--evaluated", type=int, default=160, help="dev and test questions of an evaluation")
    add("--export", type=Path, help="where the best weights go after the last step")
    add("--pause-while", type=Path, help="wait while this file is there")
    args = parser.parse_args()
    os.nice(19)
    torch.set_num_threads(1)
    Leg(args).run(args.minutes, args.export)


if __name__ == "__main__":
    main()
