import pytest

from benchmarks.virtual.clocked_server import VirtualAsk
from benchmarks.virtual.machine import Machine, llm_limits
from benchmarks.virtual.recorded_requests import recorded_requests
from benchmarks.virtual.scripts import DRAWN, Lengths, drawn_scripts, recorded_script
from benchmarks.virtual.server import VirtualServer, Way
from heddle.core.payloads import PrefillPayload, SearchPayload

from .test_recorded_requests import IRG, MULTISTEP

MACHINE = Machine(
    llm_s={"call": 3e-3, "decode_tokens": 8e-4, "prefill_tokens": 1.5e-4, "context_tokens": 1e-6},
    embedding_s={"call": 5e-3, "tokens": 2e-4, "texts": 1e-4},
    vector_s={"call": 1e-4, "lists": 2e-3, "scans": 1e-5, "rows": 5e-4},
    nlist=64,
    nprobe_default=24,
    llm=llm_limits(16, 512, 1 << 16),
)


class Heard:
    """An engine whose calls are kept."""

    def __init__(self, engine):
        self._engine, self.payloads = engine, []

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def apply(self, command):
        if hasattr(command, "task"):
            self.payloads.append(command.task.payload)
        self._engine.apply(command)


def payloads_of(script):
    server = VirtualServer(MACHINE, Way(), (100,))
    heard = []
    for port in server.ports:
        port.engine = Heard(port.engine)
        heard.append(port.engine)
    (taken_s,) = server.serve([VirtualAsk(script.workflow, script.inputs(7), 0.0)])
    assert taken_s > 0
    return [payload for one in heard for payload in one.payloads]


def prompts(payloads):
    return [len(p.token_ids) for p in payloads if isinstance(p, PrefillPayload)]


def test_a_recorded_list_has_as_many_items_and_its_prompts_as_many_tokens() -> None:
    (request,) = recorded_requests({"requests": [MULTISTEP]}, "here")
    found = payloads_of(recorded_script(request))
    assert sum(p.rows for p in found if isinstance(p, SearchPayload)) == 3
    plan, *_, answer = prompts(found)
    assert plan == 5 + 20 + 17
    assert 5 + 10 + 17 + 500 <= answer <= 5 + 10 + 17 + 1500  # five to fifteen passages of 100


def test_a_loop_that_finds_nothing_new_asks_only_once() -> None:
    (request,) = recorded_requests({"requests": [IRG]}, "here")
    assert len(prompts(payloads_of(recorded_script(request)))) == 1


def test_a_larger_model_writes_more_and_the_list_keeps_its_items() -> None:
    (request,) = recorded_requests({"requests": [MULTISTEP]}, "here")
    script = recorded_script(request).writing("decompose", 60)
    assert script.written("decompose") == 60
    found = payloads_of(script)
    assert sum(p.rows for p in found if isinstance(p, SearchPayload)) == 3


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_workflows_run_to_their_end(name) -> None:
    script = drawn_scripts(Lengths(answer=6, summary=30, plan=12), 18, 10)[name]
    assert prompts(payloads_of(script))
