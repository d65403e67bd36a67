"""A graph is searched on a GPU where one has room for it, and the plan says where and why."""

import math

import pytest

from heddle.app.assembly import graph_device
from heddle.app.assembly.device_memory import DeviceMemory
from heddle.app.assembly.graph_device import GraphDevice, choose_graph_device
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError
from heddle.hosts.machine import MachineFacts

GIB = 1 << 30
ROOM = DeviceMemory(80 * GIB, 40 * GIB)


def chosen(monkeypatch, gpus=("a GPU",), size=GIB, memory=ROOM, triton=True, **settings):
    monkeypatch.setattr(graph_device, "find_spec", lambda name: triton or None)
    facts = MachineFacts((0,), math.inf, "Test", frozenset(), GIB, GIB, gpus)
    config = ServerConfig.of(None, "corpus", settings)
    return choose_graph_device(config, facts, size, memory)


def test_auto_takes_a_gpu_with_room(monkeypatch):
    assert chosen(monkeypatch) == GraphDevice("cuda:0", GIB, "on cuda:0, 1,024 MiB")
    assert chosen(monkeypatch, memory=None, graph_device="cuda").is_gpu


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"gpus": ()}, "no NVIDIA GPU"),
        ({"triton": False}, "triton is not installed"),
        ({"size": 11 * GIB}, "it takes 11,264 MiB of the 40,960 MiB that the GPU has free"),
        ({"memory": None}, "memory isn't known"),
        ({"device": "cpu"}, "device is cpu"),
        ({"graph_device": "cpu"}, "graph_device is cpu"),
    ],
)
def test_elsewhere_the_hosts_cores_search_it_and_the_plan_says_why(monkeypatch, changes, why):
    found = chosen(monkeypatch, **changes)
    assert not found.is_gpu
    assert why in found.why


def test_an_index_of_lists_is_no_matter_of_it(monkeypatch):
    assert chosen(monkeypatch, size=0, graph_device="cuda") == GraphDevice()


@pytest.mark.parametrize(("changes", "why"), [({"gpus": ()}, "GPU"), ({"triton": False}, "triton")])
def test_a_gpu_that_is_wanted_and_not_there_is_refused(monkeypatch, changes, why):
    with pytest.raises(ConfigError, match=rf"graph_device is cuda, and .*{why}.*use cpu or auto"):
        chosen(monkeypatch, graph_device="cuda", **changes)
