"""Bytes to text.

A byte order mark decides; else UTF-8; else the encoding that an HTML page declares, UTF-8 with
damaged places, or the old Western code page cp1252, with a warning in the log. NUL bytes, other
control characters in what is not UTF-8, and bytes that cp1252 has no character for mean that it is
no text at all. What makes text bold or coloured on a terminal is left out.
"""

import codecs
import logging
import re
from pathlib import Path

from heddle.core.errors import InputError

_log = logging.getLogger(__name__)

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16's, with which it begins
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# A page names its encoding in a tag, or in the first line of its XML.
_DECLARED = re.compile(
    rb"""(?:<meta[^>]{0,200}charset|<\?xml[^>]{0,100}encoding)\s{0,9}=\s{0,9}["']?([\w.:-]{1,40})""",
    re.IGNORECASE,
)
_HEAD_BYTES = 4096
_WESTERN = "cp1252"
# What browsers read by another name: the larger set of the same system. (encoding.spec.whatwg.org)
_MEANT = {
    "ascii": "cp1252",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-11": "cp874",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "tis-620": "cp874",
}
# A tag that was found among bytes of ASCII can't be of these.
_UNREADABLE_AS_ASCII = ("utf-16", "utf-32")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_UNWANTED = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]|[\ud800-\udfff]")
# Bold, underlined and coloured text on a terminal, as manual pages and logs have it: an escape
# sequence (ECMA-48, CSI), or a character that the next one is struck over.
_TERMINAL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[^\n]\x08")
_LINE_ENDS = re.compile(r"\r\n?|\x0c|\u2028|\u2029|\x85")


def declared_encoding(content: bytes) -> str:
    """Return the encoding that a page of HTML or XHTML declares; UTF-8 where it declares none."""
    found = _DECLARED.search(content[:_HEAD_BYTES])
    return found[1].decode("ascii") if found else "utf-8"


def decode(content: bytes, path: Path, declared: str = "utf-8") -> str:
    """Return the text of a file's content.

    Args:
        content: the whole file.
        path: names the file in errors.
        declared: what to try after UTF-8, such as the charset of an HTML page.

    Raises: InputError: it looks like binary data.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _decode_marked(content[len(mark) :], encoding, path)
    if b"\x00" in content:
        raise _binary(path, "NUL bytes")
    try:
        return clean(_unstyled(content.decode("utf-8")))
    except UnicodeDecodeError as error:
        return _decode_old(content, path, declared, error)


def clean(text: str) -> str:
    """Return text as it is stored: lines end with \\n, no control characters or lone surrogates."""
    return _UNWANTED.sub(_replacement, _LINE_ENDS.sub("\n", text))


def check_clean(name: str, field: str) -> None:
    """Refuse a name that would be stored as another, for then two could become one.

    Raises: InputError: `clean` would change it; the message names `field`.
    """
    if clean(name) != name:
        raise InputError(f"{field} must have no control characters and no half ones")


def _replacement(found: re.Match[str]) -> str:
    # A lone surrogate stood for a character; the others are separators or noise.
    return "\ufffd" if "\ud800" <= found[0] <= "\udfff" else " "


def _unstyled(text: str) -> str:
    """Return text without what makes it bold or coloured on a terminal."""
    return _TERMINAL.sub("", text)


def _decode_marked(content: bytes, encoding: str, path: Path) -> str:
    try:
        return clean(_unstyled(content.decode(encoding)))
    except UnicodeDecodeError as error:
        raise _binary(path, f"a byte order mark of {encoding}, but {error.reason}") from error


def _decode_old(content: bytes, path: Path, declared: str, error: UnicodeDecodeError) -> str:
    for encoding in _tried(declared):
        try:
            # Each byte of a Western text is a character, so that there nothing may be damaged.
            text = content.decode(encoding, "strict" if encoding == _WESTERN else "replace")
        except (UnicodeError, LookupError):
            continue
        damaged = text.count("\ufffd")
        beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
        text = _unstyled(text)
        if 2 * damaged > beyond_ascii or _CONTROLS.search(text):
            continue
        if damaged:
            _log.warning("%s: read as %s, damaged characters: %d", path, encoding, damaged)
        else:
            _log.warning("%s: not UTF-8, read as %s", path, encoding)
        return clean(text)
    raise _binary(path, f"not UTF-8 at byte {error.start}") from error


def _tried(declared: str) -> tuple[str, ...]:
    """Return the encodings to try, in order; cp1252 last, as it fits nearly every text."""
    named = _as_browsers(declared)
    return ("utf-8", _WESTERN) if named in ("utf-8", _WESTERN) else (named, "utf-8", _WESTERN)


def _as_browsers(declared: str) -> str:
    """Return the encoding that is meant by a name."""
    label = declared.lower().removeprefix("x-").replace("windows-", "cp")
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return declared
    return "utf-8" if name.startswith(_UNREADABLE_AS_ASCII) else _MEANT.get(name, name)


def _binary(path: Path, reason: str) -> InputError:
    return InputError(f"{path}: looks like binary data ({reason}); save it as UTF-8 text")
