import textwrap

import pytest

from heddle.evals.manuals.reference_page import reference_page

SOURCE = '''
"""A box of things."""

from functools import lru_cache

HOLDS = object()


class Box:
    """Holds things."""

    def put(self, thing, into=HOLDS):
        """Put a thing in.

        # box.put(1)  a comment, no heading
        """

    @classmethod
    def make(cls):
        """Make a box."""

    @property
    def size(self):
        """How many things it holds."""

    def undocumented(self):
        return 1

    def _hidden(self):
        """Is private."""


class Crate(Box):
    """A large box."""


def shut(box, *, gently=True):
    """Shut a box."""


def bare():
    return 1
'''


@pytest.fixture
def page(tmp_path, monkeypatch):
    (tmp_path / "made_up_boxes.py").write_text(textwrap.dedent(SOURCE))
    monkeypatch.syspath_prepend(tmp_path)
    return reference_page("made_up_boxes")


def test_a_module_becomes_a_page_with_a_heading_for_each_thing(page):
    assert page.name == "made_up_boxes.md"
    assert [line for line in page.text.splitlines() if line.startswith("#")] == [
        "# made_up_boxes",
        "## made_up_boxes.Box",
        "### made_up_boxes.Box.make",
        "### made_up_boxes.Box.put",
        "### made_up_boxes.Box.size",
        "## made_up_boxes.Crate",
        "## made_up_boxes.shut",
    ]


def test_a_call_is_shown_with_its_defaults_and_without_addresses(page):
    assert "    shut(box, *, gently=True)\n\nShut a box." in page.text
    assert "    put(self, thing, into=<object object>)" in page.text


def test_a_comment_in_code_is_no_heading(page):
    assert "\\# box.put(1)  a comment" in page.text


def test_what_is_not_installed_has_no_page():
    assert reference_page("no_such_module_anywhere") is None


def test_a_module_of_python_is_rendered_whole():
    text = reference_page("json").text
    assert "## json.JSONDecodeError" in text
    assert "Subclass of ValueError with the following additional properties" in text
