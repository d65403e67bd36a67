"""Files that break their parser: named by `heddle index`, and the others are indexed."""

from pathlib import Path
from typing import Any

import psutil
import pytest

from heddle.cli.main import main
from heddle.corpus.parsing.guarded_parser import GuardedParser


@pytest.mark.usefixtures("inline")
def test_a_file_that_kills_its_parser_costs_itself_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    pages = tmp_path / "pages"
    pages.mkdir()
    for name in ("a", "b", "c"):
        (pages / f"{name}.html").write_text(f"<h1>{name}</h1><p>Page {name} tells of a ferry.</p>")
    ask, receive = GuardedParser._ask, GuardedParser._receive
    pids: list[int] = []

    def stop_at_b(parser: GuardedParser, path: Path) -> object:
        if path.name == "b.html":  # so that it doesn't answer before it is killed
            psutil.Process(parser.pid).suspend()
        return ask(parser, path)

    def kill_at_b(parser: GuardedParser, *arguments: Any) -> object:
        assert parser.pid is not None
        pids.append(parser.pid)
        if len(pids) == 2:
            psutil.Process(parser.pid).kill()
        return receive(parser, *arguments)

    monkeypatch.setattr(GuardedParser, "_ask", stop_at_b)
    monkeypatch.setattr(GuardedParser, "_receive", kill_at_b)
    assert main(["index", str(pages), "--into", str(tmp_path / "corpus")]) == 1
    out, err = capsys.readouterr()
    assert "documents: 2 new" in out
    assert "b.html: its parser broke down (SIGKILL)" in out + err
    assert pids[0] == pids[1] != pids[2]
    assert not any(psutil.pid_exists(pid) for pid in pids)
