"""Export the mean of several exported weights that come from one beginning.

    python -m extractor_training.export_mean MODEL MODEL... --into DIR [--threshold SCORE]

Runs that began with the same weights and went on with other rows or rates lie close enough for
their mean to answer better than each of them. (Wortsman et al. 2022, "Model soups")
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from .export import export_extractor, load_extractor, read_config, write_config
from .span_model import SpanModel


def mean_of(folders: Sequence[Path]) -> SpanModel:
    """A model whose trained weights are the means of the folders' ones, in float32."""
    models = [load_extractor(folder) for folder in folders]
    states = [model.state_dict() for model in models]
    mean: dict[str, Tensor] = {
        name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]
    }
    models[0].load_state_dict(mean)
    return models[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--threshold", type=float, help="of a score; lower ones are declined")
    args = parser.parse_args()
    steps = [read_config(folder)["measures"].get("step", 0) for folder in args.models]
    export_extractor(mean_of(args.models), args.into, {"step": max(steps)})
    if args.threshold is not None:
        write_config(args.into, read_config(args.into) | {"threshold": args.threshold})


if __name__ == "__main__":
    main()
