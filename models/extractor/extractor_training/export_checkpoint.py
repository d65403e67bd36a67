"""Export the average of a checkpoint's weights, as training does with its best.

    python -m extractor_training.export_checkpoint CHECKPOINT DIR

The choice among checkpoints is made on the dev questions: see `evaluate --part dev`.
"""

import argparse
from pathlib import Path

import torch

from .base_encoder import untrained_model
from .export import export_extractor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    saved = torch.load(args.checkpoint, weights_only=True)
    model = untrained_model(seed=0)
    model.load_state_dict(saved["average"], strict=False)
    export_extractor(model, args.folder, {"step": saved["progress"]["step"]})


if __name__ == "__main__":
    main()
