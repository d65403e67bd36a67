"""Small data files, and whether the real ones are at hand."""

import gzip
import json

import pytest

from heddle.core.errors import InputError
from heddle.evals.data_folder import data_file


def write_lines(path, rows):
    text = "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_document(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def real_file(name):
    """Return the path of a real data file, or skip the test."""
    try:
        return data_file(name)
    except InputError as error:
        pytest.skip(f"the real data is not at hand: {error}")
