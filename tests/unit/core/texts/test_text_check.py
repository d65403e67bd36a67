"""What is no text is refused, by the name of its field."""

import pytest

from heddle.core.errors import InputError
from heddle.core.texts.text_check import check_unicode


@pytest.mark.parametrize("text", ["", "plain", "Grüße", "日本語", "\U0001f9f5"])
def test_text_is_let_pass(text):
    check_unicode(text, "query")


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ud83e\uddf5 as two halves"])
def test_half_a_character_is_refused(text):
    with pytest.raises(InputError, match=r"query is not valid Unicode: .* half a character"):
        check_unicode(text, "query")
