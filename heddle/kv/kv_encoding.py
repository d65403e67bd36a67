"""The number types that stored chunk KV may have."""

from enum import Enum


class KvEncoding(Enum):
    """The number type that stored KV has."""

    AS_COMPUTED = "as_computed"
    BF16 = "bf16"
    INT8 = "int8"  # with a scale for each layer, head and channel of a chunk
