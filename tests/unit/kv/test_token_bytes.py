"""Keys outlive a process and a machine: so must the bytes that they are digests of."""

import numpy as np
import pytest

from heddle.kv.token_bytes import token_bytes


@pytest.mark.parametrize("tokens", [(), (7,), (1, 2, 300, 2**40), [0, 65_535]])
def test_tokens_are_eight_bytes_each_the_lowest_first(tokens):
    expected = b"".join(token.to_bytes(8, "little") for token in tokens)
    assert token_bytes(tokens) == expected
    assert token_bytes(np.array(tokens, np.int64)) == expected
