import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "models" / "reader"))
heddle_reader = pytest.importorskip("heddle_reader")

try:
    FOLDER = heddle_reader.model_dir()
except FileNotFoundError:
    pytest.skip("no reader has been trained here (make reader)", allow_module_level=True)

from training import prompts  # noqa: E402
from training.prompts import ASSISTANT, BOS, EOS, USER  # noqa: E402
from transformers import AutoConfig, AutoTokenizer  # noqa: E402

from heddle.app.models.prompt_files import prompts_of  # noqa: E402
from heddle.workflow.nodes import PromptRole  # noqa: E402


def test_config_is_a_llama_with_4096_positions():
    config = AutoConfig.from_pretrained(FOLDER)
    assert config.model_type == "llama"
    assert config.max_position_embeddings == 4096


def test_every_weight_file_is_below_fifteen_megabytes_and_all_below_forty():
    sizes = [file.stat().st_size for file in FOLDER.glob("*.safetensors")]
    assert sizes
    assert max(sizes) <= 15_000_000
    assert sum(sizes) < 40_000_000


def test_chat_template_gives_the_trained_form():
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True, tokenize=False
    )
    assert chat == f"{BOS}{USER}\nHi\n{ASSISTANT}\n"
    assert tokenizer.eos_token == EOS


def test_packaged_tokenizer_round_trips():
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    for text in ("Lisbon", " a\n\n b", "Ünïcode 漢字 \U0001f600"):
        ids = tokenizer(text, add_special_tokens=False).input_ids
        assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_model_card_gives_the_accuracy_of_every_kind():
    card = (FOLDER / "MODEL_CARD.md").read_text()
    for kind in ("single_hop", "two_hop", "comparison", "coreference", "not_in_notes"):
        assert kind in card
    assert json.loads((FOLDER / "config.json").read_text())["architectures"] == ["LlamaForCausalLM"]


def test_the_packaged_prompts_are_those_it_was_trained_on():
    own = json.loads((FOLDER / "heddle_prompts.json").read_text())
    assert own["answer"]["prompt"] == prompts.ANSWER
    assert own["hypothesis"]["prompt"] == prompts.HYDE
    assert own["subquestions"]["prompt"] == prompts.DECOMPOSE
    assert own["summary"]["prompt"] == prompts.COMPRESS
    assert set(prompts_of(FOLDER)) == set(PromptRole)
