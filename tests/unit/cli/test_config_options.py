"""The flags of a server's settings, and which value counts."""

import argparse
from pathlib import Path

import pytest

from heddle.app.server_config import ServerConfig
from heddle.app.setting import fields_of
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import (
    add_config,
    add_index,
    check_text,
    choices,
    http_config,
    server_config,
)
from heddle.cli.main import command_parser, main
from heddle.core.errors import ConfigError
from heddle.core.tasks import Optimizations
from heddle.corpus.store import CorpusStore
from heddle.server.http_config import HttpConfig
from tests.unit.app.test_config_sources import text_of


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def parser() -> CommandParser:
    parser = CommandParser(prog="heddle test")
    add_config(parser, without=())
    return parser


def given(field, text: str) -> list[str]:
    if isinstance(field.default, bool):
        return [f"--no-{field.flag.removeprefix('--')}"]
    return [f"{field.flag}={text}"]


@pytest.mark.parametrize("field", fields_of(ServerConfig).values(), ids=lambda field: field.name)
def test_every_field_of_a_server_has_a_flag(field, parser: CommandParser):
    text = text_of(field)
    options = parser.parse(given(field, text))
    choice = choices(options, ServerConfig)[field.name]
    assert (choice.value, choice.source) == (field.read(text), field.flag)


@pytest.mark.parametrize("field", fields_of(HttpConfig).values(), ids=lambda field: field.name)
def test_every_field_of_the_http_front_has_a_flag(field):
    text = "::1" if field.name == "host" else "9"
    options = command_parser("serve").parse(["corpus", *given(field, text)])
    wanted = False if isinstance(field.default, bool) else field.read(text)
    assert getattr(http_config(options), field.name) == wanted


@pytest.mark.parametrize("command", ["ask", "serve", "eval", "explain", "doctor"])
def test_a_command_with_a_server_has_every_flag(command: str):
    flags = command_parser(command).flags
    missing = {one.flag for one in fields_of(ServerConfig).values()} - set(flags)
    named_otherwise = {
        "ask": {"--index", "--reprime"},
        "serve": {"--index"},
        "explain": {"--index"},
    }
    assert missing == named_otherwise.get(command, set())


def test_what_is_not_given_has_its_default(parser: CommandParser):
    assert server_config(parser.parse([])) == ServerConfig()


def test_a_command_s_own_values_count_most(parser: CommandParser):
    options = parser.parse(["--shards=2", "--topm=5"])
    config = server_config(options, only=("topm",), index="corpus", reprime=False)
    assert (config.index, config.reprime, config.topm, config.shards) == ("corpus", False, 5, 1)


def test_flag_environment_file_default(
    parser: CommandParser, here: Path, monkeypatch: pytest.MonkeyPatch
):
    (here / "mine.toml").write_text("shards = 2\ntopm = 5\nnprobe = 7\nport = 99\n")
    monkeypatch.setenv("HEDDLE_SHARDS", "3")
    monkeypatch.setenv("HEDDLE_TOPM", "6")
    config = server_config(parser.parse(["--config", "mine.toml", "--shards", "4"]))
    assert (config.shards, config.topm, config.nprobe, config.max_num_seqs) == (4, 6, 7, 16)


def test_the_corpus_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch):
    parser = CommandParser(prog="heddle test")
    add_index(parser)
    parser.add_argument("question")
    with pytest.raises(
        ConfigError, match=r"index is missing: name the corpus directory.*HEDDLE_INDEX"
    ):
        server_config(parser.parse(["why?"]), needs=("index",))
    monkeypatch.setenv("HEDDLE_INDEX", "corpus")
    assert server_config(parser.parse(["why?"]), needs=("index",)).index == "corpus"
    options = parser.parse(["other", "why?"])
    assert (server_config(options).index, options.question) == ("other", "why?")


def test_a_corpus_in_the_place_of_the_question(tmp_path: Path, capsys):
    with CorpusStore.open(tmp_path / "corpus", create=True):
        pass
    assert main(["ask", "corpus"]) == 2
    assert 'question is missing: write it behind the corpus: corpus "your question"' in (
        capsys.readouterr().err
    )
    assert main(["search", "corpus"]) == 2
    assert 'corpus "your query"' in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_text_that_is_empty_is_refused_before_a_server_starts(text: str, capsys):
    for command, name in (("ask", "question"), ("search", "query")):
        assert main([command, "no corpus", text]) == 2
        assert f"{name} is empty: ask something" in capsys.readouterr().err


def test_a_question_may_be_longer_than_a_path():
    check_text(argparse.Namespace(question="why " * 2_000), "question")


@pytest.mark.parametrize(
    "arguments",
    [
        ["corpus", "why?", "--topk", "3"],
        ["corpus", "--topk", "3", "why?"],
        ["--topk", "3", "corpus", "why?"],
    ],
)
def test_options_may_stand_between_the_arguments(arguments: list[str]):
    options = command_parser("ask").parse(arguments)
    assert (options.index, options.question, options.topk) == ("corpus", "why?", 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--kv-cache-bytes=much", "--kv-cache-bytes: kv_cache_bytes must be a size such as 512M"),
        (
            "--search-pool-slo-s=soon",
            "--search-pool-slo-s: search_pool_slo_s must be a number above",
        ),
        (
            "--recall=target:0.9",
            "--recall: recall must be a number above 0 and below 1, or 'exact'",
        ),
        ("--llm-lanes=prefill", "--llm-lanes: llm_lanes is 'prefill': no lane decodes"),
        ("--kv-reuse=epic,2", "--kv-reuse: kv_reuse.ratio is 2.0"),
        ("--hot-clusters=warm", "--hot-clusters: hot_clusters: need auto, off or a share"),
        ("--shards=0", "--shards: shards must be an integer from 1 to 64, got 0"),
    ],
)
def test_what_is_refused_is_named_by_its_flag(parser: CommandParser, text: str, words: str, capsys):
    with pytest.raises(SystemExit):
        parser.parse([text])
    assert f"argument {words}" in capsys.readouterr().err


def test_what_approximates_allows_approximate_answers(parser: CommandParser):
    for flag in ("--recall=0.9", "--kv-reuse=epic"):
        config = server_config(parser.parse([flag]))
        assert config.optimizations_max is Optimizations.APPROX
    config = server_config(parser.parse(["--recall=exact", "--speculate=always"]))
    assert config.optimizations_max is Optimizations.EXACT
    with pytest.raises(ConfigError, match=r"recall 0\.9 gives approximate answers"):
        server_config(parser.parse(["--recall=0.9", "--optimizations=exact"]))


@pytest.mark.parametrize("field", fields_of(ServerConfig).values(), ids=lambda field: field.name)
def test_a_misspelt_flag_is_refused_with_the_right_one(field, parser: CommandParser, capsys):
    misspelt = f"{field.flag}x"
    with pytest.raises(SystemExit):
        parser.parse([f"{misspelt}=1"])
    said = capsys.readouterr().err
    assert f"unrecognized arguments: {misspelt}=1; did you mean --" in said


def test_a_flag_of_names_may_be_repeated(here: Path):
    (here / "heddle.toml").write_text('workflow = ["mine.py:first"]\n')
    parse = command_parser("serve").parse
    assert http_config(parse(["corpus"])).workflows == {"mine.py:first"}
    options = parse(["corpus", "--workflow", "a.py:x", "--workflow", "b.py:y"])
    assert http_config(options).workflows == {"a.py:x", "b.py:y"}


def test_a_flag_that_is_no_setting_is_not_taken_for_a_misspelt_one(here: Path):
    (here / "heddle.toml").write_text("topk = 3\n")
    options = command_parser("ask").parse(["corpus", "a question"])
    with pytest.raises(ConfigError, match="'topk' is no setting: give --topk with the command"):
        choices(options, ServerConfig)


def test_a_flag_is_written_out(parser: CommandParser, capsys):
    with pytest.raises(SystemExit):
        parser.parse(["--shard", "2"])
    assert "did you mean --shards?" in capsys.readouterr().err


def test_help_and_help_all(capsys):
    def shown(command: str, flag: str) -> str:
        with pytest.raises(SystemExit) as stop:
            command_parser(command).parse([flag])
        assert stop.value.code == 0
        return capsys.readouterr().out

    for command, lines in (("ask", 25), ("serve", 30)):
        short, whole = shown(command, "--help"), shown(command, "--help-all")
        assert len(short.splitlines()) <= lines
        assert "--kv-reuse-disk-bytes" not in short
        assert all(
            one.flag[2:] in whole
            for one in fields_of(ServerConfig).values()
            if one.name != "reprime"
        )
        assert "Namespace" not in short + whole


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_the_usage_of_a_command_is_one_line():
    parser = command_parser("ask")
    assert parser.parse(["corpus", "why?"]).question == "why?"
    assert parser.format_help().splitlines()[0] == 'usage: heddle ask [DIR] "question" [options]'
    assert isinstance(parser, argparse.ArgumentParser)
