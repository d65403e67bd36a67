"""A page without its furniture: navigation, sidebars, footers, search forms, marks of links.

Three steps. The page's main part is taken where the page names one that holds enough of its text.
In it, elements go that say by their tag or role that they are furniture, and elements that are
named like furniture and consist of links. Last, links go that only serve the reader of the page,
such as "Edit on GitHub" or the paragraph sign behind a heading.

Text counts without the words of links here: a menu may well be longer than the text beside it.
"""

from dataclasses import dataclass
from typing import Final

from lxml import etree
from lxml.html import HtmlElement, HTMLParser, document_fromstring

from heddle.corpus.parsing.page_reader import PageReader

SHARE_MIN: Final = 0.25  # of the page's text: with less left, too much was taken away
# What is named like furniture goes if that share of it is links, or it says little beside them.
LINK_SHARE: Final = 0.5
OWN_CHARS_MAX: Final = 60
FEW_CHARS: Final = 200
SERVICE_CHARS_MAX: Final = 40

_NO_TEXT: Final = frozenset(
    ("script", "style", "noscript", "template", "svg", "iframe", "object", "head")
)
_ALWAYS: Final = frozenset(("nav", "button", "select", "textarea", "dialog"))
_ROLE_WORDS: Final = (
    "alertdialog banner button complementary contentinfo dialog menu menubar navigation search"
    " tablist toolbar"
)
_ROLES: Final = frozenset(_ROLE_WORDS.split())
# Words of class names. An `id` counts only whole: those of sections are made from their titles.
_CLASS_WORDS: Final = (
    "breadcrumb breadcrumbs copyright cookie footer header headerlink menu nav navbar navfooter"
    " navheader navigation pagination permalink related share sharing sidebar sidenav skip social"
    " sphinxsidebar table-of-contents toc toolbar topbar"
)
_CLASSES: Final = frozenset(_CLASS_WORDS.split())
_ID_WORDS: Final = (
    "breadcrumbs colophon footer header menu nav nav-path navbar navigation page-footer"
    " page-header sidebar side-nav site-footer site-header table-of-contents toc toolbar"
)
_IDS: Final = frozenset(_ID_WORDS.split())
_NAMED_TAGS: Final = frozenset(("div", "section", "ul", "ol", "li", "table", "p", "header", "a"))
_INLINE_WORDS: Final = "span b i em strong small code tt kbd cite abbr"
_INLINE: Final = frozenset(_INLINE_WORDS.split())
_MARKS: Final = frozenset(("¶", "#", "§", "🔗", "Link"))
_SERVICE_WORDS: Final = (
    "back to top|contents|download source|edit|edit on github|edit on gitlab|edit this page"
    "|found a bug?|history|home|improve this page|index|main page|modules|next|next page"
    "|next topic|prev|previous|previous page|previous topic|print this page|report a bug"
    "|report an issue|show source|skip to content|skip to main content|source|suggest edits"
    "|table of contents|top|up|view on github|view page source|view source|[source]|«|»|>|<"
    "|←|→"
)
_SERVICE_LINKS: Final = frozenset(_SERVICE_WORDS.split("|"))


class FurnitureError(Exception):
    """A page can't be cleared; the message says why."""


@dataclass(slots=True)
class _Amount:
    """Characters of an element's text, and those of them that are words of links."""

    text: int = 0
    links: int = 0

    @property
    def own(self) -> int:
        """Characters that are no words of links."""
        return self.text - self.links


def read_without_furniture(page: str, chars_max: int) -> PageReader:
    """Read a page's title and text without the furniture.

    Raises: FurnitureError: the page is too large or too deep for it, can't be parsed, or little
        would be left.
    """
    if len(page) > chars_max:
        raise FurnitureError(f"it has {len(page)} characters, more than {chars_max}")
    root = _tree(page)
    amounts = _amounts(root)
    body = next(root.iter("body"), root)
    main = _main_part(body, amounts)
    dropped = _furniture(main, amounts)
    left = amounts[main].own - sum(amounts[element].own for element in dropped)
    whole = amounts[body].own
    if whole > FEW_CHARS and left < SHARE_MIN * whole:
        raise FurnitureError(f"only {left} of {whole} characters would be left")
    reader = PageReader()
    reader.title = next((title.text_content() for title in root.iter("title")), "")
    _feed(reader, main, dropped)
    reader.close()
    return reader


def _tree(page: str) -> HtmlElement:
    parser = HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        # Bytes, as lxml refuses texts that declare an encoding.
        root = document_fromstring(page.encode("utf-8", "replace"), parser=parser)
    except (etree.LxmlError, ValueError, AssertionError) as error:
        raise FurnitureError(str(error) or "it can't be parsed") from error
    if any("depth" in entry.message for entry in parser.error_log):
        raise FurnitureError("its tags are nested too deeply")
    return root


def _amounts(root: HtmlElement) -> dict[HtmlElement, _Amount]:
    """Measure every element; what is never shown has no text."""
    found: dict[HtmlElement, _Amount] = {}
    for _, element in etree.iterwalk(root, events=("end",)):
        amount = _Amount()
        if element.tag not in _NO_TEXT:
            amount.text = _solid(element.text)
            for child in element:
                below = found[child]
                amount.text += below.text + _solid(child.tail)
                amount.links += below.links
            if element.tag == "a":
                amount.links = amount.text
        found[element] = amount
    return found


def _solid(text: str | None) -> int:
    """Return how many characters a text has, runs of white space counted as one."""
    return len(" ".join(text.split())) if text else 0


def _main_part(body: HtmlElement, amounts: dict[HtmlElement, _Amount]) -> HtmlElement:
    """Return the part that the page itself calls its main one, if it holds enough, else all."""
    named = [e for e in body.iter("main", "div", "section", "article") if _is_main(e)]
    articles = list(body.iter("article"))
    if not named and len(articles) == 1:
        named = articles
    best = max(named, key=lambda element: amounts[element].own, default=body)
    return best if amounts[best].own >= SHARE_MIN * amounts[body].own else body


def _is_main(element: HtmlElement) -> bool:
    return "main" in (element.tag, element.get("role"))


def _furniture(main: HtmlElement, amounts: dict[HtmlElement, _Amount]) -> set[HtmlElement]:
    """Return the outermost elements that are furniture."""
    found: set[HtmlElement] = set()
    walk = etree.iterwalk(main, events=("start",))
    for _, element in walk:
        if element is not main and _is_furniture(element, amounts, main):
            found.add(element)
            walk.skip_subtree()
    return found


def _is_furniture(
    element: HtmlElement, amounts: dict[HtmlElement, _Amount], main: HtmlElement
) -> bool:
    amount = amounts[element]
    if 2 * amount.own > amounts[main].own:
        return False  # the page's text is in it, and its name is wrong
    if element.tag in _ALWAYS or element.get("role") in _ROLES:
        return True
    if element.get("aria-hidden") == "true" or element.get("hidden") is not None:
        return True
    if element.tag in ("header", "footer", "aside", "form"):
        return not _is_in_article(element, main) or amount.links >= LINK_SHARE * amount.text
    if element.tag == "a" and amount.text <= SERVICE_CHARS_MAX and _is_service(element):
        return True
    is_little = amount.own <= OWN_CHARS_MAX or amount.links >= LINK_SHARE * amount.text
    return is_little and _is_named_so(element) and next(element.iter("h1", "h2"), None) is None


def _is_in_article(element: HtmlElement, main: HtmlElement) -> bool:
    """Whether an element belongs to a text: its heading, a note beside it, a quotation's source."""
    if element.tag == "form":
        return False
    if element.tag in ("header", "aside") and main.tag != "body":
        return True
    return any(
        above.tag in ("article", "blockquote", "section") for above in element.iterancestors()
    )


def _is_named_so(element: HtmlElement) -> bool:
    if element.tag not in _NAMED_TAGS:
        return False
    if (element.get("id") or "").lower().replace("_", "-") in _IDS:
        return True
    names = (element.get("class") or "").lower().replace("_", "-").split()
    return any(not _CLASSES.isdisjoint((name, *name.split("-"))) for name in names)


def _is_service(link: HtmlElement) -> bool:
    """Whether a link is a mark behind a heading, or all of its block and serves the page."""
    words = " ".join(link.text_content().split())
    if words in _MARKS:
        return (link.get("href") or "#").startswith("#")
    if words.lower() not in _SERVICE_LINKS:
        return False
    while (above := link.getparent()) is not None and above.tag in _INLINE and _is_alone(link):
        link = above
    return _is_alone(link)


def _is_alone(element: HtmlElement) -> bool:
    """Whether no words stand directly before or after an element."""
    before, after = element.getprevious(), element.getnext()
    above = element.getparent()
    words_before = (above.text if above is not None else "") if before is None else before.tail
    return not (
        _solid(words_before)
        or _solid(element.tail)
        or (before is not None and before.tag in _INLINE)
        or (after is not None and after.tag in _INLINE)
    )


def _feed(reader: PageReader, main: HtmlElement, dropped: set[HtmlElement]) -> None:
    """Tell the reader of the tags and texts of a tree, without what is dropped."""
    walk = etree.iterwalk(main, events=("start", "end"))
    for event, element in walk:
        is_shown = element not in dropped
        if event == "start":
            if not is_shown:
                walk.skip_subtree()
                continue
            reader.handle_starttag(str(element.tag), [])
            if element.text:
                reader.handle_data(element.text)
            continue
        if is_shown:
            reader.handle_endtag(str(element.tag))
        if element.tail and element is not main:
            reader.handle_data(element.tail)
