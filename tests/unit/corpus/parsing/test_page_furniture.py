"""What of a page is furniture, and what is its text."""

import logging

import pytest

from heddle.corpus.parsing.html import parse_html
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.page_furniture import FurnitureError, read_without_furniture
from tests.helpers.logged import logged

BODY = "<h1>Wells</h1><p>A well is dug by hand. " + "It takes weeks and a lot of patience. " * 8


def read(page: str) -> str:
    return read_without_furniture(page, 10**6).text


def links(*names: str) -> str:
    return "".join(f'<li><a href="{name}.html">{name}</a></li>' for name in names)


@pytest.mark.parametrize(
    "furniture",
    [
        f"<nav><ul>{links('Menu one', 'Menu two')}</ul></nav>",
        '<div role="navigation">Navigation</div>',
        '<div role="search"><form>Quick search <input value="Go"></form></div>',
        f'<div class="sphinxsidebar"><h3>Navigation</h3><ul>{links("Menu one")}</ul></div>',
        f'<div class="navbar-left"><ul>{links("Menu one")}</ul></div>',
        f'<div id="toc"><ul>{links("Menu one")}</ul></div>',
        '<p class="copyright">© 2026 The Menu authors</p>',
        '<footer>Navigation <a href="x">Menu</a></footer>',
        '<p><a href="x">Edit on GitHub</a></p>',
        '<ul><li><a href="x">Show Source</a></li></ul>',
        "<button>Menu</button>",
        '<div hidden>Menu</div><span aria-hidden="true">Menu</span>',
    ],
)
def test_furniture_goes(furniture):
    found = read(f"<body>{furniture}{BODY}{furniture}</body>")
    assert found.startswith("# Wells\n\nA well is dug by hand.")
    assert not any(word in found for word in ("Menu", "Navigation", "search", "Edit", "Source"))


@pytest.mark.parametrize(
    "kept",
    [
        '<section id="menu"><h2>Menus</h2><p>kept: the menu is above.</p></section>',
        '<div class="section" id="footer"><h2>Footer</h2><p>kept: a footer stands below.</p></div>',
        '<aside class="note"><p>kept: a note beside the text.</p></aside>',
        '<p>kept: see the <a href="i">index</a> for all of them.</p>',
        '<ul><li><a href="a">kept</a></li><li><a href="b">Other page</a></li></ul>',
        "<header><h2>kept</h2></header>",
        "<blockquote>x<footer>kept</footer></blockquote>",
    ],
)
def test_text_stays_whatever_it_is_called(kept):
    assert "kept" in read(f"<body><main>{BODY}<p>{kept}</main></body>")


def test_the_main_part_is_taken_where_the_page_names_it():
    page = f"<body><div>Welcome, <b>reader</b></div><div role=main>{BODY}</div><p>Imprint</body>"
    assert read(page).startswith("# Wells")
    assert "Welcome" not in read(page)
    assert "Imprint" not in read(page)


def test_a_main_part_that_holds_little_is_not_all():
    page = f"<body><main><h1>Hello</h1></main>{BODY}</body>"
    assert "dug by hand" in read(page)


def test_a_form_around_the_whole_page_stays():
    assert "dug by hand" in read(f"<body><form action='/'>{BODY}</form></body>")


def test_marks_behind_headings_go():
    page = '<h1>Wells<a class="headerlink" href="#wells">¶</a></h1><p>text'
    assert read(page) == "# Wells\n\ntext"


def test_when_little_would_be_left_the_page_is_read_whole(tmp_path):
    words = "some words of a page that has been built without any care at all " * 10
    parts = "".join(f"<nav>{words}</nav>" for _ in range(3))
    page = f"<title>T</title><body>{parts}<p>short</body>"
    with pytest.raises(FurnitureError, match="would be left"):
        read(page)
    (tmp_path / "a.html").write_text(page)
    with logged(logging.getLogger("heddle.corpus.parsing.html")) as lines:
        (document,) = parse_html(tmp_path / "a.html", ParseLimits())
    assert document.text.count("without any care") == 30
    assert any("read with all that stands around its text: only 5 of" in line for line in lines)


def test_a_page_that_is_too_large_or_too_deep():
    with pytest.raises(FurnitureError, match="more than 3"):
        read_without_furniture("<p>text", 3)
    with pytest.raises(FurnitureError, match="too deeply"):
        read("<div>" * 5000 + "x")


def test_an_encoding_that_the_page_declares_does_no_harm():
    assert read('<?xml version="1.0" encoding="latin-1"?><html><body><p>é') == "é"
