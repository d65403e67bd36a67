"""The reader's tokenizer: byte-level BPE in which a word has the same pieces wherever it stands.

A line starts with a hidden space, which decoding removes again, so that " Lisbon" in a sentence
and "Lisbon" at the start of a reply are the same pieces: copying a name never needs to translate
it. Any text without special tokens round-trips, and a text cut after a line break tokenizes like
the whole.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from .fillings import Fillings, Split
from .prompts import SPECIAL_TOKENS
from .samples import Recipe, draw_sample

VOCABULARY_SIZE = 9216
_TEXTS = 6000
_SPECIAL = re.compile("|".join(re.escape(token) for token in SPECIAL_TOKENS))
_WORDS = r"'s| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\n+|\s+(?!\S)|\s+"


def _untrained() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Prepend(" "),
            normalizers.Replace("\n", "\n "),
            # an empty line keeps no hidden space
            normalizers.Replace(Regex(r"(?<=\n) (?=\n|\z)|\A (?=\n)"), ""),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteLevel(), decoders.Replace(Regex(r"(?:\A|(?<=\n)) "), "")]
    )
    return tokenizer


def _texts(recipe: Recipe, seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    fillings = Fillings(rng, Split.TRAIN)
    for _ in range(_TEXTS):
        yield _SPECIAL.sub("", "".join(p.text for p in draw_sample(recipe, rng).pieces))
        # bare names, so that common parts of names become pieces
        yield " ".join(fillings.word(1, 2) for _ in range(20))


def train_tokenizer(recipe: Recipe, seed: int) -> Tokenizer:
    """Train on generated text only; the same seed gives the same tokenizer."""
    tokenizer = _untrained()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(recipe, seed), trainer)
    return tokenizer


def load_or_train(path: Path, recipe: Recipe, seed: int) -> Tokenizer:
    """The tokenizer kept at `path`, trained there on the first call."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        train_tokenizer(recipe, seed).save(str(path))
    return Tokenizer.from_file(str(path))


def commonest(tokenizer: Tokenizer, recipe: Recipe, seed: int, n_tokens: int) -> list[int]:
    """Ids of the tokens that samples hold most often."""
    rng = random.Random(seed)
    counts: Counter[int] = Counter()
    for _ in range(200):
        for piece in draw_sample(recipe, rng).pieces:
            counts.update(tokenizer.encode(piece.text).ids)
    return [token for token, _ in counts.most_common(n_tokens)]
