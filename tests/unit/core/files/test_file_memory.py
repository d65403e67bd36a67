"""A file's bytes in memory: the same however they came there."""

from unittest.mock import patch

import pytest

from heddle.core.files import file_memory as module
from heddle.core.files.file_memory import file_memory, huge_memory


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(range(256)) * 100)
    return path


@pytest.mark.parametrize("read_max", [0, 1 << 30])
def test_bytes_are_those_of_the_file_and_may_be_written(file, read_max):
    with patch.object(module, "READ_BYTES_MAX", read_max):
        memory = file_memory(file)
    assert memory[:] == file.read_bytes()
    memory[0] = 9
    assert file.read_bytes()[0] == 0


def test_without_huge_pages_a_file_is_mapped(file, tmp_path):
    (tmp_path / "enabled").write_text("always madvise [never]\n")
    for setting in (tmp_path / "enabled", tmp_path / "missing"):
        with patch.object(module, "SETTING", setting):
            assert huge_memory(10) is None
            assert file_memory(file)[:] == file.read_bytes()


def test_an_empty_file_has_no_memory(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="empty"):
        file_memory(tmp_path / "empty")
