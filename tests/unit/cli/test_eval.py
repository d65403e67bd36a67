"""`heddle eval` on a server that answers from a function."""

import json

import pytest

from heddle.app.server import Server
from heddle.cli.main import main
from heddle.core.errors import InputError
from tests.helpers.fake_endpoint import FakeEndpoint
from tests.unit.evals.answering import AnsweringServer, answer
from tests.unit.evals.data_files import write_lines

CAPITALS = {"Portugal": "Lisbon", "Spain": "Madrid", "Peru": "Lima", "Chad": "N'Djamena"}


@pytest.fixture
def notes(tmp_path):
    rows = [
        {
            "id": country,
            "kind": "single_hop" if index % 2 else "coreference",
            "passages": [{"id": country, "title": country, "text": f"Its capital is {city}."}],
            "question": f"What is the capital of {country}?",
            "answers": [city],
        }
        for index, (country, city) in enumerate(CAPITALS.items())
    ]
    return str(write_lines(tmp_path / "notes.jsonl", rows))


@pytest.fixture
def serve(monkeypatch):
    """Replace the real server by a fake one; return the configs that servers were started with."""
    started = []

    def use(reply):
        def start(config):
            started.append(config)
            return AnsweringServer(reply)

        monkeypatch.setattr(Server, "from_config", start)
        return started

    return use


def knows(inputs):
    country = inputs["query"].removeprefix("What is the capital of ").removesuffix("?")
    return answer(CAPITALS[country], inputs.get("docs", ()))


def is_wrong_about_peru(inputs):
    return answer("Cusco", inputs["docs"]) if "Peru" in inputs["query"] else knows(inputs)


def run(*arguments):
    return main(["eval", *map(str, arguments)])


def test_own_passages_and_the_shape_of_the_result(notes, serve, tmp_path, capsys):
    started = serve(is_wrong_about_peru)
    path = tmp_path / "result.json"
    assert run(notes, "--kv-reuse", "full", "--json", path, "--model", "m") == 0
    assert [(config.generator, config.index) for config in started] == [("m", None)]
    shown = capsys.readouterr().out
    assert "notes, own passages" in shown
    assert "coreference" in shown
    result = json.loads(path.read_text())
    assert {"name", "machine", "versions", "seed", "settings", "rows", "headline"} <= set(result)
    assert result["headline"] == {"coreference": 0.5, "single_hop": 1.0}
    assert result["settings"]["method"] == "full"
    assert [row["answer"] for row in result["rows"]] == ["Lisbon", "Madrid", "Cusco", "N'Djamena"]
    by_kind = {one["kind"]: one for one in result["by_kind"]}
    assert by_kind["all"]["means"]["word_overlap"]["mean"] == 0.75
    assert by_kind["all"]["means"]["answer_in_passages"]["mean"] == 1.0


def test_a_sample_by_seed(notes, serve, tmp_path):
    serve(knows)
    path = tmp_path / "result.json"
    seen = []
    for seed in (0, 0, 1, 2, 3):
        assert run(notes, "--questions", 2, "--seed", seed, "--json", path) == 0
        seen.append([row["id"] for row in json.loads(path.read_text())["rows"]])
    assert seen[0] == seen[1]
    assert len({tuple(ids) for ids in seen}) > 1
    assert all(len(ids) == 2 for ids in seen)


def test_an_index_is_searched_with_the_workflow(notes, serve, tmp_path, capsys):
    started = serve(knows)
    path = tmp_path / "result.json"
    arguments = ("--index", tmp_path, "--workflow", "hyde", "--topk", 7, "--embedder", "e")
    assert run(notes, *arguments, "--json", path) == 0
    (config,) = started
    assert (config.generator, config.index, config.embedder) == ("extract", tmp_path, "e")
    settings = json.loads(path.read_text())["settings"]
    assert (settings["workflow"], settings["topk"]) == ("hyde", 7)
    assert "retrieved passages" in capsys.readouterr().out


def test_a_run_is_compared_with_earlier_ones(notes, serve, tmp_path, capsys):
    paths = {name: tmp_path / f"{name}.json" for name in ("full", "reuse", "here")}
    serve(knows)
    run(notes, "--json", paths["full"])
    serve(lambda inputs: answer("nothing", inputs["docs"]))
    run(notes, "--json", paths["reuse"])
    serve(is_wrong_about_peru)
    capsys.readouterr()
    arguments = ("--against", paths["full"], "--reuse", paths["reuse"], "--json", paths["here"])
    assert run(notes, *arguments) == 0
    shown = capsys.readouterr().out
    assert "paired by question" in shown
    assert "normalised F1: 75%" in shown
    result = json.loads(paths["here"].read_text())
    exact = next(one for one in result["differences"] if one["metric"] == "exact_match")
    assert exact["difference"]["mean"] == -0.25
    assert result["normalized_f1"]["share"]["mean"] == 0.75
    assert result["normalized_f1"]["f1_full_reuse"]["mean"] == 0.0


def test_failures_are_counted_and_told(notes, serve, capsys):
    serve(lambda i: InputError("the prompt has 9 tokens") if "Peru" in i["query"] else knows(i))
    assert run(notes) == 0
    streams = capsys.readouterr()
    assert "failed" in streams.out
    assert "1 without an answer, such as: the prompt has 9 tokens" in streams.err
    serve(lambda inputs: InputError("the prompt has 9 tokens"))
    assert run(notes) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--workflow", "oneshot"), "workflow 'oneshot' retrieves: name an index with --index"),
        (("--oracle-passage", "--index", "d"), "retrieves nothing: leave --index out"),
        (("--oracle-passage",), "nobody marked the gold passages of notes"),
        (("--reuse", "r.json"), "--reuse needs --against"),
        (("--against", "gone.json"), "gone.json can't be read"),
        (("--topk", "3"), "--topk is for a search: name an index"),
        (("--topk", "0", "--index", "d"), "topk must be an integer from 1 to 1000"),
        (("--workflow", "nope", "--index", "d"), "workflow 'nope' is unknown"),
        (("--questions", "0"), "questions must be at least 1"),
    ],
)
def test_refusals_come_before_the_server_starts(notes, serve, capsys, arguments, message):
    started = serve(knows)
    assert run(notes, *arguments) == 2
    assert message in capsys.readouterr().err
    assert not started


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            "fusion",
            "'fusion' is unknown; write POLICY[,RATIO][,OPTION...]: policies full, full_reuse",
        ),
        ("fusionrag,2", "kv_reuse.ratio is 2.0; it is a share of tokens, from 0 to 1, or 'auto'"),
        (
            "epic,with_context",
            "kv_reuse.question 'with_context' is an option of fusionrag, not of epic",
        ),
    ],
)
def test_an_unknown_method_is_refused_with_what_is_known(notes, capsys, method, message):
    with pytest.raises(SystemExit) as ended:
        run(notes, "--kv-reuse", method)
    assert ended.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_with_reuse_every_passage_is_first_computed_alone(notes, serve, capsys):
    seen = serve(knows)
    assert run(notes, "--kv-reuse", "full_reuse") == 0
    assert "each passage's KV on its own" in capsys.readouterr().out
    assert seen


def test_list_names_the_data_sets_and_the_formats_of_files(capsys):
    assert run("list") == 0
    shown = capsys.readouterr().out
    assert "wiki_single" in shown.split()
    assert "hotpot_dev_distractor_v1.json" in shown
    assert "WikiQA.tsv" in shown


def test_a_published_file_is_asked_with_its_gold_passages(serve, tmp_path, capsys):
    serve(knows)
    context = [["Peru", ["It has mountains.", " Its capital is Lima."]], ["Chad", ["Hot."]]]
    hotpot = {"_id": "h", "question": "What is the capital of Peru?", "answer": "Lima"}
    hotpot |= {"type": "bridge", "context": context, "supporting_facts": [["Peru", 1]]}
    path, result = tmp_path / "hotpot_dev.json", tmp_path / "result.json"
    path.write_text(json.dumps([hotpot]))
    assert run(path, "--oracle-passage", "--json", result) == 0
    (row,) = json.loads(result.read_text())["rows"]
    assert (row["answer"], row["kind"], row["answers"]) == ("Lima", "bridge", ["Lima"])
    assert "hotpot_dev, oracle passages" in capsys.readouterr().out
    path.write_text(json.dumps([hotpot | {"answer": 3}]))
    assert run(path) == 2
    assert "hotpot_dev.json, item 0: field 'answer' must be a string" in capsys.readouterr().err


def test_the_extractor_quotes_from_passages_that_are_given(notes, serve):
    started = serve(knows)
    assert run(notes) == 0
    assert started[0].generator == "extract"


def test_declining_needs_a_corpus(notes, serve, monkeypatch, tmp_path, capsys):
    serve(knows)
    monkeypatch.setenv("HEDDLE_DATA", str(tmp_path / "nowhere"))
    assert run(notes, "--unanswerable") == 2
    assert "HEDDLE_DATA" in capsys.readouterr().err
    assert run(notes, "--unanswerable", "--oracle-passage") == 2
    assert "--oracle-passage retrieves nothing" in capsys.readouterr().err


def test_a_judge_rates_what_the_passages_support(notes, serve, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HEDDLE_REMOTE_KEY", "sk-never-shown")
    serve(is_wrong_about_peru)

    def writes(prompt):
        if "Passages:" not in prompt:
            city = prompt.split()[-1]
            return "Chad?" if city == "N'Djamena" else json.dumps(["It is a capital.", city])
        return "[1, 0]" if "Cusco" in prompt else "[1, 1]"

    path = tmp_path / "result.json"
    with FakeEndpoint(writes=writes) as judge:
        assert run(notes, "--judge", judge.url, "--json", path) == 0
        assert judge.generations[0].headers["authorization"] == "Bearer sk-never-shown"
    streams = capsys.readouterr()
    assert "judged faithfulness: 0.833" in streams.out
    assert "(5 of 6 statements supported, in 3 answers)" in streams.out
    assert "questions, answers and their passages go to http://127.0.0.1" in streams.err
    assert "not judged: 1 (malformed replies: 1, no reply: 0)" in streams.err
    written = path.read_text()
    assert "sk-never-shown" not in streams.out + streams.err + written
    result = json.loads(written)
    headline = result["headline"]
    assert headline["judged_faithfulness"] == pytest.approx(5 / 6)
    assert (headline["judged_statements"], headline["unjudged_malformed"]) == (6, 1)
    peru, chad = result["rows"][2]["judgement"], result["rows"][3]["judgement"]
    assert [one["is_supported"] for one in peru["statements"]] == [True, False]
    assert chad["unjudged"] == "malformed"
    means = result["by_kind"][-1]["means"]["judged_faithfulness"]
    assert means["low"] <= means["mean"] <= means["high"]


def test_a_run_whose_judge_says_nothing_readable_has_failed(notes, serve):
    serve(knows)
    with FakeEndpoint(words=("Maybe.",)) as judge:
        assert run(notes, "--judge", judge.url) == 1


def test_a_judge_that_is_not_there_is_told_before_the_run(notes, serve, capsys):
    started = serve(knows)
    with FakeEndpoint() as judge:
        gone = judge.url
    assert run(notes, "--judge", gone) == 2
    assert f"--judge: {gone} can't be reached" in capsys.readouterr().err
    assert not started
