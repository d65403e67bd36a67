import gzip

import pytest

from heddle.core.errors import InputError
from heddle.evals.file_lines import file_lines


@pytest.mark.parametrize("name", ["lines.tsv", "lines.tsv.gz"])
def test_more_than_the_limit_is_not_read(tmp_path, name):
    path = tmp_path / name
    content = b"one\ntwo\nthree\n"
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert list(file_lines(path, 14)) == [(1, b"one\n"), (2, b"two\n"), (3, b"three\n")]
    with pytest.raises(InputError, match=r"line 3: over the limit of .* GiB a data file; evaluate"):
        list(file_lines(path, 13))


def test_one_endless_line_is_not_read_whole(tmp_path):
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"0" * 10**6))
    with pytest.raises(InputError, match="line 1: over the limit"):
        list(file_lines(path, 1000))
