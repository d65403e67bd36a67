from heddle.evals.manuals import help_page as module
from heddle.evals.manuals.help_page import help_page


def test_a_tool_says_how_it_is_used():
    page = help_page(("-m", "zipfile", "--help"))
    assert page.name == "command-zipfile.txt"
    assert page.text.startswith("python -m zipfile\n\nusage: ")
    assert "Test if a zipfile is valid" in page.text


def test_the_page_is_the_same_in_every_terminal(monkeypatch):
    before = help_page(("-m", "zipfile", "--help"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert help_page(("-m", "zipfile", "--help")) == before


def test_a_users_settings_of_pip_are_not_shown(monkeypatch):
    seen = []
    monkeypatch.setenv("PIP_TIMEOUT", "77")
    monkeypatch.setattr(module.subprocess, "run", lambda *_, env, **__: seen.append(env) or FAILED)
    assert help_page(("-m", "pip", "--help")) is None
    assert "PIP_TIMEOUT" not in seen[0]


class FAILED:
    returncode = 1


def test_a_tool_that_fails_has_no_page():
    assert help_page(("-m", "no_such_tool_anywhere", "--help")) is None


def test_a_tool_that_takes_too_long_has_no_page(monkeypatch):
    monkeypatch.setattr(module, "SECONDS_MAX", 0.001)
    assert help_page(("-c", "import time; time.sleep(60)")) is None
