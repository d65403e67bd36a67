"""A day whose parts end well, with an error, by a signal, or never."""

from contextlib import suppress

import psutil
import pytest

from tools.gpu_day import child
from tools.gpu_day.__main__ import headline, main
from tools.gpu_day.day import KEPT_S, Day, Plan
from tools.gpu_day.parts import PARTS, Part
from tools.gpu_day.results import Results

FAKES = "tests.unit.tools.gpu_day.fake_parts"


def part(name, **options):
    return Part(name, f"{FAKES}:{name}", "a test", 0.1, **options)


def run(folder, *parts, **options):
    settings = {"packed": None, "budget_s": None, "jobs": 2, "again": False} | options
    day = Day(Plan(parts, "interpret", folder, **settings))
    day.run()
    return day


@pytest.fixture
def triton() -> None:
    """What every part needs, interpreted or not."""
    pytest.importorskip("triton", reason="triton isn't installed: pip install 'heddle[gpu]'")


@pytest.mark.usefixtures("triton")
@pytest.mark.slow
def test_no_part_takes_another_down_and_what_is_whole_is_not_measured_again(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(child, "IMPORTED", ("torch",))
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    packed = tmp_path / "packed.json"
    parts = [part("broken"), part("crashing"), part("hanging", limit_s=25.0), part("fine")]
    day = run(tmp_path / "one", *parts, packed=packed)
    ends = {outcome.part: outcome for outcome in day.outcomes}
    assert {name: outcome.state for name, outcome in ends.items()} == {
        "broken": "failed",
        "crashing": "failed",
        "hanging": "cut",
        "fine": "whole",
    }
    assert headline(day, 1.0) == {"parts": 1, "failed": 3, "left_out": 0, "seconds": 1.0}
    assert ends["broken"].problem == "ValueError: no such kernel"
    assert ends["crashing"].problem == "its process ended with -11"
    assert "ended by force after 25 s" in ends["hanging"].problem

    results = Results(tmp_path / "one")
    found = {name: results.read(name) for name in ends}
    assert all(result["rows"][0]["row"] == 1 for result in found.values())
    assert found["fine"]["headline"] == {"figure": 2.0}
    assert found["fine"]["command"] == "make gpu-day GPU=interpret ONLY=fine"
    assert found["fine"]["machine"]["cores"] >= 1
    assert "Traceback" in found["broken"]["said"]
    # A process that a part had started has ended with it; one that is still to be waited for stays.
    with suppress(psutil.NoSuchProcess):
        other = psutil.Process(found["hanging"]["rows"][0]["other"])
        assert other.status() == psutil.STATUS_ZOMBIE

    again = run(tmp_path / "one", part("fine"), part("broken"))
    assert [(end.part, end.state, end.is_kept) for end in again.outcomes] == [
        ("fine", "whole", True),
        ("broken", "failed", False),
    ]
    assert main(["--unpack", str(packed), "--folder", str(tmp_path / "two")]) == 0
    assert Results(tmp_path / "two").read("fine") == found["fine"]
    assert "crashing" in capsys.readouterr().out


@pytest.mark.usefixtures("triton")
def test_parts_are_left_out_where_too_little_time_is_left(tmp_path):
    day = run(tmp_path, part("fine"), budget_s=KEPT_S + 0.05)
    [outcome] = day.outcomes
    assert (outcome.state, outcome.part) == ("left", "fine")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("triton")
def test_a_part_without_its_packages_fails_in_a_line(tmp_path):
    day = run(tmp_path, part("fine", needs=("no_such_package",)))
    assert [end.problem for end in day.outcomes] == ["not installed: no_such_package"]


def test_the_day_has_the_parts_that_need_a_gpu():
    names = [one.name for one in PARTS]
    assert len(set(names)) == len(names) >= 12
    assert all(one.usual_s < one.limit_s <= 480 for one in PARTS)
    wanted = {"kernels", "sparse-attention", "fusion-ttft", "llm-steps", "graph-search"}
    wanted |= {"workflows-light", "workflows-heavy", "workflows-pairs", "hot-clusters"}
    assert wanted | {"embedding", "embedding-beside-decoding"} <= set(names)


@pytest.mark.parametrize("file", ["[]", '{"parts": 1}', "torn"])
def test_a_file_of_no_results_is_refused(file, tmp_path, capsys):
    path = tmp_path / "file"
    path.write_text(file)
    assert main(["--unpack", str(path), "--folder", str(tmp_path)]) == 2
    assert "holds no results" in capsys.readouterr().err


def test_an_unknown_part_is_refused_with_the_known_ones(capsys):
    assert main(["--only", "no such part", "--only", "nor this"]) == 2
    said = capsys.readouterr().err
    assert "'no such part' or 'nor this': ceilings, kernels" in said


def test_a_list_of_parts_runs_none(capsys):
    assert main(["--list", "--on", "interpret"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(PARTS)


def test_the_wheels_are_those_that_ci_installs():
    from tools.gpu_day.wheels import command, pinned

    assert pinned(["a-b", "c"], "a-b==1.2\nab==3\n") == ["a-b==1.2", "c"]
    words = command("3.12", "folder", ["a-b==1.2"])
    assert words[-3:] == ["-d", "folder", "a-b==1.2"]
    assert "--only-binary=:all:" in words
