"""Which lines of a passage are shown."""

from hypothesis import example, given
from hypothesis import strategies as st

from heddle.cli.output.best_lines import CUT, WIDTH_MIN, best_lines

TEXT = """The mill stands in Elmford. It was built of oak in the year 1911.
Nobody lives there.

Ann Reed owned the mill, and after her
Tom Hill.

- flour is sold on Mondays
- bread on Fridays
"""


def test_a_short_text_is_whole_and_keeps_its_lists():
    assert best_lines(TEXT, "mill", width=200, lines_max=9) == [
        "The mill stands in Elmford. It was built of oak in the year 1911. Nobody lives there.",
        "Ann Reed owned the mill, and after her",
        "Tom Hill.",
        "- flour is sold on Mondays",
        "- bread on Fridays",
    ]


def test_a_long_one_is_cut_around_the_words_of_the_query():
    shown = best_lines(TEXT, "When are flours and bread sold?", width=200, lines_max=2)
    assert shown == [f"{CUT}- flour is sold on Mondays", "- bread on Fridays"]
    shown = best_lines(TEXT, "Who owned it?", width=200, lines_max=1)
    assert shown == [f"{CUT}Ann Reed owned the mill, and after her{CUT}"]


def test_without_a_word_of_the_query_it_begins_at_the_beginning():
    assert best_lines(TEXT, "tides", width=40, lines_max=1)[0].startswith("The mill stands")


@example(f"0-{18 * '0'}\x1b00", 18 * "0", 1, 1)  # cut at both ends
@given(st.text(max_size=400), st.text(max_size=40), st.integers(1, 120), st.integers(1, 6))
def test_bounds(text: str, query: str, width: int, lines_max: int):
    shown = best_lines(text, query, width=width, lines_max=lines_max)
    assert len(shown) <= lines_max
    assert all(0 < len(line) <= max(WIDTH_MIN, width) for line in shown)
