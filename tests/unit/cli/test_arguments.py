"""Arguments that several commands take."""

import argparse
from pathlib import Path

import pytest

from heddle.app.server_config import ServerConfig
from heddle.cli.arguments import (
    add_json,
    add_models,
    add_scope,
    model_limits,
    search_scope,
    server_settings,
)
from heddle.core.tasks import Optimizations


@pytest.fixture
def parser():
    parser = argparse.ArgumentParser()
    add_models(parser)
    return parser


def test_the_limits_of_a_model_reach_the_server_by_its_names(parser):
    options = parser.parse_args(["--context-tokens-max", "4096", "--kv-bytes", "2GiB"])
    assert model_limits(options) == {"context_tokens_max": 4096, "kv_bytes": 2 << 30}
    assert model_limits(parser.parse_args([])) == {"context_tokens_max": None, "kv_bytes": None}


@pytest.mark.parametrize(
    ("size", "count"),
    [("1000", 1000), ("3k", 3 << 10), ("512M", 512 << 20), ("1gb", 1 << 30), ("1GiB", 1 << 30)],
)
def test_a_size_in_bytes(parser, size, count):
    assert model_limits(parser.parse_args(["--kv-bytes", size]))["kv_bytes"] == count


@pytest.mark.parametrize("size", ["", "much", "-1", "1.5G", "2T"])
def test_what_is_no_size_is_refused(parser, size, capsys):
    with pytest.raises(SystemExit):
        parser.parse_args([f"--kv-bytes={size}"])
    assert "512M, 2G or plain bytes" in capsys.readouterr().err


def test_how_chunk_kv_is_kept_reaches_the_server_by_its_names(parser):
    told = parser.parse_args(["--kv-host", "2G", "--kv-disk", "3G", "--kv-encoding", "int8"])
    named = ("chunk_kv_bytes", "chunk_kv_disk_bytes", "chunk_kv_encoding")
    assert [server_settings(told)[name] for name in named] == [2 << 30, 3 << 30, "int8"]
    by_default = server_settings(parser.parse_args([]))
    assert [by_default[name] for name in named] == [256 << 20, None, "bf16"]
    assert ServerConfig(**server_settings(told)).chunk_kv_encoding == "int8"


def test_the_effort_of_a_graph_reaches_the_server(parser):
    settings = server_settings(parser.parse_args(["--topm", "200"]))
    assert ServerConfig(**settings).topm == 200
    assert server_settings(parser.parse_args([]))["topm"] is None


def test_the_time_of_a_search_before_a_prefill_reaches_the_server_in_seconds(parser):
    assert server_settings(parser.parse_args(["--pool-slo-ms", "20"]))["pool_slo_s"] == 0.02
    assert server_settings(parser.parse_args([]))["pool_slo_s"] is None


def test_spill_between_devices_can_be_switched_off(parser):
    assert server_settings(parser.parse_args(["--heterogeneous", "off"]))["heterogeneous"] is False
    assert server_settings(parser.parse_args([]))["heterogeneous"] is True


@pytest.mark.parametrize("time", ["0", "-1", "soon", "nan", "inf"])
def test_what_is_no_time_is_refused_by_the_option_s_own_name(parser, time, capsys):
    with pytest.raises(SystemExit):
        parser.parse_args([f"--pool-slo-ms={time}"])
    assert f"--pool-slo-ms: '{time}' is no time" in capsys.readouterr().err


def test_a_result_may_go_to_a_folder_that_is_to_be_made(tmp_path: Path):
    parser = argparse.ArgumentParser()
    add_json(parser)
    path = tmp_path / "results" / "one.json"
    assert parser.parse_args(["--json", str(path)]).json == path
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize(
    ("path", "words"), [("file/one.json", "can't be written"), ("folder", "is a folder")]
)
def test_a_result_that_has_no_place_is_refused_at_once(path: str, words: str, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    parser = argparse.ArgumentParser()
    add_json(parser)
    with pytest.raises(SystemExit) as stop:
        parser.parse_args(["--json", str(tmp_path / path)])
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


def test_filters_of_one_key_are_alternatives(capsys):
    parser = argparse.ArgumentParser()
    add_scope(parser)
    assert search_scope(parser.parse_args([])) == {"where": {}, "tenant": ""}
    filters = [f"--where={text}" for text in ("lang=en", "year=2021", "lang=a=b")]
    assert search_scope(parser.parse_args([*filters, "--tenant=ann"])) == {
        "where": {"lang": ["en", "a=b"], "year": ["2021"]},
        "tenant": "ann",
    }
    for text in ("lang", "=en", ""):
        with pytest.raises(SystemExit):
            parser.parse_args(["--where", text])
        assert "write KEY=VALUE" in capsys.readouterr().err


def test_a_promised_recall_reaches_the_server_and_allows_approximate_answers(parser):
    settings = server_settings(parser.parse_args(["--search", "target:0.9"]))
    assert (settings["search"], settings["optimizations"]) == ("target:0.9", Optimizations.APPROX)
    for text in ("exact", "speculative"):
        settings = server_settings(parser.parse_args(["--search", text]))
        assert (settings["search"], settings["optimizations"]) == (text, Optimizations.EXACT)
    assert server_settings(parser.parse_args([]))["search"] == "exact"


def test_what_is_no_way_to_search_is_refused(parser, capsys):
    with pytest.raises(SystemExit):
        parser.parse_args(["--search", "target"])
    assert "such as target:0.95" in capsys.readouterr().err


def test_llm_lanes_have_roles(parser, capsys):
    assert server_settings(parser.parse_args([]))["llm_lanes"] == "both"
    options = parser.parse_args(["--llm-lanes", "prefill,decode"])
    assert server_settings(options)["llm_lanes"] == "prefill,decode"
    with pytest.raises(SystemExit):
        parser.parse_args(["--llm-lanes", "prefill"])
    assert "--llm-lanes: llm_lanes is 'prefill': no lane decodes" in capsys.readouterr().err
