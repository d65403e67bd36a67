"""`--model smollm2-multihop`: SmolLM2 with a low-rank change added to its weights.

The change was trained on questions that take several passages (`adapters/multihop.md`). With it a
small model answers enough of them, in few words, for policies of KV reuse to differ. The change is
added once (Hu et al., arXiv 2106.09685), so the model is as fast as the one it is made of.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Final

from heddle.app.models.made_once import made_once
from heddle.app.models.prompt_files import PROMPTS_FILE
from heddle.app.models.smollm2 import PROMPTS, SMOLLM2, smollm2_directory
from heddle.core.errors import InputError

MULTIHOP: Final = f"{SMOLLM2}-multihop"
ADAPTER: Final = Path(__file__).parent / "adapters" / "multihop.safetensors"
_WEIGHTS: Final = "model.safetensors"


def multihop_directory(adapter: Path = ADAPTER) -> Path:
    """Return the adapted model's Hugging Face directory, made first where the cache lacks it.

    Raises:
        InputError: a package that SmolLM2 needs isn't installed, or the adapter isn't there or is
            of other weights.
    """
    if not adapter.is_file():
        raise InputError(f"model {MULTIHOP!r} has no weights in {adapter}: run `make multihop`")
    base = smollm2_directory()
    digest = hashlib.sha256(adapter.read_bytes()).hexdigest()[:12]
    directory = base.with_name(f"{base.name}-multihop-{digest}")
    made_once(directory, lambda part: merge(base, adapter, part))
    return directory


def merge(base: Path, adapter: Path, directory: Path) -> None:
    """Write a model whose weights have an adapter's changes added.

    Args:
        base: the directory of the model that the adapter was trained on.
        adapter: `NAME.up` [out, rank] and `NAME.down` [rank, in] for weights `NAME.weight`
            [out, in]; its metadata names the base.
        directory: is filled.

    Raises:
        InputError: the adapter is another model's.
    """
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file

    with safe_open(adapter, "numpy") as file:
        meant = (file.metadata() or {}).get("base")
    if meant != base.name:
        raise InputError(f"the adapter {adapter} is of {meant!r}, not of {base.name!r}")
    weights, factors = load_file(base / _WEIGHTS), load_file(adapter)
    for name in (key.removesuffix(".up") for key in factors if key.endswith(".up")):
        up, down = (factors[f"{name}.{side}"].astype("float32") for side in ("up", "down"))
        weight = weights[f"{name}.weight"]
        weights[f"{name}.weight"] = (weight.astype("float32") + up @ down).astype(weight.dtype)
    for path in base.iterdir():
        if path.name not in (_WEIGHTS, PROMPTS_FILE):
            shutil.copyfile(path, directory / path.name)
    save_file(weights, directory / _WEIGHTS, metadata={"format": "pt"})
    # It was trained with this prompt word for word, and with no line behind the passages.
    prompts = {role: {**prompt, "fence": False} for role, prompt in PROMPTS.items()}
    (directory / PROMPTS_FILE).write_text(json.dumps(prompts, indent=1), encoding="utf-8")
