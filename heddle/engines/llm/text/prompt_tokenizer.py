"""Prompts as segments of token ids, with `tokenizers` alone: no torch in the main process."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self

from tokenizers import Tokenizer

from heddle.core.errors import TOO_LONG, ConfigError, InputError
from heddle.core.passages import Passage
from heddle.core.payloads import Segment, SegmentRole
from heddle.core.prompts.chat_turns import BareText, ChatTurns
from heddle.core.system_text import PromptPart, SystemText
from heddle.engines.llm.text.chat_template import ChatTemplate, read_json
from heddle.engines.llm.text.template_ids import (
    absorbed_lead,
    control_ids,
    head_ids,
    native_prefix,
)
from heddle.engines.llm.text.token_bound import TokenBound
from heddle.engines.llm.text.turn_prompts import TurnPrompts

CACHED_TEXTS_MAX = 2048  # passages and prompt literals; about 10 kB each
CACHED_CHARS_MAX = 8192  # a longer text is encoded anew each time
UTF8_BYTES_MAX = 4  # of a character


@dataclass(frozen=True, slots=True)
class PromptFrame:
    """What stands around the parts of every prompt.

    `head` is text; `bare_head_ids` are its ids where a last space went to the part after it.
    """

    head: str
    head_ids: tuple[int, ...]
    bare_head_ids: tuple[int, ...]
    tail_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SystemFrame:
    """What stands before a system text, and the frame of the prompt after it."""

    head: str
    head_ids: tuple[int, ...]
    frame: PromptFrame


class PromptTokenizer:
    """Encodes a prompt part by part; a part's ids depend on nothing but the border before it.

    Satisfies heddle.core.ports.Tokenizer. The joined ids decode to the joined text:

    * No special tokens are added for a part. A chat template writes the model's own; a base
      model without a template gets in front what its post-processor would add (<s>).
    * Tokenizers of the SentencePiece kind (Llama 2, Mistral) put a space before a text, here
      before every part. That is switched off; the text at the very start gets one where the
      decoder takes it away again. A tokenizer that hides a space at each start of a line (the
      reader's) keeps it, also where a part starts the line; the template's tail and a slot
      that is filled later are taken to continue one.
    * Between two texts ("Question: " and the question) the space goes with the word after it,
      as models know words. Before a passage, whose ids must not depend on what stands before
      it, and before a slot that is not written yet, it stays where it is.
    * Text never becomes a control token: special tokens, and added tokens that the template
      writes, are only recognised in the template itself. "<|end|>" in a passage is encoded as
      the characters it is made of.
    * A system text stands where the template has it; where it has no place for one, the system
      text and a blank line begin the prompt.

    Deviates: tokenizers that put such a space also after each special token (Llama 2 "legacy")
        are followed in the ids only up to that space, because the joined text doesn't have it.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        frame: PromptFrame,
        *,
        system: SystemFrame | None = None,
        control_ids: frozenset[int],
        context_tokens_max: int,
        bound: TokenBound | None = None,
        bare_prefix: tuple[int, ...] = (),
        turns: TurnPrompts | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._frame = frame
        self._system = system
        self._control_ids = control_ids
        self._context_tokens_max = context_tokens_max
        self._bound = bound
        self._bare_prefix, self._bare_lead = bare_prefix, absorbed_lead(tokenizer)
        self._turns = turns
        self._first_lead = "" if frame.head_ids else absorbed_lead(tokenizer)
        self._newline_ids = self._encode("\n")
        glued = self._newline_ids + self._encode("a")
        self._hides_line_spaces = self._encode("\na") != glued
        self._encode_cached = lru_cache(maxsize=CACHED_TEXTS_MAX)(self._encode_part)

    @classmethod
    def from_directory(cls, directory: Path, context_tokens_max: int | None = None) -> Self:
        """Read tokenizer.json, config.json and the chat template of a model directory.

        Args:
            directory: the model's.
            context_tokens_max: what prompts may have, where that is less than the model takes.

        Raises:
            ConfigError: one of them is missing or can't be used; the message names it.
        """
        spec = read_json(directory / "tokenizer.json")
        if not spec:
            raise ConfigError(
                f"model directory {directory} has no tokenizer.json; "
                "save it with save_pretrained of a fast tokenizer"
            )
        template = ChatTemplate.from_directory(directory)
        controls = _mark_controls(spec, template)
        _drop_dummy_spaces(spec)
        tokenizer = _load(spec, directory)
        prefix = native_prefix(tokenizer)
        if template is None:
            frame, system, turns = PromptFrame("", prefix, prefix, ()), None, None
        else:
            frame = _encode_template(tokenizer, template.head, template.tail)
            system = _encode_system(tokenizer, template)
            turns = TurnPrompts(template, _load(spec, directory), controls)
        tokenizer.encode_special_tokens = True  # from here on, special tokens are plain text
        context = _context_tokens_max(directory)
        return cls(
            tokenizer,
            frame,
            system=system,
            control_ids=frozenset(controls.values()),
            context_tokens_max=min(context, context_tokens_max or context),
            bound=TokenBound.of(spec, tokenizer),
            bare_prefix=prefix,
            turns=turns,
        )

    @property
    def context_tokens_max(self) -> int:
        """The most tokens of a prompt: the model's context length, or less."""
        return self._context_tokens_max

    def check_length(self, parts: Sequence[PromptPart]) -> None:
        """Refuse a prompt whose bytes alone show that it can't fit; nothing is tokenised."""
        texts = [text for text in map(_text, parts) if text]
        chars = sum(map(len, texts))
        if self._bound is None or chars * UTF8_BYTES_MAX <= self._context_tokens_max:
            return
        tokens_min = sum(map(self._bound.tokens_min, texts))
        if tokens_min > self._context_tokens_max:
            raise InputError(
                f"the prompt has {chars} characters, at least {tokens_min} tokens, and "
                f"{self._context_tokens_max} fit (context_tokens_max): "
                "retrieve fewer passages (lower topk) or shorten the question",
                code=TOO_LONG,
            )

    def encode_prompt(self, parts: Sequence[PromptPart]) -> tuple[Segment, ...]:
        """Return the segments of a chat prompt: head, one for each part, tail.

        Turns are rendered by the chat template with as many segments as that needs. A bare text
        gets what the tokenizer puts before any text, and no system text.

        Raises:
            InputError: the model has no chat template for turns, or its template refuses them.
        """
        if parts and isinstance(parts[-1], ChatTurns):
            return self._in_turns(parts[-1], parts[:-1])
        if parts and isinstance(parts[-1], BareText):
            # As the tokenizer itself has a text: with the space that its decoder takes away.
            ids = self._ids(self._bare_lead + parts[-1].text, at_line=False)
            return Segment(self._bare_prefix), Segment(ids), Segment(())
        if not parts or not isinstance(parts[0], SystemText):
            return self._in_frame(self._frame, parts)
        text, rest = parts[0].text, parts[1:]
        if self._system is None:
            return self._in_frame(self._frame, (f"{text}\n\n", *rest))
        between, *others = self._in_frame(self._system.frame, rest)
        at_line = self._system.head.endswith("\n")
        system_ids = (*self._ids(text, at_line), *(between.token_ids or ()))
        return (Segment(self._system.head_ids), Segment(system_ids), *others)

    def _in_turns(self, chat: ChatTurns, before: Sequence[PromptPart]) -> tuple[Segment, ...]:
        if self._turns is None:
            raise InputError(
                "messages: this model has no chat template: send one text to /v1/completions, or "
                "name a workflow",
                param="messages",
            )
        system = "".join(part.text for part in before if isinstance(part, SystemText))
        return self._turns.encode(chat.with_system(system), self._ids)

    def _in_frame(self, frame: PromptFrame, parts: Sequence[PromptPart]) -> tuple[Segment, ...]:
        texts = [frame.head, *map(_text, parts)]
        takes = [_takes_space(texts[i], part) for i, part in enumerate(parts)] + [False]
        segments = [Segment(frame.bare_head_ids if takes[0] else frame.head_ids)]
        at_line = frame.head.endswith("\n")
        for i, part in enumerate(parts):
            text = texts[i + 1]
            if text is None:
                segments.append(Segment(None, SegmentRole.SLOT))
                at_line = False
                continue
            lead = " " if takes[i] else self._first_lead if i == 0 else ""
            text = lead + (text[:-1] if takes[i + 1] else text)
            segments.append(_segment(part, self._ids(text, at_line)))
            at_line = text.endswith("\n") if text else at_line
        return (*segments, Segment(frame.tail_ids))

    def encode_slot(self, text: str) -> tuple[int, ...]:
        """Return the token ids that fill a pending segment."""
        return self._ids(text, at_line=False)

    def _ids(self, text: str, at_line: bool) -> tuple[int, ...]:
        encode = self._encode_cached if len(text) <= CACHED_CHARS_MAX else self._encode_part
        return encode(text, at_line and self._hides_line_spaces)

    def _encode_part(self, text: str, after_newline: bool) -> tuple[int, ...]:
        """Encode a text; after a newline, as the tokenizer would go on there."""
        if after_newline:
            ids, skipped = self._encode("\n" + text), len(self._newline_ids)
            if ids[:skipped] == self._newline_ids:
                return ids[skipped:]
        return self._encode(text)

    def _encode(self, text: str) -> tuple[int, ...]:
        try:
            if len(text) > CACHED_CHARS_MAX:  # a batch lets other threads run meanwhile
                [encoding] = self._tokenizer.encode_batch([text], add_special_tokens=False)
            else:
                encoding = self._tokenizer.encode(text, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError) as error:
            raise InputError(
                f"text is not valid Unicode and can't be tokenized: {error}"
            ) from error
        if self._control_ids.isdisjoint(encoding.ids):
            return tuple(encoding.ids)
        # A model whose vocabulary holds its control tokens as words can still match them (a
        # Unigram does): such a match is encoded again, character by character.
        ids: list[int] = []
        for token_id, (start, stop) in zip(encoding.ids, encoding.offsets, strict=True):
            if token_id in self._control_ids:
                for character in text[start:stop]:
                    ids += self._tokenizer.encode(character, add_special_tokens=False).ids
            else:
                ids.append(token_id)
        return tuple(ids)


def _text(part: PromptPart) -> str | None:
    if isinstance(part, SystemText | ChatTurns | BareText):
        return part.text
    return part.render() if isinstance(part, Passage) else part


def _takes_space(before: str | None, part: PromptPart) -> bool:
    """Whether the space that ends `before` belongs to the word that this part begins with."""
    if before is None or not before.endswith(" ") or not isinstance(part, str):
        return False
    return bool(part) and not part[0].isspace()


def _segment(part: PromptPart, ids: tuple[int, ...]) -> Segment:
    if isinstance(part, Passage) and not part.is_own:
        return Segment(
            ids,
            SegmentRole.CHUNK,
            part.chunk_id,
            is_public=not part.tenant,
            collection=part.collection,
        )
    return Segment(ids)


def _load(spec: Mapping[str, object], directory: Path) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_str(json.dumps(spec))
    except Exception as error:  # `tokenizers` raises a bare Exception for a malformed file
        raise ConfigError(
            f"{directory / 'tokenizer.json'} can't be read as a tokenizer: {error}"
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _mark_controls(spec: Mapping[str, object], template: ChatTemplate | None) -> dict[str, int]:
    """Mark as special the added tokens that the template writes; return the control tokens.

    Mutates: `spec`. Marking keeps every token's id, which leaving tokens out would not.
    """
    written = template.source + template.head + template.tail if template else ""
    controls: dict[str, int] = {}
    for token in _objects(spec.get("added_tokens")):
        content = str(token["content"])
        if content in written and not content.isspace():
            token["special"] = True
        if token["special"]:
            controls[content] = int(str(token["id"]))
    return controls


def _drop_dummy_spaces(spec: dict[str, object]) -> None:
    """Switch off every step that puts a space before a text.

    Mutates: `spec`, its normalizer and pre-tokenizer.
    """
    normalizer = spec.get("normalizer")
    if isinstance(normalizer, dict):
        if normalizer.get("type") == "Prepend":
            spec["normalizer"] = None
        elif normalizer.get("type") == "Sequence":
            steps = _objects(normalizer["normalizers"])
            normalizer["normalizers"] = [s for s in steps if s.get("type") != "Prepend"]
    for step in _steps(spec.get("pre_tokenizer")):
        if "prepend_scheme" in step:
            step["prepend_scheme"] = "never"
        if "add_prefix_space" in step:
            step["add_prefix_space"] = False


def _steps(pre_tokenizer: object) -> Iterator[dict[str, object]]:
    """Yield a pre-tokenizer, or the members of a sequence of them."""
    if isinstance(pre_tokenizer, dict):
        yield pre_tokenizer
        for member in _objects(pre_tokenizer.get("pretokenizers")):
            yield from _steps(member)


def _objects(value: object) -> list[dict[str, object]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _encode_template(tokenizer: Tokenizer, head_text: str, tail: str) -> PromptFrame:
    """Encode head and tail; here alone are control tokens recognised."""
    ids, bare_ids = head_ids(tokenizer, head_text)
    return PromptFrame(head_text, ids, bare_ids, control_ids(tokenizer, tail))


def _encode_system(tokenizer: Tokenizer, template: ChatTemplate) -> SystemFrame | None:
    if template.system_head is None or template.system_end is None:
        return None
    head = _encode_template(tokenizer, template.system_head, "").head_ids
    end = template.system_end
    frame = PromptFrame(
        end,
        control_ids(tokenizer, end),
        control_ids(tokenizer, end.removesuffix(" ")),
        control_ids(tokenizer, template.tail),
    )
    return SystemFrame(template.system_head, head, frame)


def _context_tokens_max(directory: Path) -> int:
    """Read the context length; YaRN stretches the length the model was trained on."""
    config = read_json(directory / "config.json")
    inner = config.get("text_config")
    config = inner if isinstance(inner, dict) else config
    length = config.get("max_position_embeddings")
    if not isinstance(length, int):
        raise ConfigError(f"{directory / 'config.json'} has no max_position_embeddings")
    rope = config.get("rope_parameters") or config.get("rope_scaling")
    if isinstance(rope, dict) and rope.get("rope_type", rope.get("type")) == "yarn":
        trained = rope.get("original_max_position_embeddings", length)
        return max(length, int(trained * rope.get("factor", 1)))
    return length
