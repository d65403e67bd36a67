"""Token ids of a chat template's own text, where control tokens are recognised."""

from tokenizers import Tokenizer


def control_ids(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """Return a template text's ids, control tokens recognised."""
    return tuple(tokenizer.encode(text, add_special_tokens=False).ids)


def absorbed_lead(tokenizer: Tokenizer) -> str:
    """Return the space that the decoder takes from the start of a text; "" if it takes none."""
    ids = tokenizer.encode(" a", add_special_tokens=False).ids
    return "" if tokenizer.decode(ids).startswith(" ") else " "


def head_ids(tokenizer: Tokenizer, head: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids of what begins a prompt, and those of it without the space at its end.

    A text that begins with no control token gets the space that the decoder would take away.
    """
    ids, lead = control_ids(tokenizer, head), ""
    if ids and ids[0] not in tokenizer.get_added_tokens_decoder():
        lead = absorbed_lead(tokenizer)
        ids = control_ids(tokenizer, lead + head)
    return ids, control_ids(tokenizer, lead + head.removesuffix(" "))


def native_prefix(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the special tokens that the tokenizer's own post-processor puts first."""
    encoding = tokenizer.encode("a")
    plain = encoding.special_tokens_mask.index(0) if 0 in encoding.special_tokens_mask else 0
    return tuple(encoding.ids[:plain])
