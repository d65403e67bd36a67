"""Reading bound parts out of an object store."""

from collections.abc import Iterable, Sequence
from typing import Final

from heddle.core.errors import WorkflowError
from heddle.core.passages import Passage
from heddle.core.prompts.chat_turns import BareText, ChatTurns
from heddle.core.results import Generated
from heddle.core.system_text import PromptPart, SystemText
from heddle.graph.primitive import Part, Read, ShownPart
from heddle.runtime.object_store import ObjectStore

# A union in isinstance() is made anew by each call, which prompts feel; a tuple isn't.
LISTS: Final = (tuple, list)
TEXTS: Final = (str, SystemText)
WHOLE: Final = (ChatTurns, BareText)


def resolve(part: Read, store: ObjectStore, reader: str) -> object:
    """Return the value of a read, one item of it or a span where it asks for that.

    Raises:
        WorkflowError: the list has no such item, or what a span is read of is no list.
    """
    value = store.get(part.key)
    if part.span is not None:
        return _span(value, part, reader)
    if part.item is None or not isinstance(value, tuple):
        return value
    if part.item >= len(value):
        slot = part.key.split("@")[0]
        raise WorkflowError(
            f"node {reader!r}: slot {slot!r} has {len(value)} item(s) and the loop wants "
            f"item {part.item + 1}; end the loop when state[{slot!r}] is empty, or set "
            "parse='text' where the slot is written"
        )
    return value[part.item]


def is_empty(needed: Read | None, store: ObjectStore, reader: str) -> bool:
    """Whether what a generation needs is empty; None = nothing has written it.

    Raises:
        WorkflowError: what a span is read of is no list.
    """
    return needed is None or not as_text(resolve(needed, store, reader)).strip()


def prompt_parts(parts: Iterable[ShownPart], store: ObjectStore, reader: str) -> list[PromptPart]:
    """Return what a prompt is made of: texts, and passages one by one; or turns as they are."""
    found: list[PromptPart] = []
    for part in parts:
        if isinstance(part, TEXTS):
            found.append(part)
            continue
        value = resolve(part, store, reader)
        if as_passages(value):
            assert isinstance(value, LISTS), "only a list holds passages"
            found.extend(_shown_beside_passages(item) for item in value)
        elif isinstance(value, WHOLE):
            found.append(value)
        else:
            found.append(as_text(value))
    return found


def query_texts(parts: Sequence[Part], store: ObjectStore, reader: str) -> tuple[str, ...]:
    """Return the texts to embed: one for each item of a list slot among the parts, else one.

    A second list slot, and an empty one, is shown as text.
    """
    values = [part if isinstance(part, str) else resolve(part, store, reader) for part in parts]
    listed = next((i for i, value in enumerate(values) if _is_list(value)), None)
    if listed is None:
        return (_joined(values),)
    items = values[listed]
    assert isinstance(items, tuple | list), "a list slot holds a list"
    return tuple(_joined([*values[:listed], item, *values[listed + 1 :]]) for item in items)


def whole_text(parts: Sequence[Part], store: ObjectStore, reader: str) -> str:
    """Return the one text of some parts; a list among them is shown as prompts show it."""
    return _joined(
        part if isinstance(part, str) else resolve(part, store, reader) for part in parts
    )


def generated(store: ObjectStore, key: str) -> Generated:
    """Return what a round of a generation has written."""
    value = store.get(key)
    assert isinstance(value, Generated), f"{key!r} holds {type(value).__name__}, not a generation"
    return value


def as_text(value: object) -> str:
    """Return a value as a prompt shows it; None, which a tool may return, is no text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, Passage):
        return value.render()
    if isinstance(value, tuple | list):
        if as_passages(value):
            return "".join(as_text(_shown_beside_passages(item)) for item in value)
        return "\n".join(as_text(item) for item in value)
    return str(value)


def joined(values: Iterable[tuple[object, str]]) -> tuple[object, ...]:
    """Return texts, and the items of lists and passages, without what is empty or there already.

    Each value comes with what stands before each of its texts.
    """
    found: dict[object, object] = {}
    for value, before in values:
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, Passage):
                found.setdefault(item.chunk_id, item)
            elif as_text(item).strip():
                shown = f"{before}{as_text(item)}"
                found.setdefault(shown, shown)
    return tuple(found.values())


def as_passages(value: object) -> tuple[Passage, ...]:
    """Return a value that is passages; anything else is none."""
    if not isinstance(value, LISTS):
        return ()
    return tuple([item for item in value if isinstance(item, Passage)])


def passages_of(part: Read | None, store: ObjectStore, reader: str) -> tuple[Passage, ...]:
    """Return the passages of a read; None = nothing has written them, so there are none."""
    return () if part is None else as_passages(resolve(part, store, reader))


def _shown_beside_passages(item: object) -> Passage | str:
    """Return an item of a list that holds passages: a text in it ends its line."""
    return item if isinstance(item, Passage) else f"{as_text(item)}\n"


def _span(value: object, part: Read, reader: str) -> tuple[object, ...]:
    assert part.span is not None, f"{part.key!r} is read whole"
    if not isinstance(value, tuple | list):
        slot = part.key.split("@")[0]
        raise WorkflowError(
            f"node {reader!r}: {{{slot}[{part.span[0]}:...]}} reads a span of a list or of "
            f"passages, and slot {slot!r} holds {type(value).__name__}"
        )
    return tuple(value[slice(*part.span)])


def _is_list(value: object) -> bool:
    return isinstance(value, LISTS) and bool(value) and not as_passages(value)


def _joined(values: Iterable[object]) -> str:
    return "".join(as_text(value) for value in values).strip()


def unique_passages(groups: Iterable[Sequence[Passage]]) -> tuple[Passage, ...]:
    """Return the passages of all groups, each chunk once, in order of first appearance."""
    found: dict[int, Passage] = {}
    for group in groups:
        for passage in group:
            found.setdefault(passage.chunk_id, passage)
    return tuple(found.values())
