import sys
from pathlib import Path

from tools.first_evening import Tried, environment, tried


def test_a_command_is_timed_and_its_words_are_kept(tmp_path: Path) -> None:
    program = tmp_path / "loom"
    program.symlink_to(sys.executable)
    code = (
        "import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr); sys.exit(3)"
    )
    one = tried(tmp_path, tmp_path, "loom", "-c", code)
    assert (one.code, one.said) == (3, "out\nerr\n")
    assert one.cpu_s > 0
    assert one.row.startswith('| `loom -c "import sys;')


def test_nothing_of_the_checkout_reaches_the_user(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    monkeypatch.setenv("HEDDLE_CACHE", "full")
    found = environment(tmp_path)
    assert "PYTHONPATH" not in found
    assert found["HEDDLE_CACHE"] == str(tmp_path / "cache")


def test_long_words_are_cut_to_their_end() -> None:
    short = Tried("heddle ask", 0, 1.0, 2.0, "three years\n")
    assert short.excerpt == "```\n$ heddle ask\nthree years\n```"
    long = Tried("heddle index", 0, 1.0, 2.0, "\n".join(map(str, range(100))))
    assert long.excerpt.splitlines()[2:4] == ["...", "86"]
    assert long.excerpt.splitlines()[-2:] == ["99", "```"]
