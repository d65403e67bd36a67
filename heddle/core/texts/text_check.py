"""Text that can be stored and tokenized: every character is whole."""

from heddle.core.errors import InputError


def check_unicode(text: str, field: str) -> None:
    """Refuse a text with half a character in it.

    A command line that is no UTF-8, or an escape in JSON, arrives as a lone surrogate.

    Raises:
        InputError: it has one; the message names `field`.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{field} is not valid Unicode: {text!r:.40} holds half a character; send UTF-8"
        ) from error
