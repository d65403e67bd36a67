import gzip

import pytest

from heddle.core.errors import InputError
from heddle.evals.row import Row, json_document, json_lines, rows_of
from tests.unit.evals.data_files import write_lines

ROW = Row(
    "f.jsonl, line 3",
    {
        "text": " hi ",
        "blank": " ",
        "texts": ["a", "b"],
        "rows": [{"x": 1}],
        "pairs": [[0, 2]],
        "n": 3,
        "minus": -1,
        "flag": True,
        "null": None,
        "row": {"y": "z"},
        "long": ["v" * 100],
    },
)


def test_values_as_they_are():
    assert (ROW.text("text"), ROW.filled_text("text")) == (" hi ", "hi")
    assert ROW.text("null", "none") == ROW.text("gone", "none") == "none"
    assert ROW.texts("texts") == ("a", "b")
    assert ROW.rows("rows")[0].number("x") == 1
    assert ROW.row("row").text("y") == "z"
    assert ROW.pairs("pairs") == ((0, 2),)
    assert ROW.number("n") == 3
    assert ROW.flag("flag")
    assert not ROW.flag("gone")
    assert not ROW.has("null")


@pytest.mark.parametrize(
    ("getter", "name"),
    [
        ("text", "n"),
        ("text", "gone"),
        ("filled_text", "blank"),
        ("texts", "rows"),
        ("texts", "text"),
        ("rows", "texts"),
        ("row", "rows"),
        ("pairs", "texts"),
        ("pairs", "n"),
        ("number", "flag"),
        ("flag", "n"),
    ],
)
def test_a_refusal_names_file_line_and_field(getter, name):
    with pytest.raises(InputError, match=rf"^f\.jsonl, line 3: field '{name}' .*, is "):
        getattr(ROW, getter)(name)


def test_a_field_within_a_list_is_named_by_its_place_and_long_values_are_cut():
    with pytest.raises(InputError, match=r"line 3, field 'rows'\[0\]: field 'x' must be a string"):
        ROW.rows("rows")[0].text("x")
    with pytest.raises(InputError, match=r"…$"):
        ROW.text("long")


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_lines_are_counted_with_blank_ones(tmp_path, name):
    path = write_lines(tmp_path / name, ["\ufeff" + '{"a": 1}\n', "\n", '{"a": 2}\n'])
    found = list(json_lines(path))
    assert [row.number("a") for row in found] == [1, 2]
    assert found[1].where.endswith(f"{name}, line 3")


@pytest.mark.parametrize(
    ("line", "message"),
    [("{oops\n", "not JSON"), ("[1]\n", "must be a JSON object, is a list")],
)
def test_bad_lines_are_named(tmp_path, line, message):
    path = write_lines(tmp_path / "bad.jsonl", ['{"a": 1}\n', line])
    rows = json_lines(path)
    assert next(rows).number("a") == 1
    with pytest.raises(InputError, match=rf"bad\.jsonl, line 2: {message}"):
        next(rows)


def test_unreadable_files(tmp_path):
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b'{"a": 1}\n' * 5000)[:-20])
    with pytest.raises(InputError, match="damaged gzip"):
        list(json_lines(cut))
    with pytest.raises(InputError, match="damaged gzip"):
        json_document(cut)
    for read in (json_document, lambda path: list(json_lines(path))):
        with pytest.raises(InputError, match="can't be read"):
            read(tmp_path / "gone.json")
    (tmp_path / "latin.json").write_bytes(b'"\xe9"')
    with pytest.raises(InputError, match="not UTF-8"):
        json_document(tmp_path / "latin.json")


def test_items_of_a_list_are_named():
    with pytest.raises(InputError, match="x, item 1: must be a JSON object, is a int"):
        list(rows_of([{}, 7], "x"))
